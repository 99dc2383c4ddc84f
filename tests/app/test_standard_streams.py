"""Standard streams that are closed or full: nothing lands in another's place, and what is lost is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCORED = Path(__file__).parent.parent / "data" / "scored.jsonl"
PRINTING = [["select", SCORED], ["heatmap", SCORED, "--html", "-"], ["evaluate", SCORED, "--bootstrap", "0"]]
SPEAKING = [["score", "--scores", "help"], ["--version"], ["select", "--help"]]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell's redirections are POSIX")


def tokur(arguments, redirections, cwd):
    """Run the command with a shell's redirections; returns (exit code, standard output, standard error)."""
    command = ["bash", "-c", f'exec "$@" {redirections}', "bash", sys.executable, "-m", "tokur_cli"]
    run = subprocess.run([*command, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=120)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", PRINTING)
def test_streams_without_standard_error_have_nothing_of_it_in_the_output(arguments, tmp_path):
    assert tokur(arguments, "<&- 2>&-", tmp_path) == (0, tokur(arguments, "", tmp_path)[1], "")


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
