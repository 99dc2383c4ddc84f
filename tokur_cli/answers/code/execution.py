"""Running a response's code against its row's tests, as HumanEval does. Only ever with the user's explicit permission.

What it is: each response runs in a process of its own with a fresh temporary folder, under limits of time, memory and
file size, and can start no process or thread (at most 16 where the system has no call filter); on Linux where
unprivileged namespaces are permitted also without network, without sight of other processes and with a read-only file
system (``Isolation`` says what holds). What it is not: a sandbox against a determined attacker. The code can read every
file that the user can read, and code written to attack the test harness itself can forge a pass. Run code that
you do not trust in a virtual machine.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tokur_cli.records.errors import RecordError, TokurError

_SANDBOX = Path(__file__).with_name("sandbox.py")
_PATIENCE_SECONDS = 5.0
_MOST_REPORT_BYTES = 65_536
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_CODE_START = re.compile(r"^(?:import |from \w|def |class |async def |@)", re.MULTILINE)


class ExecutionOutcome(str, Enum):
    """What became of a response's code. Everything but ``PASSED`` counts as wrong."""

    PASSED = "passed"
    FAILED = "failed"
    """A test failed, or the code raised an exception or is not Python."""
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    """The process ended before the tests did: it exited, was killed or ran out of memory."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The outcome for one response, with the error that the tests ended in."""

    outcome: ExecutionOutcome
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Isolation:
    """What the operating system keeps from the code that runs.

    Attributes:
        network: it has no network; otherwise Python's sockets alone are closed.
        processes: it sees no other process, and all it starts end with it.
        files: it can write nowhere but in its temporary folder, which holds 64 MB.
    """

    network: bool
    processes: bool
    files: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one run.

    Attributes:
        seconds: wall-clock time, and processor time of each process.
        memory_bytes: address space of each process.
        file_bytes: size of any one file.
    """

    seconds: float = 10.0
    memory_bytes: int = 1 << 30
    file_bytes: int = 16 << 20


def run_all(
    items: Iterable[tuple[str, Mapping[str, Any]]], limits: Limits = Limits(), *, at_once: int | None = None
) -> Iterator[Execution]:
    """Run (response, row) pairs, several at once, in order.

    Args:
        items: the text of each response, and its row with ``prompt``, ``test`` and ``entry_point``.
        limits: on each run.
        at_once: how many run at the same time; by default half of the processors.

    Raises:
        RecordError: a row lacks one of its fields.
        TokurError: code cannot be run with the limits in force, see ``run``.
    """
    with ThreadPoolExecutor(at_once or max(1, (os.cpu_count() or 2) // 2)) as pool:
        yield from pool.map(lambda item: run(item[0], item[1], limits), items)


def run(response: str, row: Mapping[str, Any], limits: Limits = Limits()) -> Execution:
    """Run the tests of a row against the code of a response.

    Args:
        response: the response's text: Markdown with code, a whole function, or the continuation of the row's prompt.
        row: ``prompt`` (the start of the program), ``test`` (defines ``check(candidate)``) and ``entry_point``.
        limits: on the run.

    Raises:
        RecordError: the row lacks one of its fields.
        TokurError: neither namespaces nor limits would hold the code (root without namespaces).
    """
    for field in ("prompt", "test", "entry_point"):
        if not isinstance(row.get(field), str):
            raise RecordError(f'"{field}" is missing: code is run against rows as HumanEval has them')
    programs = candidate_programs(response, row["prompt"], row["entry_point"])
    return _execute(programs, row["test"], row["entry_point"], limits)[0]


def probe() -> Isolation:
    """Find out, by running a harmless program, what the system keeps from the code that runs.

    Raises:
        TokurError: neither namespaces nor limits would hold the code (root without namespaces).
    """
    return _execute(["def f(): pass"], "def check(f): f()", "f", Limits())[1]


def candidate_programs(response: str, prompt: str, entry_point: str) -> list[str]:
    """Return the programs that a response may mean, the likeliest first; the first that is Python is run.

    A fenced block or text that defines the function goes after the prompt, which has the imports and helpers;
    anything else continues the prompt, with or without the indentation of the body.

    Args:
        response: the response's text.
        prompt: the start of the program: imports, helpers, signature and docstring.
        entry_point: the function's name.
    """
    blocks = [block[2] for block in _FENCE.findall(response) if block[1].lower() in ("", "python", "py", "python3")]
    definition = re.compile(rf"^[ \t]*(?:async\s+)?def\s+{re.escape(entry_point)}\b", re.MULTILINE)
    defining = [block for block in blocks if definition.search(block)]
    programs = []
    if defining:
        programs += [f"{start}\n\n{textwrap.dedent(defining[-1])}" for start in (prompt, prompt + "    pass\n")]
    elif not blocks and definition.search(response):
        start_of_code = _CODE_START.search(response)
        code = response[start_of_code.start() if start_of_code else 0 :]
        programs += [f"{start}\n\n{part}" for start in (prompt, prompt + "    pass\n") for part in (code, _body(code))]
    return programs + [f"{prompt}\n{body}" for body in _bodies((blocks[-1] if blocks else response).strip("\n"))]


def _bodies(text: str) -> list[str]:
    """Return what a prompt's continuation may mean: as it stands, or without its first or all of its indentation."""
    if not text.strip() or text[0] in " \t":
        return [_indented_part(text)]
    first_line = f"    {_indented_part(text)}"
    every_line = "".join(f"    {line}" for line in text.splitlines(keepends=True))
    return [first_line, every_line] if "\n" in first_line.rstrip("\n") else [every_line, first_line]


def _body(code: str) -> str:
    """Return the code up to the first line at the margin that can't start a statement: prose after the function."""
    lines = code.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line[:1].strip() and not re.match(r"(?:import |from |def |class |async |@|#|\w+\s*=|\)|\]|\})", line):
            return "".join(lines[:number])
    return code


def _indented_part(text: str) -> str:
    """Return a function's body: the first line, and all that follow until one stands at the margin."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines[1:], start=1):
        if line[:1].strip():
            return "".join(lines[:number])
    return text


def _execute(programs: list[str], test: str, entry_point: str, limits: Limits) -> tuple[Execution, Isolation]:
    nonce = secrets.token_hex(16)
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="tokur-", ignore_cleanup_errors=True) as folder:
        job = {
            "candidates": programs,
            "test": test,
            "entry_point": entry_point,
            "nonce": nonce,
            "folder": folder,
            "limits": {
                "seconds": max(1, round(limits.seconds)),
                "memory_bytes": limits.memory_bytes,
                "file_bytes": limits.file_bytes,
            },
        }
        deadline = time.monotonic() + limits.seconds
        process = subprocess.Popen(
            [sys.executable, "-I", str(_SANDBOX), str(writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[writer],
            cwd=folder,
            env={"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        try:
            os.close(writer)
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(job).encode())
            reports, in_time = _read_reports(reader, deadline)
        finally:
            os.close(reader)
            _end(process)
    return _judge(reports, in_time, nonce)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the sandbox: asked to, it ends its namespace and all that is in it; then its group is killed in any case."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_reports(reader: int, deadline: float) -> tuple[list[Any], bool]:
    """Return the lines of the report until it ends, holds a verdict or grows too long; and whether that was in time."""
    received = b""
    while received.count(b"\n") < 2 and len(received) < _MOST_REPORT_BYTES:
        patience = deadline - time.monotonic()
        if patience <= 0 or not select.select([reader], [], [], patience)[0]:
            return _lines(received), False
        part = os.read(reader, _MOST_REPORT_BYTES)
        if not part:
            break
        received += part
    return _lines(received), True


def _lines(received: bytes) -> list[Any]:
    reports = []
    for line in received.split(b"\n")[:-1]:
        try:
            report = json.loads(line)
        except ValueError:  # the code found the pipe and wrote to it
            break
        reports.append(report if isinstance(report, dict) else {})
    return reports


def _judge(reports: list[Any], in_time: bool, nonce: str) -> tuple[Execution, Isolation]:
    if not reports:
        raise TokurError("the process for code execution did not start")
    if "refused" in reports[0]:
        raise TokurError(f"code is not executed: {reports[0]['refused']}; use an ordinary user or a virtual machine")
    held = reports[0].get("isolation", [])
    isolation = Isolation("network" in held, "processes" in held, "files" in held)
    verdict = reports[1] if len(reports) > 1 else {}
    if "refused" in verdict:
        raise TokurError(f"code is not executed: {verdict['refused']}; use an ordinary user or a virtual machine")
    if verdict.get("nonce") == nonce:
        if verdict.get("passed") is True:
            return Execution(ExecutionOutcome.PASSED), isolation
        return Execution(ExecutionOutcome.FAILED, str(verdict.get("error"))), isolation
    return Execution(ExecutionOutcome.CRASHED if in_time else ExecutionOutcome.TIMEOUT), isolation
