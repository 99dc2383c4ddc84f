"""What the README and the help say is there and current."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from tokur_cli.app import app
from tokur_cli.scores.catalogue import CATALOGUE

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = get_command(app).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_an_example_and_a_place_in_the_readme(name):
    command = COMMANDS[name]
    assert command.help
    assert f"tokur {name} " in command.epilog
    assert f"tokur {name} " in README
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_options_that_the_readme_shows_exist(name):
    options = {flag for parameter in COMMANDS[name].params for flag in (*parameter.opts, *parameter.secondary_opts)}
    for line in re.findall(rf"^tokur {name} ([^#|>\n]*)", README, flags=re.MULTILINE):
        assert {word for word in line.split() if re.match(r"--?[a-z]", word)} <= options, line


def test_every_score_is_in_the_readmes_table():
    rows = [line for line in README.splitlines() if line.startswith("| `")]
    for score in CATALOGUE.values():
        matching = [row for row in rows if f"`{score.name}`" in row.split("|")[1]]
        assert matching, score.name
        assert any(("lower" if score.orientation == "uncertainty" else "higher") in row for row in matching)


def test_continuous_integration_runs_the_readmes_commands():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "tokur score samples/responses.jsonl" in README
    assert "tokur score samples/responses.jsonl" in script
    assert ".venv/bin/pytest" in README
    assert re.search(r"^pytest", script, flags=re.MULTILINE)
