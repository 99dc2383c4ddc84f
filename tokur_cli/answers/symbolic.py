"""Symbolic comparison by math-verify, in worker processes that are killed when they run out of time or memory.

Expressions may never end or eat all memory, and nothing but the end of its process can interrupt ``9^{9^{9^9}}``. The
first worker starts with the first comparison that needs one (about 0.4 s), so answers that are plain numbers never pay
for it. Each answers one JSON request a line. Its address space is limited, and the kernel's timers kill it (the default
action of SIGPROF and SIGALRM): one when a request has taken its processor time, so that a verdict does not depend on
what else the machine does; the other by the clock. Nobody else has to watch it: it cannot outlive a parent that was
killed by more than that.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tokur_cli.records.errors import TokurError

START_SECONDS = 60
"""How long a worker may take to import math-verify before that is an error."""
PATIENCE = 12.0
"""By the clock a request may take this many times its processor time: a busy machine lets a worker wait."""
_WORTH_A_WORKER = 16  # a worker costs as much as that many easy comparisons

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from tokur_cli.answers.symbolic import main; main()"
)


OUT_OF_LIMITS = "out of limits"
"""The reply to a request that ran out of time or memory."""


class WorkerPool:
    """Answers requests in worker processes under a time and a memory limit.

    Args:
        count: the most processes; by default as many as there are processors for this process, at most 8.
        seconds: limit of one request in processor time, whatever else the machine does.
        memory_bytes: limit of a worker's address space, of which math-verify itself takes 60 MB.
    """

    def __init__(self, count: int | None = None, *, seconds: float = 5.0, memory_bytes: int = 1 << 30) -> None:
        self.count = count or min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
        self._limits = [str(limit) for limit in (seconds, seconds * PATIENCE, memory_bytes)]
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._workers):
            self._drop(worker)

    def map(self, requests: Iterable[tuple[str, ...]]) -> list[Any]:
        """Return the replies to ``requests`` in order, ``OUT_OF_LIMITS`` where one ran out of time or memory.

        Args:
            requests: for each the name of a function of ``mathematics``, and the texts that it is called with.

        Raises:
            TokurError: a worker does not start.
        """
        waiting = list(requests)
        with ThreadPoolExecutor(min(self.count, 1 + len(waiting) // _WORTH_A_WORKER)) as threads:
            try:
                return list(threads.map(self._reply, waiting))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                for worker in list(self._workers):
                    worker.kill()
                raise

    def _reply(self, request: tuple[str, ...]) -> Any:
        """Return a worker's reply to a request; a worker that died over it is not used again."""
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its death shows when the reply is read
            worker.stdin.write(json.dumps(request).encode() + b"\n")
        line = worker.stdout.readline()
        reply = json.loads(line) if line.endswith(b"\n") else OUT_OF_LIMITS
        if reply == OUT_OF_LIMITS:
            self._drop(worker)
        else:
            self._idle.put(worker)
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        arguments = [*self._limits, json.dumps([os.path.abspath(path) for path in sys.path])]
        worker = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._workers.add(worker)
        assert worker.stdout is not None
        if worker.stdout.readline() != b'"ready"\n':
            self._drop(worker)
            raise TokurError("symbolic comparison does not start: is math-verify installed and importable?")
        return worker

    def _drop(self, worker: subprocess.Popen[bytes]) -> None:
        self._workers.discard(worker)
        with worker:
            worker.kill()


def main() -> None:
    """Serve requests until standard input ends.

    ``argv`` holds the seconds of processor time and of the clock for each, and bytes of address space in all.
    """
    seconds, patience, memory = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    for limit in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(limit, signal.SIG_DFL)
    signal.alarm(START_SECONDS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    import resource

    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)  # what a library prints goes nowhere
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS does not enforce RLIMIT_AS: there the time limit alone bounds a comparison
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    from tokur_cli.answers import mathematics

    replies.write(b'"ready"\n')
    for line in requests:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, patience)
        name, *texts = json.loads(line)
        try:
            reply: Any = getattr(mathematics, name)(*texts)
        except MemoryError:
            reply = OUT_OF_LIMITS
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        # math-verify swallows MemoryError here and there; its False is then worth nothing.
        if not reply and sys.platform == "linux" and _peak_memory() > 0.9 * memory:
            reply = OUT_OF_LIMITS
        replies.write(json.dumps(reply).encode() + b"\n")


def _peak_memory() -> int:
    with open("/proc/self/status", "rb") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmPeak"))
