"""Worker processes that compare answers symbolically, each killed and replaced when it runs out of time or memory.

The first starts with the first comparison that needs one (about 0.4 s), so answers that are plain numbers never pay for
it; the next ones start one by one while enough work is left. They are processes, not threads, because nothing else can
interrupt an expression such as ``9^{9^{9^9}}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tokur_cli.records.errors import TokurError

START_SECONDS = 60.0
"""How long a worker may take to import math-verify before that is an error."""
PATIENCE = 12.0
"""By the clock a request may take this many times its processor time: a busy machine lets a worker wait."""
_WORTH_A_WORKER = 16  # a worker costs as much as that many easy comparisons

_START = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from tokur_cli.answers.worker import main; main()"


class OutOfLimits(NamedTuple):
    """The reply to a request that ran out of ``time`` or ``memory``."""

    limit: str


class _Worker:
    """One child process and the request it is working on."""

    def __init__(self, seconds: float, memory_bytes: int) -> None:
        limits = map(str, (seconds, seconds * PATIENCE, memory_bytes))
        arguments = [*limits, json.dumps([os.path.abspath(path) for path in sys.path])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self.replies = self._process.stdin, self._process.stdout
        self.ready = False
        self.number: int | None = None
        self.deadline = time.monotonic() + START_SECONDS

    def send(self, number: int, request: Mapping[str, Any], seconds: float) -> None:
        self.number = number
        self.deadline = time.monotonic() + seconds * PATIENCE
        with contextlib.suppress(BrokenPipeError):  # its death shows when the reply is read
            self._requests.write(json.dumps(request).encode() + b"\n")

    def receive(self) -> Any:
        """Return the reply, or ``OutOfLimits`` where the worker died over the request."""
        line = b""
        while not line.endswith(b"\n"):
            chunk = os.read(self.replies.fileno(), 65_536)
            if not chunk:
                ended_by = -self._process.wait()
                return OutOfLimits("time" if ended_by in (signal.SIGPROF, signal.SIGALRM) else "memory")
            line += chunk
        return json.loads(line)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self.replies.close()
        self._requests.close()


class WorkerPool:
    """Answers requests in worker processes under a time and a memory limit; use it as a context manager.

    Args:
        count: the most processes; by default as many as there are processors for this process, at most 8.
        seconds: limit of one request in processor time, whatever else the machine does.
        memory_bytes: limit of a worker's address space, of which math-verify itself takes 60 MB.
    """

    def __init__(self, count: int | None = None, *, seconds: float = 5.0, memory_bytes: int = 1 << 30) -> None:
        self.count = count or min(8, _processors())
        self.seconds = seconds
        self.memory_bytes = memory_bytes
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in list(self._workers):
            self._drop(worker)

    def map(self, requests: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return the replies to ``requests`` in order, ``OutOfLimits`` where a request ran out of time or memory.

        Args:
            requests: keyword arguments of the worker's operations, see ``worker``.

        Raises:
            TokurError: a worker does not start.
        """
        waiting = list(enumerate(requests))[::-1]
        replies: list[Any] = [None] * len(waiting)
        try:
            self._feed(waiting)
            while waiting or any(worker.number is not None for worker in self._workers):
                for worker, reply in self._collect():
                    if worker.number is not None:
                        replies[worker.number] = reply
                        worker.number = None
                    if isinstance(reply, OutOfLimits):
                        self._drop(worker)
                self._feed(waiting)
        except BaseException:
            self.close()  # a worker that still holds an old request would answer it to the next call
            raise
        return replies

    def _feed(self, waiting: list[tuple[int, Mapping[str, Any]]]) -> None:
        """Give every idle worker a request; start one more worker if many are left and none is starting."""
        for worker in self._workers:
            if waiting and worker.ready and worker.number is None:
                worker.send(*waiting.pop(), self.seconds)
        enough = len(self._workers) >= min(self.count, 1 + len(waiting) // _WORTH_A_WORKER)
        if waiting and not enough and all(worker.ready for worker in self._workers):
            worker = _Worker(self.seconds, self.memory_bytes)
            self._workers.append(worker)
            self._selector.register(worker.replies, selectors.EVENT_READ, worker)

    def _collect(self) -> Iterator[tuple[_Worker, Any]]:
        """Wait for replies or the next deadline, and give out what there is."""
        working = [worker for worker in self._workers if worker.number is not None or not worker.ready]
        patience = min(worker.deadline for worker in working) - time.monotonic()
        for key, _ in self._selector.select(max(0.0, patience)):
            worker: _Worker = key.data
            reply = worker.receive()
            if worker.ready:
                yield worker, OutOfLimits("memory") if reply == "memory" else reply
            elif reply == "ready":
                worker.ready = True
            else:
                raise TokurError("symbolic comparison cannot start: is math-verify installed and importable?")
        now = time.monotonic()
        for worker in working:
            if worker.deadline < now:
                if not worker.ready:
                    raise TokurError(f"symbolic comparison did not start within {START_SECONDS:.0f} s")
                if worker.number is not None:
                    yield worker, OutOfLimits("time")

    def _drop(self, worker: _Worker) -> None:
        self._selector.unregister(worker.replies)
        self._workers.remove(worker)
        worker.stop()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
