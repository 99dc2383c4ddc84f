"""How much memory there is, and telling too little of it from other failures."""

from __future__ import annotations

import torch
from accelerate.utils import get_max_memory
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

__all__ = ["available_bytes", "clear_device_cache", "is_out_of_memory"]


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a smaller batch may succeed where this error came up."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # accelerate takes it for granted that an error's only argument is its text
    return isinstance(error, RuntimeError) and bool(should_reduce_batch_size(RuntimeError(str(error))))


def available_bytes(device: torch.device) -> int:
    """Return the memory that is free on a device now."""
    free: dict[int | str, int] = get_max_memory()
    # A Mac's memory is the main memory, and is listed in place of it
    return free[device.index or 0] if device.type == "cuda" else free.get("cpu", max(free.values()))
