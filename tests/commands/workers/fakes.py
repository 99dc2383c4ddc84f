"""Pipelines that take no model, for workers of real Ray."""

import os
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Fake:
    """Makes itself, and answers a number with itself and the process that did it.

    Args:
        poison: the number that kills its worker.
        seconds: what each part of a task takes.
        parts: how many times it answers.
        first: a file that the first worker to start makes; the others have other settings.
        start: how a worker starts: it is ``ready``, is ``killed`` or ``fails``.
    """

    poison: int | None = None
    seconds: float = 0.0
    parts: int = 1
    first: Path | None = None
    start: str = "ready"
    settings: dict[str, Any] = field(default_factory=lambda: {"sigma": 0.1})

    def __call__(self, progress):
        progress.note("a note of every worker")
        if self.start == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.start == "fails":
            raise KeyError("lost")
        if self.first is not None:
            try:
                self.first.touch(exist_ok=False)
            except FileExistsError:
                self.settings["sigma"] = 0.3
        return self

    def process(self, task):
        if task == self.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(self.parts):
            time.sleep(self.seconds)
            yield task, os.getpid(), socket.gethostname(), os.environ.get("OMP_NUM_THREADS")
