"""The storm runs, and notices what it is there to notice."""

import json
import os
import subprocess
import sys

import pytest

from tests.storm import checks
from tests.storm.warm import Outcome


def test_the_first_cases_of_a_seed_stand(tmp_path):
    command = [sys.executable, "-m", "tests.storm", "--count", "12", "--seed", "3", "--keep", str(tmp_path / "fell")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": ""}, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0].split()[:3] == ["tried", "perturb", "generate"]
    (total,) = (line.split() for line in done.stdout.splitlines() if line.startswith("all "))
    assert int(total[-2]) >= 10
    assert total[-1] == "0"
    assert not (tmp_path / "fell").exists()


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        ({"code": 1, "err": b"Traceback (most recent call last):\n  x\nTypeError: y\n"}, "traceback"),
        ({"code": 1, "err": b"tokur score: TypeError: y (TOKUR_DEBUG=1 shows where)\n"}, "raw error"),
        ({"code": 1, "err": b"tokur score: a.jsonl:1: \x1b[2J\n"}, "control code U+001B"),
        ({"code": 1, "err": "tokur score: a.jsonl:1: \x85\n".encode()}, "control code U+0085"),
        ({"code": 1, "err": b"tokur score: a.jsonl:1: \xff\n"}, "not UTF-8"),
        ({"code": 1}, "without a message"),
        ({"code": -11}, "exit code -11"),
        ({"code": 0, "hung": True}, "hung"),
        ({"code": 0, "memory_bytes": 2 << 30}, "memory"),
        ({"code": 0, "left_behind": True}, "left behind"),
    ],
)
def test_a_run_that_may_not_be_is_noticed(outcome, fault):
    whole = {"out": b"", "err": b"", "seconds": 0.1, "memory_bytes": 0, **outcome}
    assert any(fault in found for found in checks.faults_of_run(Outcome(**whole), "score"))
    good = Outcome(1, b"", b"tokur score: a.jsonl:1: is not JSON\n", 0.1, 0)
    assert list(checks.faults_of_run(good, "score")) == []


def test_lost_changed_and_cut_records_are_noticed():
    records = [{"id": n, "tokur": {"scores": {"eu": n + 0.5}}} for n in range(3)]
    nearly = json.loads(json.dumps(records).replace("1.5", "1.50001"))
    assert checks.lost(records, nearly) is None
    assert checks.lost(records, [records[0], None, records[2]]) == 1
    assert checks.lost(records, [records[1], records[0], records[2]]) is not None
    assert not checks.is_beginning(records, [records[0], {**records[1], "tokur": {"scores": {"eu": 1.6}}}, records[2]])
    assert list(checks.faults_of_lines("it", b'{"a":1}\n{"a":')) == ["it ends within a line"]
    assert list(checks.faults_of_lines("it", b"[1]\n")) == ["it has a line that is no object"]
