"""Which of several processes this one is, as ``torchrun`` and ``accelerate launch`` start them, and what is its own."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tokur_cli.records.errors import UsageError


@dataclass(frozen=True)
class Process:
    """A process's place among those that share a run.

    Args:
        rank: its number among all, from 0.
        size: the number of all.
        local_rank: its number among those of its machine, from 0.
        local_size: the number of those.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


def this_process() -> Process:
    """Return this process's place, from the environment variables that launchers set; a run of one without them.

    Raises:
        UsageError: a variable is not a number.
    """
    if not all(os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
        return Process()
    rank, size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    return Process(rank, size, _number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", size))


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdecimal():
        raise UsageError(f"the environment variable {name} is {value!r}, not a number: is it meant for a launcher?")
    return int(value)


def divide_threads(process: Process) -> None:
    """Give each process of a machine its part of the cores, unless OMP_NUM_THREADS says how many threads it has."""
    import torch

    asked = os.environ.get("OMP_NUM_THREADS")
    if asked is None or (asked == "1" and "TORCHELASTIC_RUN_ID" in os.environ):  # torchrun's own default
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // process.local_size))


def own_device_map(process: Process, device_map: str) -> str:
    """Return where a process puts its model: on its own GPU where ``auto`` is asked for and there are several."""
    if process.size == 1 or device_map != "auto":
        return device_map
    import torch

    return device_map if torch.cuda.device_count() < 2 else f"cuda:{process.local_rank}"
