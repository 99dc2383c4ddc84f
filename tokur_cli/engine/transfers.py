"""Copies between main memory and a GPU for which nobody waits until the numbers are needed.

A GPU does what it is asked in order. PyTorch's usual copy waits until all that was asked before is done; from memory
that is pinned, a copy is one more thing that is asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def sent(numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Return numbers on a device; on the CPU they are these, not a copy."""
    here = torch.from_numpy(np.ascontiguousarray(numbers))
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device)


class Arriving:
    """Numbers on their way to main memory.

    Args:
        numbers: where they are computed.
    """

    def __init__(self, numbers: Tensor) -> None:
        self._here = numbers.to("cpu", non_blocking=numbers.is_cuda)  # to memory that PyTorch pins
        self._arrival = None
        if numbers.is_cuda:
            self._arrival = torch.cuda.Event()
            self._arrival.record(torch.cuda.current_stream(numbers.device))

    def wait(self) -> Tensor:
        """Return them once they are there."""
        if self._arrival is not None:
            self._arrival.synchronize()
        return self._here
