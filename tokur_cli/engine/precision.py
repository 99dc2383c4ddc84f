"""Where numbers can be computed in float64, and what those of lower precision may err by."""

from __future__ import annotations

import torch
from torch import Tensor

_TOLERANCE = {torch.float16: 0.2, torch.bfloat16: 0.5}
_ROUNDING = {torch.float16: 1e-3, torch.bfloat16: 4e-3}


def tolerance(dtype: torch.dtype) -> float:
    """Return the nats a token by which two ways of computing a text may differ: more than rounding has been seen to."""
    return _TOLERANCE.get(dtype, 0.02)


def rounding(dtype: torch.dtype) -> float:
    """Return the nats a token by which one way may differ from itself, with a few operations in another order."""
    return _ROUNDING.get(dtype, 2e-4)


def on_float64_device(values: Tensor) -> Tensor:
    """Return values as they are, but on the CPU where their device is a Mac's GPU, which has no float64."""
    return values.cpu() if values.device.type == "mps" else values
