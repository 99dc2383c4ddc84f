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
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from tokur_cli.answers.code import bubblewrap
from tokur_cli.records.errors import TokurError

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

_CODE_START = re.compile(r"^(?:import |from \w|def |class |async def |@)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one run.

    Attributes:
        seconds: wall-clock time, and processor time of each process.
        memory_bytes: address space of each process.
        file_bytes: size of any one file.
        processes: how many processes and threads it may start; root may start any number outside bubblewrap.
    """

    seconds: float = 10.0
    memory_bytes: int = 1 << 30
    file_bytes: int = 16 << 20
    processes: int = 0


def run_all(
    items: Iterable[tuple[str, Mapping[str, Any]]], limits: Limits = Limits(), *, isolated: bool = True
) -> Iterator[bool]:
    """Yield what ``passes`` returns for each (response, row), in order; half as many run at once as processors.

    Raises:
        TokurError: code cannot be run so.
    """
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        yield from pool.map(lambda item: passes(item[0], item[1], limits, isolated=isolated), items)


def passes(response: str, row: Mapping[str, Any], limits: Limits = Limits(), *, isolated: bool = True) -> bool:
    """Return whether the code of a response passes the tests of a row.

    Args:
        response: the response's text: Markdown with code, a whole function, or the continuation of the row's prompt.
        row: ``prompt`` (the start of the program), ``test`` (defines ``check(candidate)``) and ``entry_point``.
        limits: on the run.
        isolated: in bubblewrap.

    Raises:
        TokurError: bubblewrap is missing or cannot isolate a process here, or Python does not start.
    """
    nonce = secrets.token_hex(16)
    job = {
        "programs": candidate_programs(response, row["prompt"], row["entry_point"]),
        "test": row["test"],
        "entry_point": row["entry_point"],
        "nonce": nonce,
        "path": bubblewrap.packages(),
        "user": bubblewrap.NOBODY if isolated and os.geteuid() == 0 else None,
        # seconds of the processor, for what outlives the wall-clock limit
        "limits": {**asdict(limits), "seconds": math.ceil(limits.seconds) + 1},
    }
    with ExitStack() as stack:
        complaints = stack.enter_context(tempfile.TemporaryFile())
        process = stack.enter_context(_start(stack, complaints, isolated))
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(job).encode())
            started = _read(process.stdout.fileno(), len(nonce), _START_SECONDS)
            report = _read(process.stdout.fileno(), _MOST_BYTES, limits.seconds)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        complaints.seek(0)
        complaint = complaints.read(_MOST_BYTES).decode(errors="replace").strip()
    if started != nonce.encode():
        reason = complaint.splitlines()[-1] if complaint else "it does not start"
        if isolated:
            raise bubblewrap.refusal(f"bubblewrap does not work here ({reason})")
        raise TokurError(f"code cannot be run: {reason}")
    return nonce.encode() in report


def candidate_programs(response: str, prompt: str, entry_point: str) -> list[str]:
    """Return the programs that a response may mean, the likeliest first; the first that is Python is run.

    A fenced block or text that defines the function goes after the prompt, which has the imports and helpers;
    anything else continues the prompt, with or without the indentation of the body.

    Args:
        response: the response's text.
        prompt: the start of the program: imports, helpers, signature and docstring.
        entry_point: the function's name.
    """
    fenced = _BLOCK.finditer(response + "\n")
    blocks = [block["code"] for block in fenced if block["language"].lower() in ("", "python", "py", "python3")]
    definition = re.compile(rf"^[ \t]*(?:async\s+)?def\s+{re.escape(entry_point)}\b", re.MULTILINE)
    code = next((block for block in reversed(blocks) if definition.search(block)), None)
    if code is None and not blocks and definition.search(response):
        start_of_code = _CODE_START.search(response)
        code = response[start_of_code.start() if start_of_code else 0 :]
    programs = []
    if code is not None:
        parts = [textwrap.dedent(part) for part in (code, _PROSE_BEHIND.split(code, maxsplit=1)[0])]
        starts = (prompt, prompt + "    pass\n")
        programs = [f"{start}\n\n{part}" for start in starts for part in parts if part.strip()]
    return programs + [f"{prompt}\n{body}" for body in _bodies((blocks[-1] if blocks else response).strip("\n"))]


def _bodies(text: str) -> list[str]:
    """Return what a prompt's continuation may mean: as it stands, or with all or the first of its indentation lost."""
    indented = _MARGIN.split(text, maxsplit=1)[0]
    if not text.strip() or text[0] in " \t":
        return [indented]
    return [textwrap.indent(text, "    "), f"    {indented}"]


def _start(stack: ExitStack, complaints: IO[bytes], isolated: bool) -> subprocess.Popen[bytes]:
    """Start the harness, as the leader of a process group; its folder is gone when the stack is left."""
    command = [bubblewrap.python(), "-I", "-S", str(_HARNESS)]
    if isolated:
        folder = bubblewrap.FOLDER
        call_filter, writer = os.pipe()
        stack.callback(os.close, call_filter)
        os.write(writer, bubblewrap.call_filter())
        os.close(writer)
        command = [*bubblewrap.arguments(_HARNESS), "--seccomp", str(call_filter), *command]
        passed = [call_filter]
    else:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tokur-", ignore_cleanup_errors=True))
        passed = []
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # NumPy complains where it cannot start its own
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        pass_fds=passed,
        cwd=None if isolated else folder,
        env={"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", **threads},
        start_new_session=True,
    )


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
