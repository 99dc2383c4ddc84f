"""A Mac's GPU that computes nothing: fake tensors have a device, a dtype and a shape but no numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

_MPS, _META = 13, 14  # c10::DeviceType


class _NoFloat64(TorchDispatchMode):
    """Refuses float64 on a Mac's GPU in PyTorch's own words."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        result = function(*arguments, **(options or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor) and tensor.device.type == "mps" and tensor.dtype == torch.float64:
                raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support it")
        return result


@contextmanager
def fake_mac_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have tensors on "mps" be fake ones within the context, for which float64 is an error."""
    if torch.__version__ < "2.13":  # (compared as versions)
        pytest.skip("the fake tensors of PyTorch before 2.13 know less of GPUs")
    monkeypatch.setattr(FakeTensor, "tolist", lambda tensor: _zeros(tensor.cpu()).tolist(), raising=False)
    with _guard_of_no_device(), FakeTensorMode(allow_non_fake_inputs=True), _NoFloat64():
        yield


@contextmanager
def _guard_of_no_device() -> Iterator[None]:
    """Let indexing and copying pass the guard that chooses the current GPU, where there is no guard or no GPU.

    That of the device "meta", which has nothing to choose from, stands in for it.
    """
    library = ctypes.CDLL(str(next(Path(torch.__file__).parent.glob("lib/libc10.[sd][oy]*"))))
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    own = guards[_MPS]
    guards[_MPS] = guards[_META]
    try:
        yield
    finally:
        guards[_MPS] = own


def _zeros(tensor: Tensor) -> np.ndarray[Any, Any]:
    assert tensor.device.type == "cpu"
    return np.zeros(tensor.shape, _numpy_dtype(tensor))


def _numpy_dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
