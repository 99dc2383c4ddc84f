"""Many runs of the command line, one after another in one process: nothing is forked for each of them.

What a run leaves in the process could reach the next one; so whatever falls here is run again by itself (``warm``).
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.storm.warm import HANG_SECONDS, Outcome, opened_input, resident_bytes, run_here, stand_in, watched

RUNS = 100
"""Runs of a process before the next one takes over."""


class InTurn:
    """Runs the command line in a child of the warm process, which is replaced after ``RUNS`` runs or a bad one."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._runs = 0
        self._requests = self._replies = -1
        self._memory_bytes = 0

    def run(self, arguments: Sequence[str], folder: Path, stdin: Path | bytes | None = None) -> Outcome:
        """Run the command line in a folder; what it prints goes to ``.stdout`` and ``.stderr`` there."""
        if self._pid is None:
            self._start()
        if isinstance(stdin, bytes):
            (folder / ".stdin").write_bytes(stdin)
        request = {"arguments": list(arguments), "folder": str(folder), "pipe": isinstance(stdin, bytes)}
        request["stdin"] = str(stdin) if isinstance(stdin, Path) else None
        started, self._memory_bytes = time.monotonic(), 0
        os.write(self._requests, json.dumps(request).encode() + b"\n")
        reply = self._reply()
        seconds = time.monotonic() - started
        out, err = ((folder / name).read_bytes() for name in (".stdout", ".stderr"))
        if isinstance(reply, dict):
            self._runs += 1
            if self._runs >= RUNS or reply["memory_bytes"] > 700_000_000:
                self.stop()
            return Outcome(**reply, out=out, err=err, seconds=seconds)
        code = self.stop()
        return Outcome(code, out, err, seconds, self._memory_bytes, hung=reply is None)

    def stop(self) -> int:
        """End the process; return how it ended."""
        if self._pid is None:
            return 0
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._requests)
        os.close(self._replies)
        self._pid, self._runs = None, 0
        return os.waitstatus_to_exitcode(status)

    def _reply(self) -> dict[str, Any] | bytes | None:
        """Return the reply; None if it takes too long, nothing if the process has ended."""
        data = b""
        while not data.endswith(b"\n"):
            if watched(self._pid or 0, self._replies, HANG_SECONDS):
                return None
            if not select.select([self._replies], [], [], 0)[0]:
                self._memory_bytes = resident_bytes(self._pid or 0)
                return b""
            chunk = os.read(self._replies, 1 << 16)
            if not chunk:
                return b""
            data += chunk
        reply: dict[str, Any] = json.loads(data)
        return reply

    def _start(self) -> None:
        requests_read, self._requests = os.pipe()
        self._replies, replies_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._requests)
            os.close(self._replies)
            _serve(requests_read, replies_write)
        os.close(requests_read)
        os.close(replies_write)
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(self._pid, self._pid)


def _serve(requests: int, replies: int) -> None:
    """Run what is asked for, in a child process; never return."""
    try:
        with suppress(PermissionError):
            os.setpgid(0, 0)
        environment, limit = dict(os.environ), sys.getrecursionlimit()
        with open(requests, "rb", closefd=False) as lines:
            for line in lines:
                reply = _served(json.loads(line))
                os.write(replies, json.dumps(reply).encode() + b"\n")
                os.environ.clear()
                os.environ.update(environment)
                sys.setrecursionlimit(limit)
    finally:
        os._exit(70)


def _served(request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["folder"])
    data = (folder / ".stdin").read_bytes() if request["pipe"] else None
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    given = data if data is not None else Path(request["stdin"]) if request["stdin"] else None
    descriptors = (opened_input(given, folder), os.open(folder / ".stdout", flags), os.open(folder / ".stderr", flags))
    stand_in(folder, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts anew
    code = run_here(request["arguments"])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return {"code": code, "memory_bytes": _peak()}


def _peak() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
