"""What a worker is: a process of its own that holds a pipeline and answers tasks."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from tokur_cli.commands.shared.errors import exit_code, message_for
from tokur_cli.commands.shared.progress import Progress

Note = Callable[[str], None]
"""Called with what the user should know, in a sentence."""


class Pipeline(Protocol):
    """A model and what is done with it."""

    @property
    def settings(self) -> dict[str, Any]:
        """What the answers depend on."""

    def answer(self, task: Any) -> Iterable[Any]:
        """Yield what becomes of a task; from a worker's it can be pickled."""


MakePipeline = Callable[[Progress, Note], Pipeline]
"""Loads a model. It is pickled, and called in the worker."""


@dataclass(frozen=True)
class Report:
    """A worker is ready.

    Args:
        host: its machine.
        settings: its pipeline's.
        notes: what the user should know.
    """

    host: str
    settings: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True)
class Answer:
    """What became of a task.

    Args:
        outcomes: what the pipeline yielded.
        notes: what the user should know.
    """

    outcomes: list[Any]
    notes: list[str]


@dataclass(frozen=True)
class Failure:
    """What a worker could not do.

    Args:
        host: its machine.
        message: why.
        code: the exit code that says so.
        trace: the place in the code.
    """

    host: str
    message: str
    code: int
    trace: str


class Worker:
    """The actor: Ray makes one in each process. It returns its errors, because Ray wraps those that are raised."""

    def __init__(self) -> None:
        self._pipeline: Pipeline | None = None
        self._notes: list[str] = []

    def start(self, make: MakePipeline, command: str, folder: str) -> Report | Failure:
        """Make the pipeline, in the folder that relative names are meant in, where this machine has it."""
        try:
            if os.path.isdir(folder):
                os.chdir(folder)
            self._pipeline = make(Progress(command), self._notes.append)
            return Report(socket.gethostname(), self._pipeline.settings, self._take_notes())
        except Exception as error:
            return _failure(error)

    def answer(self, task: Any) -> Answer | Failure:
        """Do a task."""
        assert self._pipeline is not None
        try:
            return Answer(list(self._pipeline.answer(task)), self._take_notes())
        except Exception as error:
            return _failure(error)

    def _take_notes(self) -> list[str]:
        notes, self._notes[:] = list(self._notes), []
        return notes


def _failure(error: Exception) -> Failure:
    return Failure(socket.gethostname(), message_for(error), exit_code(error), traceback.format_exc())
