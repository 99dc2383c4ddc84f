import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.answers.code.escapes import ESCAPES, escapes, processes_called
from tokur_cli.answers.code import execution
from tokur_cli.answers.code.execution import passes, run_all
from tokur_cli.records.errors import TokurError

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "humaneval_rows.jsonl").read_text(encoding="utf-8").splitlines()
]
ROW = {
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4, 'two'\n    assert candidate(-1) == -2\n",
}
DRESSES = [
    "{solution}",
    "Sure! Here it is:\n```python\n{prompt}{solution}\n```\nIt runs in linear time.",
    "```python\n{prompt}{solution}",
    "{prompt}{solution}\n\nThis works because it does.",
    "{solution}\n\nif __name__ == '__main__':\n    undefined()\n",
]


pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(execution, "SECONDS", 3.0)
    monkeypatch.setattr(execution, "LIMITS", {**execution.LIMITS, "RLIMIT_AS": 256 << 20, "RLIMIT_FSIZE": 1 << 20})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["task_id"])
def test_passes_published_solutions_in_every_dress(row):
    responses = [dress.format(prompt=row["prompt"], solution=row["canonical_solution"]) for dress in DRESSES]
    assert [*run_all((response, row) for response in responses)] == [True] * len(DRESSES)


@pytest.mark.usefixtures("short")
def test_passes_takes_a_completion_that_lost_its_indentation_and_the_last_block():
    blocks = "```python\ndef double(x): return 3\n```\nBetter:\n```py\ndef double(x): return x + x\n```\n```\n4\n```"
    for response in ("print('4' * 70_000)\nreturn 2 * x", "y = x\n    return x + y", "y = x\nreturn x + y", blocks):
        assert passes(response, ROW), response


@pytest.mark.usefixtures("short")
def test_passes_nothing_else():
    for response in ("    return x", "    return (", "I cannot do that.", ""):
        assert not passes(response, ROW), response


@pytest.mark.slow
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "body",
    [
        "    import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    while True: pass",
        "    import os; os._exit(0)",
        "    import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n    while True: pass",
        "    keep = []\n    while True: keep.append(bytearray(10 ** 7))",
        "    class E(Exception):\n        def __str__(self): raise E\n    raise E",
        "    import ctypes; ctypes.string_at(0)",
        "    open('big', 'wb').write(bytes(1 << 22))\n    return 2 * x",
        "    import os; os.execv('/proc/self/exe', ['python', '-c', ''])",
    ],
)
def test_passes_no_hostile_code_and_ends_in_time(body):
    started = time.monotonic()
    assert not passes(body, ROW)
    assert time.monotonic() - started < execution.SECONDS + 10


@pytest.mark.usefixtures("short")
def test_passes_outlives_code_that_kills_its_parent():
    for target in ("os.getppid()", "0", "-os.getppid()"):
        body = f"    import os, signal\n    os.kill({target}, signal.SIGKILL)\n    return 0"
        assert not passes(body, ROW)
    assert passes("    return 2 * x", ROW)


@pytest.mark.usefixtures("short")
def test_passes_gives_code_a_fresh_folder_and_no_environment(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    body = "    import os\n    assert os.listdir() == [] or x < 0\n    assert 'SECRET_TOKEN' not in os.environ\n"
    body += "    open('left', 'w').write('x')\n    return 2 * x"
    for isolated in (True, True, False):
        assert passes(body, ROW, isolated=isolated)
    assert list(tmp_path.iterdir()) == []


def test_nothing_goes_on_when_tokur_is_killed():
    name = f"tokur-{os.getpid()}"
    body = f"    import ctypes, time\n    ctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)\n    time.sleep(99)"
    program = f"from tokur_cli.answers.code.execution import passes; passes({body!r}, {ROW!r})"
    tokur = subprocess.Popen([sys.executable, "-c", program])
    try:
        wait_until(lambda: processes_called(name))
    finally:
        tokur.kill()
        tokur.wait()
    wait_until(lambda: not processes_called(name))


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("write", ["os.write(d, b'[' * 40_000 + b'\\n')", "while True: os.write(d, bytes(1 << 20))"])
def test_run_all_keeps_what_a_response_writes_from_the_results_of_others(write, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    flood = (
        f"    import os\n    for d in range(3, 64):\n        try:\n            {write}\n        except OSError: pass\n"
    )
    bodies = ("    return 2 * x", flood + "    return 0", "    return 2 * x", flood + "    os._exit(0)", "    return 0")
    assert list(run_all([(body, ROW) for body in bodies])) == [True, False, True, False, False]


def test_passes_refuses_without_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TokurError, match=r"apt install bubblewrap.*--unsafe-code-execution"):
        passes("    return 2 * x", ROW)
    assert passes("    return 2 * x", ROW, isolated=False)


def test_passes_refuses_where_bubblewrap_may_not_isolate():
    program = f"from tokur_cli.answers.code.execution import passes; passes('', {ROW!r})"
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-ec", forbid, "sh", sys.executable, "-c", program]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert "code is not run: bubblewrap does not work here (bwrap: Creating new namespace failed: " in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("escape", ESCAPES)
def test_passes_lets_no_code_out_of_bubblewrap(escape):
    assert not escapes(escape, isolated=True)


@pytest.mark.slow
@pytest.mark.parametrize("escape", ESCAPES)
def test_passes_lets_code_out_without_bubblewrap(escape):
    assert escapes(escape, isolated=False)
