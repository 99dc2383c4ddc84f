import json
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tokur_cli.answers.code import execution
from tokur_cli.answers.code.execution import Execution, ExecutionOutcome, Limits, probe, run, run_all
from tokur_cli.records.errors import RecordError, TokurError

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "humaneval_rows.jsonl").read_text(encoding="utf-8").splitlines()
]
ROW = {
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4, 'two'\n    assert candidate(-1) == -2\n",
}
SHORT = Limits(seconds=3, memory_bytes=256 << 20, file_bytes=1 << 20)


def _held():
    try:
        return probe()
    except TokurError:
        return None


HELD = _held()
pytestmark = pytest.mark.skipif(HELD is None, reason="no namespaces, and root: code is not run here at all")
isolated = pytest.mark.skipif(HELD is not None and not HELD.processes, reason="it would kill this user's processes")
read_only = pytest.mark.skipif(HELD is not None and not HELD.files, reason="the file system stays writable here")


def outcome(body, limits=SHORT, **options):
    return run(body, ROW | options, limits).outcome


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["task_id"])
@pytest.mark.parametrize(
    "dress",
    [
        "{solution}",
        "Sure! Here it is:\n```python\n{prompt}{solution}\n```\nIt runs in linear time.",
        "~~~\n{solution}~~~",
        "```python\n{prompt}{solution}",
        "{prompt}{solution}\n\nThis works because it does.",
        "{solution}\n\nif __name__ == '__main__':\n    undefined()\n",
    ],
)
def test_published_solutions_pass_in_every_dress(row, dress):
    response = dress.format(prompt=row["prompt"], solution=row["canonical_solution"])
    assert run(response, row) == Execution(ExecutionOutcome.PASSED)


@pytest.mark.parametrize(
    "response", ["return 2 * x", "    return 2 * x", "y = x\n    return x + y", "y = x\nreturn x + y"]
)
def test_a_completion_may_have_lost_its_indentation(response):
    assert run(response, ROW).outcome is ExecutionOutcome.PASSED


def test_the_last_block_that_defines_the_function_is_run():
    response = "```python\ndef double(x): return 3\n```\nBetter:\n```py\ndef double(x): return x + x\n```\n```\n4\n```"
    assert run(response, ROW).outcome is ExecutionOutcome.PASSED


def test_what_went_wrong_is_said():
    assert run("    return x", ROW) == Execution(ExecutionOutcome.FAILED, "AssertionError: two")
    assert "SyntaxError" in run("    return (", ROW).error or "was never closed" in run("    return (", ROW).error
    assert "NameError" in run("    return y", ROW).error


def test_a_row_without_its_fields_is_a_record_error():
    with pytest.raises(RecordError, match='"test" is missing'):
        run("    return x", {"prompt": "", "entry_point": "f"})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    while True: pass", "timeout"),
        ("    import time; time.sleep(99)", "timeout"),
        ("    import sys; sys.exit(0)", "failed"),
        ("    raise SystemExit(0)", "failed"),
        ("    raise KeyboardInterrupt", "failed"),
        ("    import os; os._exit(0)", "crashed"),
        ("    import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n    while True: pass", "crashed timeout"),
        ("    print('passed'); print('{\"passed\": true}', flush=True)\n    return 0", "failed"),
        ("    import os\n    for d in range(3, 64):\n        try: os.write(d, b'{\"passed\": true}\\n')\n"
         "        except OSError: pass\n    os._exit(0)", "crashed"),
        ("    return bytearray(10 ** 10)", "failed"),
        ("    keep = []\n    while True: keep.append(bytearray(10 ** 7))", "failed crashed"),
        ("    return double(x)", "failed"),
        ("    class E(Exception):\n        def __str__(self): raise E\n    raise E", "failed"),
        ("    import ctypes; ctypes.string_at(0)", "crashed"),
        ("    open('big', 'wb').write(bytes(1 << 22))\n    return 2 * x", "failed crashed"),
        ("    import sys\n    while True: sys.stdout.write('x' * 10 ** 6)", "timeout"),
        ("    return input()", "failed"),
    ],
)  # fmt: skip
def test_hostile_code_never_passes(body, expected):
    limits = replace(SHORT, seconds=1) if "timeout" in expected else SHORT
    started = time.monotonic()
    assert outcome(body, limits).value in expected.split()
    assert time.monotonic() - started < limits.seconds + 10


def test_an_early_exit_at_import_does_not_pass():
    assert (
        run("```python\ndef double(x): return 0\nimport sys\nsys.exit(0)\n```", ROW).outcome is ExecutionOutcome.FAILED
    )


@isolated
def test_killing_the_parent_process_does_no_harm():
    for target in ("os.getppid()", "0", "-1", "-os.getppid()"):
        body = f"    import os, signal\n    os.kill({target}, signal.SIGKILL)\n    return 0"
        assert outcome(body) is not ExecutionOutcome.PASSED
    assert outcome("    return 2 * x") is ExecutionOutcome.PASSED


@pytest.mark.parametrize("start", ["os.fork()", "threading.Thread(target=time.sleep, args=(9,)).start()"])
def test_processes_and_threads_are_bounded(start):
    # Children only sleep and there are 40 at most, so that the test does no harm where the limit does not hold.
    body = (
        "    import os, threading, time\n"
        "    started = 0\n"
        "    for _ in range(40):\n"
        f"        try: child = {start}\n"
        "        except (OSError, RuntimeError): continue\n"
        "        if child == 0: time.sleep(9); os._exit(0)\n"
        "        started += 1\n"
        "    assert started <= 16, started\n"
        "    return 2 * x"
    )
    assert run(body, ROW, SHORT) == Execution(ExecutionOutcome.PASSED)


def test_there_is_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = f"    import socket\n    socket.create_connection(('127.0.0.1', {port}), timeout=1)\n    return 2 * x"
        assert outcome(body) is ExecutionOutcome.FAILED
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()


@read_only
def test_code_writes_only_to_its_temporary_folder(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("before")
    body = f"    open({str(outside)!r}, 'w').write('after')\n    return 2 * x"
    assert outcome(body) is ExecutionOutcome.FAILED
    assert outcome(f"    import os; os.remove({str(outside)!r})\n    return 2 * x") is ExecutionOutcome.FAILED
    assert outside.read_text() == "before"
    assert outcome("    open('inside', 'w').write('x')\n    return 2 * x") is ExecutionOutcome.PASSED
    many = "    for k in range(99): open(str(k), 'wb').write(bytes(1 << 20))\n    return 2 * x"
    assert outcome(many) is ExecutionOutcome.FAILED


def test_every_run_has_a_fresh_folder_that_is_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(execution.tempfile, "tempdir", str(tmp_path))
    body = "    import os\n    assert os.listdir() == [] or x < 0\n    open('left', 'w').write('x')\n    return 2 * x"
    assert [outcome(body), outcome(body)] == [ExecutionOutcome.PASSED] * 2
    assert list(tmp_path.iterdir()) == []


def test_the_environment_is_not_passed_on(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    assert (
        outcome("    import os; assert 'SECRET_TOKEN' not in os.environ\n    return 2 * x") is ExecutionOutcome.PASSED
    )


def test_several_run_at_once_and_keep_their_order():
    items = [("    return 2 * x" if number % 3 else "    return 0", ROW) for number in range(7)]
    passed = [execution.outcome is ExecutionOutcome.PASSED for execution in run_all(items, SHORT, at_once=3)]
    assert passed == [bool(number % 3) for number in range(7)]
