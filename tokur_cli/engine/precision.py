"""Where numbers can be computed in float64, and what those of lower precision may err by."""

from __future__ import annotations

import torch
from torch import Tensor

_TOLERANCE = {torch.float16: 0.2, torch.bfloat16: 0.5}
_OF_FLOAT32 = 0.02  # and better


def tolerance(dtype: torch.dtype) -> float:
    """Return the nats that rounding may make: more than it has been seen to, and less than what a wrong way does."""
    return _TOLERANCE.get(dtype, _OF_FLOAT32)


def on_float64_device(values: Tensor) -> Tensor:
    """Return values as they are, but on the CPU where their device is a Mac's GPU, which has no float64."""
    return values.cpu() if values.device.type == "mps" else values
