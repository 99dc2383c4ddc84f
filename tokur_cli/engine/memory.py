"""Telling too little memory from other failures."""

from __future__ import annotations

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

__all__ = ["clear_device_cache", "is_out_of_memory"]


def is_out_of_memory(error: Exception) -> bool:
    """Whether a smaller batch may succeed where this error came up."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or bool(should_reduce_batch_size(error))
