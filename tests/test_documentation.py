"""What the READMEs and the help say is there and current."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from tests.readmes import READMES, ROOT, blocks_of, options_of, text_of
from tokur_cli.app import app

FRONT = Path("README.md")
COMMANDS = get_command(app).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_an_example_and_a_place_on_the_front_page(name):
    assert COMMANDS[name].help
    assert re.search(rf"^(.*\| )?(\.venv/bin/)?tokur {name} ", text_of(FRONT), flags=re.MULTILINE)


@pytest.mark.parametrize("readme", READMES, ids=str)
def test_options_that_a_readme_shows_exist(readme):
    options = {
        name: {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        for name, command in COMMANDS.items()
    }
    for block in blocks_of(readme):
        for name, words in re.findall(r"\btokur (\w+) ([^#|>;\n]*)", "\n".join(block)):
            assert name in options, f"tokur {name}"
            assert {word for word in words.split() if re.match(r"--?[a-z]", word)} <= options[name], words


@pytest.mark.parametrize("readme", READMES, ids=str)
def test_a_readmes_links_lead_somewhere(readme):
    text = re.sub(r"^```.*?^```", "", text_of(readme), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / readme.parent / name).resolve() if name else ROOT / readme
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


def anchors(text):
    """Of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    }


def test_continuous_integration_installs_and_scores_as_the_front_page_says():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    blocks = [line for block in blocks_of(FRONT) for line in block]
    assert blocks[0] == "python3 -m venv .venv && .venv/bin/pip install ."
    assert re.search(r"^pip install [^\n]* \.$", script, flags=re.MULTILINE)
    (picture,) = (line for line in blocks if line.startswith("head -n 3"))
    assert picture.replace(".venv/bin/", "") in script
    (scoring,) = (line for line in blocks if line.endswith("> scored.jsonl"))
    assert scoring.partition(" >")[0] in script


@pytest.mark.parametrize("name", COMMANDS)
def test_reference_lists_the_options_of_a_commands_help(run_tokur, name):
    assert f"- **{name}**: {options_of(run_tokur(name, '--help')[1])}.\n" in text_of(Path("samples/reference.md"))
