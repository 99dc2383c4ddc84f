"""A pipeline that takes no model, for workers of real Ray."""

import os
import signal
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fake:
    """Makes itself, and answers a number with itself.

    Args:
        poison: the number that kills its worker.
        seconds: what a task takes.
    """

    poison: int | None = None
    seconds: float = 0.0
    settings: dict[str, Any] = field(default_factory=lambda: {"sigma": 0.1})

    def __call__(self, progress):
        return self

    def process(self, task):
        if task == self.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        yield task
