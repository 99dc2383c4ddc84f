"""How much memory there is, and telling too little of it from other failures."""

from __future__ import annotations

import re
from collections.abc import Iterable

import psutil
import torch
from accelerate.utils import get_max_memory
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

__all__ = ["available_bytes", "clear_device_cache", "is_out_of_memory"]

_OUT_OF_MEMORY = re.compile(r"out of memory|STATUS_ALLOC_FAILED|can't allocate memory", re.IGNORECASE)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a smaller batch may succeed where this error came up.

    PyTorch has a class for what its own allocator says alone: CUDA's runtime and driver, cuBLAS, cuDNN and cuSOLVER
    say it in words.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if not isinstance(error, RuntimeError):
        return False
    # accelerate takes it for granted that an error's only argument is its text
    return bool(_OUT_OF_MEMORY.search(str(error)) or should_reduce_batch_size(RuntimeError(str(error))))


def available_bytes(devices: Iterable[torch.device]) -> int:
    """Return the memory that is free now on the fullest of these devices, "meta" not counted."""
    return min(map(_free, {device for device in devices if device.type != "meta"}))


def free_bytes(device: str) -> int:
    """Return the memory that is free now on a device."""
    return _free(torch.device(device))


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type in ("cpu", "mps"):  # a Mac's GPU has the main memory
        return int(psutil.virtual_memory().available)
    free: dict[int | str, int] = get_max_memory()
    return free[device.index or 0]
