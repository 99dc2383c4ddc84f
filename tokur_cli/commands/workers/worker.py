"""What a worker is: a process of its own that holds a pipeline and answers tasks."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from tokur_cli.commands.shared.progress import Progress


class Pipeline(Protocol):
    """A model and what is done with it; ``settings`` are what the answers depend on."""

    @property
    def settings(self) -> dict[str, Any]: ...  # noqa: D102

    def process(self, task: Any) -> Iterable[Any]:
        """Yield what becomes of a task; a worker's can be pickled."""


MakePipeline = Callable[[Progress], Pipeline]  # loads a model; it is pickled, and called in the worker


class Answer(NamedTuple):
    """What a worker says: its machine, its settings or outcomes of a task, and what the user should know."""

    host: str
    outcome: Any
    notes: list[str]


class Worker:
    """The actor, of which Ray makes one in each process."""

    def __init__(self) -> None:
        self._notes: list[str] = []

    def start(self, make: MakePipeline, command: str, folder: str) -> Answer:
        """Make the pipeline, in the folder that relative names are meant in if it is here; return its settings."""
        if os.path.isdir(folder):
            os.chdir(folder)
        self._pipeline = make(Progress(command, self._notes.append))
        return self._answer(self._pipeline.settings)

    def process(self, task: Any) -> Answer:
        """Do a task; return its outcomes."""
        return self._answer(list(self._pipeline.process(task)))

    def _answer(self, outcome: Any) -> Answer:
        notes, self._notes[:] = list(self._notes), []
        return Answer(socket.gethostname(), outcome, notes)
