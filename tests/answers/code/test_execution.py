import json
import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.answers.code.escapes import processes_called
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


pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    while True: pass", "timeout"),
        ("    import time; time.sleep(99)", "timeout"),
        ("    import sys; sys.exit(0)", "failed"),
        ("    raise SystemExit(0)", "failed"),
        ("    raise KeyboardInterrupt", "failed"),
        ("    import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    while True: pass", "timeout"),
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
        ("    import faulthandler; faulthandler._sigsegv()", "crashed"),
        ("    import ctypes; ctypes.CDLL(None).abort()", "crashed"),
        ("    import sys; sys.setrecursionlimit(10 ** 9)\n    return double(x)", "failed crashed timeout"),
        ("    import os; os.execv('/proc/self/exe', ['python', '-c', ''])", "crashed"),
        ("    import os; os.close(3); return 2 * x", "failed crashed"),
    ],
)  # fmt: skip
def test_hostile_code_never_passes(body, expected):
    limits = replace(SHORT, seconds=1) if "timeout" in expected else SHORT
    started = time.monotonic()
    assert outcome(body, limits).value in expected.split()
    assert time.monotonic() - started < limits.seconds + 10


def test_killing_the_parent_process_does_no_harm():
    for target in ("os.getppid()", "0", "-os.getppid()"):
        body = f"    import os, signal\n    os.kill({target}, signal.SIGKILL)\n    return 0"
        assert outcome(body) is not ExecutionOutcome.PASSED
    assert outcome("    return 2 * x") is ExecutionOutcome.PASSED


def test_code_has_a_fresh_folder_to_write_to():
    body = "    import os\n    assert os.listdir() == [] or x < 0\n    open('left', 'w').write('x')\n    return 2 * x"
    assert [outcome(body), outcome(body)] == [ExecutionOutcome.PASSED] * 2


def test_without_isolation_the_folder_is_removed(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    body = "    import os\n    assert os.listdir() == [] or x < 0\n    open('left', 'w').write('x')\n    return 2 * x"
    assert run(body, ROW, SHORT, isolated=False).outcome is ExecutionOutcome.PASSED
    assert list(tmp_path.iterdir()) == []


def test_the_environment_is_not_passed_on(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    assert (
        outcome("    import os; assert 'SECRET_TOKEN' not in os.environ\n    return 2 * x") is ExecutionOutcome.PASSED
    )


def test_nothing_goes_on_when_tokur_is_killed():
    name = f"tokur-{os.getpid()}"
    body = f"    import ctypes, time\n    ctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)\n    time.sleep(99)"
    program = f"from tokur_cli.answers.code.execution import run; run({body!r}, {ROW!r})"
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


FLOOD = "    import os\n    for d in range(3, 64):\n        try:\n            {write}\n        except OSError: pass\n"


@pytest.mark.parametrize(
    "write",
    [
        'os.write(d, b\'{"refused": "all is lost"}\\n\')',
        "os.write(d, b'[' * 40_000 + b'\\n')",
        "os.write(d, b'\\xff\\x00' * 10_000)",
        "\n            while True: os.write(d, bytes(1 << 20))",
    ],
)
@pytest.mark.parametrize("end", ["os._exit(0)", "return 0"])
def test_what_a_response_writes_anywhere_changes_no_result_but_its_own(write, end):
    hostile = FLOOD.format(write=write) + f"    {end}"
    items = [(body, ROW) for body in ("    return 2 * x", hostile, "    return 2 * x", hostile, "    return 0")]
    outcomes = [execution.outcome.value for execution in run_all(items, SHORT, at_once=2)]
    assert outcomes[::2] == ["passed", "passed", "failed"]
    assert not {"passed", "timeout"} & set(outcomes[1::2])


def test_code_gets_no_descriptor_but_that_of_its_report():
    code = "import os, stat\nkinds = []\nfor d in range(64):\n    try: kinds.append(stat.S_IFMT(os.fstat(d).st_mode))\n"
    code += f"    except OSError: pass\nassert sorted(kinds) == {sorted([stat.S_IFIFO] + [stat.S_IFCHR] * 3)}, kinds\n"
    held = os.open("/", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        assert run(f"```python\n{code}\ndef double(x): return 2 * x\n```", ROW, SHORT).error is None
    finally:
        os.close(held)


def test_it_says_how_code_is_run():
    version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True).stdout.split()[-1]
    assert probe() == f"in bubblewrap {version}"
    assert probe(isolated=False) == "without isolation"


def test_without_bubblewrap_nothing_is_run(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TokurError, match=r"apt install bubblewrap.*--unsafe-code-execution"):
        run("    return 2 * x", ROW)


def test_where_bubblewrap_may_not_isolate_nothing_is_run():
    program = "from tokur_cli.answers.code.execution import probe; probe()"
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-ec", forbid, "sh", sys.executable, "-c", program]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert "code is not run: bubblewrap does not work here (bwrap: Creating new namespace failed: " in refused.stderr
    assert "--unsafe-code-execution" in refused.stderr
