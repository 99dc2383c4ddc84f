"""A GPU that computes nothing: PyTorch's fake tensors, which have a device, a dtype and a shape but no numbers.

Every operation checks its arguments as it would on a GPU: tensors on two devices, dtypes that do not go together and
shapes that do not fit are errors. What is read from the GPU, for which a real program would wait, is counted, and is 0.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM

DEVICE, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
LLAMA_8B = {
    "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 8192,
}  # fmt: skip
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
        waits: of every time that the GPU is waited for, how many calls are to be done then, and how many were made.
        crossed: shapes of tensors that went from one GPU to another.
        live, peak: bytes on GPUs that are held now, and the most that ever were.
        passed: bytes that its kernels read and write, as if each took its arguments whole.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[tuple[int, ...]]]] = []
        self.crossed: list[tuple[int, ...]] = []
        self.waits: list[tuple[int, int]] = []
        self.pinned = weakref.WeakSet[Any]()
        self.under_way = weakref.WeakSet[Any]()
        self.sent = self.read = self.kernels = self.passed = self.live = self.peak = 0
        self._held = weakref.WeakSet[Any]()

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        name = function.name().partition("::")[2].partition(".")[0]
        tensors = [value for value in arguments if isinstance(value, Tensor)]
        if name == "_local_scalar_dense" and tensors[0].is_cuda:
            self.read += 1
            self.wait_for(len(self.calls))
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
        on_gpu = isinstance(result, (tuple, list)) or getattr(result, "is_cuda", False)
        if on_gpu and not is_view and name not in _NO_KERNEL:
            self.kernels += 1
            self.passed += sum(map(_bytes_of, tree_leaves((arguments, result))))
        if name == "_to_copy" and tensors[0].device != result.device:
            if tensors[0].is_cuda and result.is_cuda:
                self.crossed.append(tuple(result.shape))
            else:
                self.sent += result.is_cuda
                self.read += not result.is_cuda
                self._copied(tensors[0], result, options.get("non_blocking", False))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, FakeTensor) and tensor.is_cuda:
                self._hold(tensor.untyped_storage())
        return result

    def wait_for(self, calls: int) -> None:
        """Note that the GPU is waited for until so many of the calls are done."""
        self.waits.append((calls, len(self.calls)))

    def _copied(self, source: Tensor, result: Tensor, non_blocking: bool) -> None:
        if not source.numel():
            return
        if not non_blocking or (result.is_cuda and source.untyped_storage() not in self.pinned):
            self.wait_for(len(self.calls))
        elif not result.is_cuda:
            self.under_way.add(result.untyped_storage())

    def _hold(self, storage: torch.UntypedStorage) -> None:
        if storage in self._held:
            return
        self._held.add(storage)
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._let_go, storage.nbytes())

    def _let_go(self, count: int) -> None:
        self.live -= count

    def of(self, name: str) -> list[list[tuple[int, ...]]]:
        """Return the shapes that an operation was called with."""
        return [shapes for called, shapes in self.calls if called == name]

    def forget(self) -> None:
        """Begin anew; what is held stays held."""
        self.calls.clear()
        self.crossed.clear()
        self.waits.clear()
        self.sent = self.read = self.kernels = self.passed = 0
        self.peak = self.live


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
    operations = Operations()

    def read(tensor: Tensor) -> np.ndarray[Any, Any]:
        assert tensor.untyped_storage() not in operations.under_way, "read before it is there"
        return _zeros(tensor)

    def pinned(tensor: Tensor) -> Tensor:
        copied = tensor.clone()
        operations.pinned.add(copied.untyped_storage())
        return copied

    monkeypatch.setattr(FakeTensor, "numpy", read, raising=False)
    monkeypatch.setattr(FakeTensor, "tolist", lambda tensor: read(tensor.cpu()).tolist(), raising=False)
    monkeypatch.setattr(Tensor, "pin_memory", pinned)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: device)
    monkeypatch.setattr(torch.cuda, "Event", lambda: _Event(operations))
    with _guard_of_no_device(), FakeTensorMode(allow_non_fake_inputs=True), operations:
        yield operations


class _Event:
    """A moment in what is asked of a GPU."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def record(self, stream: torch.device) -> None:
        assert stream.type == "cuda"
        self._before, self._arriving = len(self._operations.calls), list(self._operations.under_way)

    def synchronize(self) -> None:
        """Wait for what was asked before, and for nothing that came after."""
        self._operations.wait_for(self._before)
        for storage in self._arriving:
            self._operations.under_way.discard(storage)


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


def _bytes_of(value: Any) -> int:
    return min(value.nbytes, value.untyped_storage().nbytes()) if isinstance(value, Tensor) else 0


def _numpy_dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def llama_8b(layers: int) -> Any:
    """A model of Llama 3.1 8B's shapes, without weights."""
    with torch.device("meta"):
        config = AutoConfig.for_model("llama", **LLAMA_8B, num_hidden_layers=layers)
        return AutoModelForCausalLM.from_config(config).eval()


def moved(model: nn.Module, dtype: torch.dtype, device: torch.device = DEVICE) -> Any:
    """Give a model fake weights on a device."""

    def fake(tensor: Tensor) -> Tensor:
        return torch.empty(tensor.shape, dtype=dtype if tensor.is_floating_point() else tensor.dtype, device=device)

    return model._apply(fake).requires_grad_(False)


def split(model: Any, dtype: torch.dtype, first: int) -> Any:
    """Give a Llama fake weights on two devices, the first layers on ``DEVICE``, with what accelerate has it run by."""
    places = {"model.embed_tokens": DEVICE, "model.rotary_emb": DEVICE, "model.norm": SECOND, "lm_head": SECOND}
    for index in range(len(model.model.layers)):
        places[f"model.layers.{index}"] = DEVICE if index < first else SECOND
    for name, device in places.items():
        moved(model.get_submodule(name), dtype, device)
        add_hook_to_module(
            model.get_submodule(name), _InPlace(places[name], skip_keys=model._skip_keys_device_placement)
        )
    add_hook_to_module(model, _InPlace(DEVICE, io_same_device=True, skip_keys=model._skip_keys_device_placement))
    return model


class _InPlace(AlignDevicesHook):
    """What accelerate has modules run by that are on several devices, for weights that are there already."""

    def init_hook(self, module: nn.Module) -> nn.Module:
        return module
