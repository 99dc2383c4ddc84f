"""Ways out of bubblewrap, tried by the user that runs the tests."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.answers.code.escapes import ESCAPES

REPOSITORY = Path(__file__).parents[3]


def attempts(how):
    """Try all escapes in a process of their own; return what became of each."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "HF_TOKEN": "hf"}
    command = [sys.executable, "-m", "tests.answers.code.escapes", how]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_bubblewrap_lets_no_code_out():
    outcomes = attempts("isolated")
    assert outcomes.keys() == ESCAPES.keys()
    assert [name for name, outcome in outcomes.items() if outcome == "escaped"] == []


@pytest.mark.slow
def test_escapes_get_out_where_there_is_no_bubblewrap():
    assert attempts("bare") == dict.fromkeys(ESCAPES, "escaped")
