"""Symbolic comparison by math-verify, in worker processes that are killed when they run out of time or memory.

Expressions may never end or eat all memory, and nothing but the end of its process can interrupt ``9^{9^{9^9}}``. The
first worker starts with the first comparison that needs one (about 0.4 s), so answers that are plain numbers never pay
for it. Each answers one JSON request a line, see ``mathematics.serve``.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tokur_cli.records.errors import TokurError

_WORTH_A_WORKER = 16  # a worker costs as much as that many easy comparisons
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from tokur_cli.answers.mathematics import serve; serve(float(sys.argv[1]), int(sys.argv[2]))"
)


class WorkerPool:
    """Answers requests in worker processes under a time and a memory limit.

    Args:
        count: the most processes; by default as many as there are processors for this process, at most 8.
        seconds: limit of a request in processor time: a verdict does not depend on what else the machine does.
        memory_bytes: limit of a worker's address space, of which math-verify itself takes 60 MB.
    """

    def __init__(self, count: int | None = None, *, seconds: float = 5.0, memory_bytes: int = 1 << 30) -> None:
        self.count = count or min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
        self._limits = [str(seconds), str(memory_bytes)]
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._workers):
            self._drop(worker)

    def map(self, requests: Iterable[tuple[str, ...]]) -> list[Any]:
        """Return the replies to ``requests`` in order, None where one ran out of time or memory.

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
        if not line.endswith(b"\n"):
            self._drop(worker)
            return None
        self._idle.put(worker)
        return json.loads(line)

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
