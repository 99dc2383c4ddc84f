"""Standard streams that are closed or full: nothing lands in another's place, and what is lost is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCORED = Path(__file__).parent.parent / "data" / "scored.jsonl"
PRINTING = [
    ["select", SCORED],
    ["heatmap", SCORED],
    ["heatmap", SCORED, "--html", "-"],
    ["heatmap", SCORED, "-o", "-", "--html", "page"],
    ["evaluate", SCORED, "--bootstrap", "0"],
    ["evaluate", SCORED, "--bootstrap", "0", "--as", "latex"],
]
SPEAKING = [["score", "--scores", "help"], ["--help"], ["--version"], ["select", "--help"]]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell's redirections are POSIX")


def tokur(arguments, redirections, cwd):
    """Run the command with a shell's redirections; returns (exit code, standard output, standard error)."""
    script = f'exec "$@" {redirections}'
    command = ["bash", "-c", script, "bash", sys.executable, "-m", "tokur_cli", *map(str, arguments)]
    run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
@pytest.mark.parametrize("arguments", PRINTING)
def test_without_standard_error_nothing_of_it_is_in_the_output(arguments, closed, tmp_path):
    assert tokur(arguments, closed, tmp_path) == (0, tokur(arguments, "", tmp_path)[1], "")


@pytest.mark.parametrize("arguments", PRINTING)
def test_without_standard_output_the_command_says_so_before_it_works(arguments, tmp_path):
    writes_a_file = "page" in arguments
    code, out, err = tokur([*arguments[:1], "nowhere", *arguments[2:]], ">&-", tmp_path)
    assert (code, out) == (1 if writes_a_file else 2, "")
    assert ("nowhere: there is no such file" if writes_a_file else "standard output is closed: give a file") in err
    if writes_a_file:
        code, _, err = tokur(arguments, ">&-", tmp_path)
        assert (code, err) == (1, "tokur heatmap: standard output: cannot be written: Bad file descriptor\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [*PRINTING, *SPEAKING])
def test_a_full_disk_is_said_in_one_line(arguments, tmp_path):
    code, _, err = tokur(arguments, "> /dev/full", tmp_path)
    name = " ".join(["tokur", arguments[0]]) if arguments in PRINTING else "tokur"
    assert code == 1
    assert err.splitlines()[-1] == f"{name}: standard output: cannot be written: No space left on device"
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", SPEAKING)
def test_help_without_a_place_for_it_is_an_error_in_one_line(arguments, tmp_path):
    code, _, err = tokur(arguments, ">&-", tmp_path)
    assert (code, err.count("\n")) == (1, 1)
    assert err.endswith("standard output: cannot be written: Bad file descriptor\n")
