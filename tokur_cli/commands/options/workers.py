"""How many processes share the work, and where."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, ClassVar

from typer import Option

from tokur_cli.commands.options.marks import Needs
from tokur_cli.records.errors import UsageError


@dataclass(frozen=True)
class WorkerOptions:
    """Processes that share the work, each with the model; None is one, or as many as a given cluster has GPUs."""

    panel: ClassVar[str] = "Workers"

    workers: Annotated[str | None, Option(metavar="N|auto", help="Processes, by Ray; auto: one per GPU.")] = None
    cluster: Annotated[str | None, Option(metavar="ADDRESS", help="Ray cluster; else RAY_ADDRESS, else here.")] = None
    gpus_per_worker: Annotated[
        int | None,
        Option(min=1, metavar="N", help="GPUs over which a model is spread."),
        Needs("--workers", "--cluster"),
    ] = None

    def __post_init__(self) -> None:
        if self.workers not in (None, "auto") and not (self.workers.isdecimal() and int(self.workers) > 0):
            raise UsageError(f'--workers has "{self.workers}"; it must be a number from 1, or auto')
        if not self.in_process and find_spec("ray") is None:
            raise UsageError("several workers, or a cluster, need Ray: pip install 'tokur[ray]'")

    @property
    def address(self) -> str | None:
        """The cluster; None for this machine."""
        return self.cluster or os.environ.get("RAY_ADDRESS") or None

    @property
    def in_process(self) -> bool:
        """Whether this process does all the work, without Ray."""
        return self.cluster is None and self.workers in (None, "1")
