"""Running a response's code against its row's tests, as HumanEval does. Only ever with the user's explicit permission.

Each response runs in a process of its own, in bubblewrap unless the user waives that, under limits of time, memory and
file size, and of processes and threads, which do not bind root outside bubblewrap. What holds in bubblewrap: code
reaches no file of the user, no other process, no network and no terminal; nothing that it starts outlives it; and it
cannot change what another response gets. What does not: the tests run in the same interpreter, so code that is written
to cheat can find the nonce there and report a pass of its own; and all processes share one kernel, which may have
faults. Run code that you fear in a virtual machine.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import select
import signal
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tokur_cli.answers.code import bubblewrap
from tokur_cli.records.errors import TokurError

SECONDS = 10.0
"""Wall-clock time of one run."""

LIMITS = {"RLIMIT_AS": 1 << 30, "RLIMIT_FSIZE": 16 << 20, "RLIMIT_NPROC": 0, "RLIMIT_NOFILE": 64, "RLIMIT_CORE": 0}
"""Limits of a process: bytes of memory and of any one file; how many processes and threads it may start (root may start
any number outside bubblewrap); open files; bytes of a core dump."""

_HARNESS = Path(__file__).with_name("harness.py")
_START_SECONDS = 60.0
_MOST_BYTES = 65_536  # read of what a process writes
_BLOCK = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)(?:^[ \t]*(?P=fence)[^\n]*|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A block of Markdown between fences; the last one may have no end."""

_MARGIN = re.compile(r"(?<=\n)(?=\S)")
_PROSE_BEHIND = re.compile(r"(?m)^(?=\S)(?!import |from |def |class |async |@|#|\w+\s*=|[)\]}])")
"""A line at the margin that can't start a statement."""

_PROSE_BEFORE = re.compile(r"\A.*?(?=^(?:import |from \w|def |class |async def |@))", re.MULTILINE | re.DOTALL)
"""What stands before the first line of code."""


def run_all(items: Iterable[tuple[str, Mapping[str, Any]]], *, isolated: bool = True) -> Iterator[bool]:
    """Yield what ``passes`` returns for each (response, row), in order; half as many run at once as processors.

    Raises:
        TokurError: code cannot be run so.
    """
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        yield from pool.map(lambda item: passes(*item, isolated=isolated), items)


def passes(response: str, row: Mapping[str, Any], *, isolated: bool = True) -> bool:
    """Return whether the code of a response passes the tests of a row.

    Args:
        response: the response's text: Markdown with code, a whole function, or the continuation of the row's prompt.
        row: ``prompt`` (the start of the program), ``test`` (defines ``check(candidate)``) and ``entry_point``.
        isolated: in bubblewrap.

    Raises:
        TokurError: bubblewrap is missing or cannot isolate a process here, or Python does not start.
    """
    nonce = secrets.token_hex(16).encode()
    job = {
        "programs": candidate_programs(response, row["prompt"], row["entry_point"]),
        "test": row["test"],
        "entry_point": row["entry_point"],
        "nonce": nonce.decode(),
        "path": bubblewrap.packages(),
        "user": bubblewrap.NOBODY if isolated and os.geteuid() == 0 else None,
        # seconds of the processor, for what outlives the wall-clock limit
        "limits": {**LIMITS, "RLIMIT_CPU": math.ceil(SECONDS) + 1},
    }
    with tempfile.TemporaryFile() as complaints, _harness(isolated, stderr=complaints) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(job).encode())
            started = _read(process.stdout.fileno(), len(nonce), _START_SECONDS)
            report = _read(process.stdout.fileno(), _MOST_BYTES, SECONDS)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        complaints.seek(0)
        complaint = complaints.read(_MOST_BYTES).decode(errors="replace").strip()
    if started != nonce:
        reason = complaint.splitlines()[-1] if complaint else "it does not start"
        if isolated:
            raise bubblewrap.refusal(f"bubblewrap does not work here ({reason})")
        raise TokurError(f"code cannot be run: {reason}")
    return nonce in report


def candidate_programs(response: str, prompt: str, entry_point: str) -> list[str]:
    """Return the programs that a response may mean, the likeliest first; the first that is Python is run.

    A fenced block or text that defines the function goes after the prompt, which has the imports and helpers;
    anything else continues the prompt, with or without the indentation of the body.
    """
    fenced = _BLOCK.finditer(response + "\n")
    blocks = [block["code"] for block in fenced if block["language"].lower() in ("", "python", "py", "python3")]
    definition = re.compile(rf"^[ \t]*(?:async\s+)?def\s+{re.escape(entry_point)}\b", re.MULTILINE)
    defining = [code for code in blocks or [_PROSE_BEFORE.sub("", response, count=1)] if definition.search(code)]
    programs = []
    if defining:
        parts = [textwrap.dedent(part) for part in (defining[-1], _PROSE_BEHIND.split(defining[-1], maxsplit=1)[0])]
        starts = (prompt, prompt + "    pass\n")
        programs = [f"{start}\n\n{part}" for start in starts for part in parts if part.strip()]
    return programs + [f"{prompt}\n{body}" for body in _bodies((blocks[-1] if blocks else response).strip("\n"))]


def _bodies(text: str) -> list[str]:
    """Return what a prompt's continuation may mean: as it stands, or with all or the first of its indentation lost."""
    indented = _MARGIN.split(text, maxsplit=1)[0]
    if not text.strip() or text[0] in " \t":
        return [indented]
    return [textwrap.indent(text, "    "), f"    {indented}"]


@contextmanager
def _harness(isolated: bool, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start the harness, as the leader of a process group; its folder is gone at the end."""
    command = [bubblewrap.python(), "-I", "-S", str(_HARNESS)]
    with ExitStack() as stack:
        if isolated:
            folder, cwd = bubblewrap.FOLDER, None
            call_filter = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            call_filter.write(bubblewrap.call_filter())
            call_filter.seek(0)
            streams["pass_fds"] = [call_filter.fileno()]
            command = [*bubblewrap.arguments(_HARNESS), "--seccomp", str(call_filter.fileno()), *command]
        else:
            cwd = folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tokur-", ignore_cleanup_errors=True))
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # NumPy complains where it can't start its own
        environment = {"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", **threads}
        streams |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, cwd=cwd, env=environment, start_new_session=True, **streams)
        yield stack.enter_context(process)


def _read(reader: int, most: int, seconds: float) -> bytes:
    """Return what is written until the end, at most ``most`` bytes, in so many seconds."""
    deadline = time.monotonic() + seconds
    read = b""
    while len(read) < most:
        patience = deadline - time.monotonic()
        if patience <= 0 or not select.select([reader], [], [], patience)[0]:
            break
        written = os.read(reader, most - len(read))
        if not written:
            break
        read += written
    return read
