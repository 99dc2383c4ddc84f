"""Options of all commands: what their marks do, how mistakes are said, and that each is declared in one place."""

import os
import subprocess
from dataclasses import make_dataclass
from typing import Annotated

import pytest
from typer import Option, Typer
from typer.main import get_command

from tests.helpers import SCORED, TOKUR, parsed, write_lines
from tokur_cli import Tokur
from tokur_cli.app import register
from tokur_cli.app.commands import evaluate, generate, heatmap, perturb, score, select
from tokur_cli.app.groups import Groups
from tokur_cli.app.python import filled
from tokur_cli.commands.options.marks import Relation, marks_of, names_of
from tokur_cli.engine.posterior.settings import SETTINGS
from tokur_cli.records.errors import UsageError


def test_option_relations_name_options_of_their_commands():
    for command in (perturb, generate, score, select, evaluate, heatmap):
        parameters = Groups(command).parameters
        named = {name for parameter in parameters for name in names_of(parameter)}
        for mark in [mark for parameter in parameters for mark in marks_of(parameter, Relation)]:
            assert {condition.partition("=")[0] for condition in mark.others} <= named, mark


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "tokur: no such command 'nothing'"),
        ("score --draws", "tokur score: option '--draws' requires an argument"),
        ("score --set max_line", "tokur score: option '--set max_line' requires an argument"),
        ("perturb --sweep 1 --sigma 1", "tokur perturb: --sweep contradicts --sigma: leave one of them out"),
        ("perturb in.jsonl", "tokur perturb: responses needs --sweep or --calibrate"),
        ("generate --guide eu -n 1", "tokur generate: --guide contradicts --samples 1: leave one of them out"),
        ("score --draws 2 --from-logprobs", "tokur score: --draws contradicts --from-logprobs: leave one of them out"),
        (
            "score --steps=( in",
            "tokur score: --steps (: this is no regular expression: missing ), unterminated subpattern at position 0",
        ),
        ("score --set weights_memory=1 in", "tokur score: --set weights_memory needs --set offload_dir"),
        ("heatmap --only correct --compare in", "tokur heatmap: --compare contradicts --only: leave one of them out"),
        ("evaluate --answer= in", "tokur evaluate: --answer: the expression is empty"),
        (
            "evaluate --scaling 50% in",
            "tokur evaluate: --scaling 50%: give numbers of responses, such as 16,32,64",
        ),
        (
            "evaluate --scaling 4 --stop-at 95%,50% in",
            "tokur evaluate: --stop-at 95%,50%: give probabilities between 0.5 and 1, such as 0.9,0.95",
        ),
        ("select --method \x1b[2J", "tokur select: --method: '\\x1b[2J' is not one of 'maj', 'wbon', 'bon'"),
    ],
)
def test_option_mistakes_are_one_line(run_tokur, line, said):
    assert run_tokur(*line.split(" ")) == (2, "", f"{said}\n")


@pytest.mark.parametrize("words", [["--set", "max_line=1"], ["--set=max_line=1"]])
def test_option_that_is_rare_is_given_by_set(run_tokur, tmp_path, words):
    path = write_lines(tmp_path / "in.jsonl", [{"response": "a" * 10**6}])
    assert "is longer than 1 MB" in run_tokur("select", path, *words)[2]


def test_option_from_python_is_checked_as_on_the_command_line(tiny_folder):
    with pytest.raises(UsageError, match="--alternatives contradicts --no-tokens"):
        Tokur(no_tokens=True, alternatives=2)
    with pytest.raises(UsageError, match="--set attempt_tokens: "):
        Tokur(attempt_tokens=0)
    assert list(Tokur().generate([], steps=False, score=False)) == []
    (response,) = Tokur(str(tiny_folder)).generate("Why?", max_new_tokens=4, stop="zz")
    assert response["tokur"]["generation"]["stop"] == ["zz"]


def test_option_takes_one_place(run_tokur, tiny_folder, tmp_path, capfd):
    """A field declared once is an option, its help and a keyword; one of the posterior is a setting of records, too."""
    group = make_dataclass("Group", [("dummy", Annotated[int, Option(min=1, help="A dummy.")], 3)], frozen=True)
    group.panel = "Dummies"
    seen = []

    def ask(*, group: group) -> None:
        """Ask."""
        seen.append(group)

    register(alone := Typer(add_completion=False), ask)
    parser = get_command(alone)
    parser.main(["--dummy", "4"], standalone_mode=False)
    with pytest.raises(SystemExit):
        parser.main(["--help"])
    assert "A dummy." in capfd.readouterr().out
    assert [*seen, filled(parser, {"dummy": 5})["group"]] == [group(4), group(5)]
    path = write_lines(tmp_path / "in.jsonl", [{"question": "Why?", "response": "So."}])
    code, out, err = run_tokur("score", path, "-m", tiny_folder, "--rank", 3)
    assert code == 0, err
    assert {one.name for one in Groups(score).parameters} >= {*SETTINGS} <= parsed(out)[0]["tokur"]["run"].keys()


PRINTING = [["select", SCORED], ["heatmap", SCORED, "--html", "-"], ["evaluate", SCORED, "--bootstrap", "0"]]
SPEAKING = [["score", "--scores", "help"], ["--version"], ["select", "--help"]]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell's redirections are POSIX")


def tokur(arguments, redirections, cwd):
    """Run the command with a shell's redirections; returns (exit code, standard output, standard error)."""
    command = ["bash", "-c", f'exec "$@" {redirections}', "bash", *TOKUR]
    run = subprocess.run([*command, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=120)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", PRINTING)
def test_streams_without_standard_error_have_nothing_of_it_in_the_output(run_tokur, arguments, tmp_path):
    assert tokur(arguments, "<&- 2>&-", tmp_path) == (0, run_tokur(*arguments)[1], "")


@pytest.mark.parametrize("arguments", PRINTING)
def test_streams_without_standard_output_are_refused_before_the_work(arguments, tmp_path):
    code, out, err = tokur([arguments[0], "nowhere", *arguments[2:]], ">&-", tmp_path)
    assert (code, out) == (2, "")
    assert "standard output is closed: give a file" in err


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [*PRINTING, *SPEAKING])
def test_streams_that_are_full_are_said_in_one_line(arguments, tmp_path):
    code, _, err = tokur(arguments, "> /dev/full", tmp_path)
    assert code == 1
    assert err.splitlines()[-1].endswith("standard output: cannot be written: No space left on device")
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", SPEAKING[::2])
def test_streams_have_help_in_utf_8_whatever_the_locale_says(run_tokur, monkeypatch, arguments, tmp_path):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    assert tokur(arguments, "", tmp_path) == (0, run_tokur(*arguments)[1], "")
