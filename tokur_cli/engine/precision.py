"""Where numbers can be computed in float64."""

from __future__ import annotations

from torch import Tensor


def on_float64_device(values: Tensor) -> Tensor:
    """Return values as they are, but on the CPU where their device is a Mac's GPU, which has no float64."""
    return values.cpu() if values.device.type == "mps" else values
