"""What a shell completes: asked as the scripts of ``--show-completion`` ask."""

import os
import subprocess
import sys
from typing import get_args

import pytest

from tests.commands.test_start import RUN
from tokur_cli.records.formats import FORMATS
from tokur_cli.scores.catalogue import CATALOGUE
from tokur_cli.views.heatmap.colours import Palette


@pytest.fixture
def completed(run_tokur, monkeypatch):
    """What bash is offered after a line; the last word is what is typed of one, empty after a space."""

    def complete(line):
        monkeypatch.setenv("_TOKUR_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        code, out, err = run_tokur()
        assert (code, err) == (0, "")
        return out.split()

    return complete


def beginning(names, begun):
    return [name for name in names if name.startswith(begun)]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tokur score --scores ", [*CATALOGUE, "default", "all", "help"]),
        ("tokur score --scores eu,ll", [f"eu,{name}" for name in beginning(CATALOGUE, "ll")]),
        ("tokur score --scores ll,eu,l", [f"ll,eu,{name}" for name in beginning(CATALOGUE, "l") if name != "ll"]),
        ("tokur evaluate --scores de", beginning(CATALOGUE, "de")),
        ("tokur evaluate in.jsonl --versus ll", beginning(CATALOGUE, "ll")),
        ("tokur evaluate --fit file --by eu,neg", ["eu,neg_length"]),
        ("tokur select --by eu", beginning(CATALOGUE, "eu")),
        ("tokur select --method ", ["maj", "wbon", "bon"]),
        ("tokur heatmap --sort tu", ["tu", "tu_mean"]),
        ("tokur heatmap --score eu,a", ["eu,au"]),
        ("tokur heatmap --palette ", [*get_args(Palette)]),
        ("tokur heatmap --palette red,g", ["red,green"]),
        ("tokur score --format op", beginning(FORMATS, "op")),
        ("tokur score --dtype b", ["bfloat16"]),
        ("tokur perturb -m ", ["smollm2-135m-instruct", "a/b-1B", "c"]),
        ("tokur perturb -m a", ["a/b-1B"]),
        ("tokur score --template ", ["chat", "raw", "math"]),
        ("tokur generate --guide s", ["self_certainty"]),
        ("tokur score --step-by ", ["auto", "lines", "sentences"]),
        ("tokur score --scores help --no-t", ["--no-tokens"]),
        ("tokur --version sel", ["select"]),
        ("tokur s", ["score", "select"]),
        ("tokur score ", []),
        ("tokur score --draws x --estimator k", ["kl"]),
    ],
)
def test_values_are_completed(completed, line, offered, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for folder in ("models--a--b-1B", "models--c", "datasets--a--d"):
        (tmp_path / folder).mkdir()
    assert completed(line) == offered


def test_all_commands_are_told_whole_by_a_shell_that_shows_what_they_do(run_tokur, monkeypatch):
    monkeypatch.setenv("_TOKUR_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "tokur ")
    code, out, _ = run_tokur()
    assert (code, len(out.splitlines())) == (0, 6)
    assert all(line.endswith((".", "?")) and "..." not in line for line in out.splitlines())


def test_completing_imports_nothing_heavy():
    environment = {**os.environ, "_TOKUR_COMPLETE": "complete_bash", "COMP_WORDS": "tokur score --scores eu_m"}
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, env={**environment, "COMP_CWORD": "3"}, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("eu_mean\n", "")
