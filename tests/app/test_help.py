"""Help in two lengths: what ``-h`` leaves out, ``--help`` has, and the examples of both work."""

import json
import os
import re
import subprocess

import pytest
from typer.main import get_command

from tests.helpers import write_lines
from tests.readmes import ROOT
from tokur_cli.app import app
from tokur_cli.scores.catalogue import CATALOGUE

COMMANDS = get_command(app).commands


@pytest.fixture
def help_of(run_tokur, monkeypatch):
    def ask(*arguments, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = run_tokur(*arguments)
        assert (code, err) == (0 if arguments else 2, "")
        return out

    return ask


@pytest.mark.parametrize("name", COMMANDS)
def test_help_short_fits_a_screen_and_the_whole_one_has_every_option(help_of, name):
    short = help_of(name, "-h")
    assert len(short.splitlines()) <= 45
    assert all(f"tokur {name} " in example for example in COMMANDS[name].examples)
    for columns in (60, 80):
        text = help_of(name, "--help", columns=columns)
        assert max(map(len, text.splitlines())) <= columns
        named = set(re.findall(r"(?<![\w-])--[\w-]+", text))
    assert len(text.splitlines()) <= (150 if name == "generate" else 110)
    for parameter in COMMANDS[name].params:
        assert " ".join(parameter.help.split()) in " ".join(text.split())
    flags = {flag for command in COMMANDS.values() for parameter in command.params for flag in parameter.opts}
    assert named <= flags | {"--help", "--set"}, "none is broken at a hyphen"


def test_help_of_tokur_says_what_each_command_does(help_of):
    text = help_of("-h")
    assert len(text.splitlines()) <= 24
    assert all(re.search(rf"^  {name} .*[.?]$", text, flags=re.MULTILINE) for name in COMMANDS)
    assert help_of() == help_of("--help") == text


@pytest.mark.slow
def test_help_has_examples_that_work_one_after_the_other(tmp_path, programs, roomy_folder):
    """On the repository's samples, cut short and told to be of a model that takes no time."""
    (tmp_path / "samples").mkdir()
    for name in ("questions", "responses"):
        rows = [json.loads(line) for line in (ROOT / "samples" / f"{name}.jsonl").read_text().splitlines()[:9]]
        write_lines(tmp_path / "samples" / f"{name}.jsonl", [{**row, "tokur": {}} for row in rows])
    path = f"{programs}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "TOKUR_MODEL": str(roomy_folder), "OMP_NUM_THREADS": "1"}
    for example in [example for command in COMMANDS.values() for example in command.examples]:
        script = example.replace("tokur generate", "tokur generate --max-new-tokens 9")
        command = ["bash", "-o", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, example + done.stderr


def test_help_of_scores_explains_each(run_tokur):
    out = run_tokur("score", "--scores", "help")[1]
    assert all(re.search(rf"^ *{name} ", out, re.MULTILINE) for name in CATALOGUE)
