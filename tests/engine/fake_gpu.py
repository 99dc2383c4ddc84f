"""A GPU that computes nothing: PyTorch's fake tensors, which have a device, a dtype and a shape but no numbers.

Every operation checks its arguments as it would on a GPU: tensors on two devices, dtypes that do not go together and
shapes that do not fit are errors. What is read from the GPU, for which a real program would wait, is counted, and is 0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

DEVICE = torch.device("cuda:0")
ONE_DTYPE = frozenset({
    "addmm", "addmm_", "baddbmm", "bmm", "index_put", "index_put_", "lerp_", "mm", "scatter_",
    "_efficient_attention_forward", "_flash_attention_forward",
})  # fmt: skip
"""Operations that want one floating-point dtype, which fake tensors do not check for all of them."""
_FLASH = "_flash_attention_forward"
_ATTENTION = (_FLASH, "_efficient_attention_forward")
_CUDA, _MPS, _META = 1, 13, 14  # c10::DeviceType
_NO_KERNEL = frozenset({
    "_local_scalar_dense", "_unsafe_view", "detach", "empty", "empty_like", "empty_strided", "lift_fresh", "new_empty",
})  # fmt: skip
"""Operations that compute nothing, besides those that return another view of a tensor."""


class Operations(TorchDispatchMode):
    """Keeps what was asked of the device.

    Attributes:
        calls: (name, its arguments' shapes) of every operation, in order.
        kernels: how many of them compute something on the GPU.
        sent, read: how many tensors went to the GPU and came from it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[tuple[int, ...]]]] = []
        self.sent = self.read = self.kernels = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        name = function.name().partition("::")[2].partition(".")[0]
        tensors = [value for value in arguments if isinstance(value, Tensor)]
        if name == "_local_scalar_dense" and tensors[0].device == DEVICE:
            self.read += 1
            return np.zeros((), _numpy_dtype(tensors[0])).item()
        if name in ONE_DTYPE:
            dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
            assert len(dtypes) == 1, f"{name} of {dtypes}"
        if torch.is_inference_mode_enabled() and function.namespace == "aten":
            with self:  # in inference mode it falls to the modes to take apart what stands for other operations
                result = function.decompose(*arguments, **options)
            if result is not NotImplemented:
                return result
        if name in _ATTENTION:
            query = tensors[0]
            assert name != _FLASH or (query.element_size() == 2 and query.shape[-1] <= 256), f"{name} of {query}"
            assert query.dtype != torch.bfloat16 or torch.cuda.get_device_capability(DEVICE) >= (8, 0), name
        result = function(*arguments, **options)
        self.calls.append((name, [tuple(tensor.shape) for tensor in tensors]))
        returned = function._schema.returns[0].alias_info if function._schema.returns else None
        is_view = returned is not None and not returned.is_write
        on_gpu = isinstance(result, (tuple, list)) or getattr(result, "device", None) == DEVICE
        self.kernels += on_gpu and not is_view and name not in _NO_KERNEL
        if name == "_to_copy" and tensors[0].device != result.device:
            self.sent += result.device == DEVICE
            self.read += result.device != DEVICE
        return result

    def of(self, name: str) -> list[list[tuple[int, ...]]]:
        """Return the shapes that an operation was called with."""
        return [shapes for called, shapes in self.calls if called == name]

    def forget(self) -> None:
        """Begin anew."""
        self.calls.clear()
        self.sent = self.read = self.kernels = 0


@contextmanager
def fake_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> Iterator[Operations]:
    """Have tensors on ``DEVICE`` be fake ones within the context; their numbers are zeros to whoever asks.

    Args:
        monkeypatch: undoes what the test needs.
        capability: of the GPU: (8, 0) and above have flash attention.
    """
    if torch.__version__ < "2.13":  # (compared as versions)
        pytest.skip("the fake tensors of PyTorch before 2.13 know less of GPUs")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(FakeTensor, "numpy", _zeros, raising=False)
    monkeypatch.setattr(FakeTensor, "tolist", lambda tensor: _zeros(tensor.cpu()).tolist(), raising=False)
    with _guard_of_no_device(), FakeTensorMode(allow_non_fake_inputs=True), Operations() as operations:
        yield operations


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
    with _guard_of_no_device(_MPS), FakeTensorMode(allow_non_fake_inputs=True), _NoFloat64():
        yield


@contextmanager
def _guard_of_no_device(device_type: int = _CUDA) -> Iterator[None]:
    """Let indexing and copying pass the guard that chooses the current GPU, where there is no guard or no GPU.

    That of the device "meta", which has nothing to choose from, stands in for it.
    """
    library = ctypes.CDLL(str(next(Path(torch.__file__).parent.glob("lib/libc10.[sd][oy]*"))))
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    own = guards[device_type]
    guards[device_type] = guards[_META]
    try:
        yield
    finally:
        guards[device_type] = own


def _zeros(tensor: Tensor) -> np.ndarray[Any, Any]:
    assert tensor.device.type == "cpu"
    return np.zeros(tensor.shape, _numpy_dtype(tensor))


def _numpy_dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def moved(model: nn.Module, dtype: torch.dtype) -> Any:
    """Give a model fake weights on ``DEVICE``."""

    def fake(tensor: Tensor) -> Tensor:
        return torch.empty(tensor.shape, dtype=dtype if tensor.is_floating_point() else tensor.dtype, device=DEVICE)

    return model._apply(fake).requires_grad_(False)


def llama_8b(layers: int) -> Any:
    """Return a model of Llama 3.1 8B's shapes with so many layers, without weights: ``moved`` gives it fake ones."""
    sizes = {
        "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336, "num_attention_heads": 32,
        "num_key_value_heads": 8, "max_position_embeddings": 8192,
    }  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **sizes, num_hidden_layers=layers))
    return model.eval()
