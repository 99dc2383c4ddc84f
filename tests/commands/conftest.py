"""What the tests of several commands share."""

import json
import os
import subprocess
import sys

import pytest

from tokur_cli.answers.grading import LabelRule

SERVE = """
import json, os, sys
from tokur_cli.__main__ import main
replies = open(os.dup(1), "w")
for line in sys.stdin:
    run = json.loads(line)
    os.environ.update(run["environment"])
    for number, name in enumerate(run["streams"], start=1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["tokur", *run["arguments"]]
    try:
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    sys.stdout.flush()
    print(code, file=replies, flush=True)
"""


def answer_of_a_tiny_model(record):
    """One of few answers, or none: what a random model writes has hardly any, and never the same one twice."""
    kind = sum(record.response.encode()) % 5
    return None if kind == 4 else type("Answer", (), {"text": "7" if kind < 3 else "8"})


@pytest.fixture
def opinionated(monkeypatch):
    """Have responses such answers."""
    monkeypatch.setattr(LabelRule, "answer", lambda self, record: answer_of_a_tiny_model(record))


@pytest.fixture(scope="session")
def in_one_process(tmp_path_factory):
    """Run commands one after the other in a process of their own, where vLLM, which takes long, is imported once.

    Returns (exit code, standard output, standard error) of each.
    """
    streams = [tmp_path_factory.mktemp("streams") / name for name in ("out", "err")]
    command, pipe = [sys.executable, "-c", SERVE], subprocess.PIPE
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True, bufsize=1) as server:

        def run(*arguments):
            asked = {"arguments": arguments, "streams": streams, "environment": {**os.environ, "OMP_NUM_THREADS": "1"}}
            server.stdin.write(json.dumps(asked, default=str) + "\n")
            return int(server.stdout.readline()), *(path.read_text(encoding="utf-8") for path in streams)

        yield run
