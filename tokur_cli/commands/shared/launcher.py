"""What every command does under a launcher such as ``torchrun``: one process speaks, and only ``score`` shares."""

from __future__ import annotations

import os
import sys

from tokur_cli.engine.processes import this_process
from tokur_cli.records.errors import UsageError

SHARING_COMMANDS = frozenset({"score"})


def leave_speaking_to_rank_zero() -> None:
    """Silence what Python writes in the other processes: they have the same arguments, and so the same errors."""
    if this_process().rank > 0 and os.environ.get("TOKUR_DEBUG") != "1":
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the process's life


def require_sharing(command: str) -> None:
    """Refuse a command that would do all its work, and write all its output, once in each process.

    Raises:
        UsageError: there are several processes, and the command does not share its work among them.
    """
    size = this_process().size
    if size > 1 and command not in SHARING_COMMANDS:
        raise UsageError(
            f"{command} runs in one process, but this is one of {size}: start it without accelerate launch or "
            "torchrun (if there is no launcher, unset WORLD_SIZE)"
        )
