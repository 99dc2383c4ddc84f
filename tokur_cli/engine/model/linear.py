"""The linear maps of a model: what the weight of one is, in whichever way and order it is kept.

Each library of quantised weights keeps integers and scales in an order of its own. All of them compute a linear map, so
W is read off that: column i is what the map makes of the i-th unit vector. It is the very weight that the model
multiplies by.

oneDNN multiplies weights in an order of its own, into which PyTorch brings a bfloat16 weight for every product; in
float32 PyTorch calls a library that is slower with few rows. Here weights are brought into that order once. Products in
bfloat16 stay the same to the last bit; in float32 they are summed up in another order.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tokur_cli.engine.forward.batching import available_bytes, refusing
from tokur_cli.engine.forward.body import computing_device
from tokur_cli.engine.model.place import multiplies_bfloat16_fast
from tokur_cli.records.errors import TokurError

_TOGETHER = 1024  # unit vectors in a product
_ROOM_FOR_COPY = 4
"""A head that is tied to the embedding is copied where so many copies would fit into the memory that is free."""


class ReorderedHead(nn.Linear):
    """A head that shares its weight with the embedding, with a copy in oneDNN's order."""

    reordered: Tensor

    def forward(self, input: Tensor) -> Tensor:
        """Return (…, out) of inputs (…, in)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            input.contiguous(), self.reordered, self.bias, "none", [], ""
        )
        return product


class ReorderedLinear(ReorderedHead):
    """A linear map that keeps its weight in oneDNN's order alone."""

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weight (out × in) as it was, in memory of its own: changing it changes nothing here."""
        return self.reordered.to_dense()


def is_linear_map(module: nn.Module) -> bool:
    """Tell whether a module is a linear map of its inputs, by the sizes that those of all libraries have."""
    return isinstance(module, Conv1D) or all(
        isinstance(getattr(module, name, None), int) for name in ("in_features", "out_features")
    )


def size(module: nn.Module) -> tuple[int, int]:
    """Return the numbers of output and of input features of a linear map."""
    if isinstance(module, Conv1D):
        return module.nf, module.nx
    return cast(int, module.out_features), cast(int, module.in_features)


def is_plain(module: nn.Module) -> bool:
    """Tell whether a linear map holds its weight as it is: floating-point numbers, in an ordinary tensor."""
    if not isinstance(module, nn.Linear | Conv1D):
        return False
    if isinstance(module, ReorderedLinear):
        return True
    weight = module.weight
    return weight.dtype.is_floating_point and weight.dtype.itemsize > 1 and not is_traceable_wrapper_subclass(weight)


def is_quantised(model: PreTrainedModel) -> bool:
    """Tell whether one of a model's linear maps holds its weight in another way than as it is."""
    return any(is_linear_map(module) and not is_plain(module) for module in model.modules())


@torch.no_grad()
def weight_of(name: str, module: nn.Module, dtype: torch.dtype, columns: Sequence[int] | None = None) -> Tensor:
    """Return W as (out × in), or some of its columns, as a linear map computes with it.

    Args:
        name: of the module, for messages.
        module: the linear map.
        dtype: of its inputs.
        columns: their numbers; None for all.

    Raises:
        TokurError: the module is none, and computes something else.
    """
    inputs, device = size(module)[1], computing_device(module)
    wanted = torch.arange(inputs) if columns is None else torch.tensor(columns)
    # Beside a bias, a small weight would be rounded away
    tensors = itertools.chain(module.named_parameters(), module.named_buffers())
    no_bias = {path: torch.zeros_like(tensor) for path, tensor in tensors if path.rpartition(".")[2] == "bias"}

    def product(rows: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(module, no_bias, rows.to(dtype)[None])[0]
        return out

    refusal = f"{name} ({type(module).__name__}): its weight cannot be read"
    with refusing(lambda why: TokurError(f"{refusal} ({why})")):
        if product(torch.zeros(1, inputs, device=device)).any():
            raise ValueError("it is no linear map")
        some = wanted.to(device).split(_TOGETHER)
        return torch.cat([product(functional.one_hot(each, inputs)).T for each in some], dim=1)


def plain_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """Yield what a tensor is made of: itself, or the integers and scales of one that a library wraps.

    A wrapper need not know any operation (torchao's know no sum), but what it wraps it must tell PyTorch.
    """
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from plain_tensors(getattr(tensor, name))
    else:
        yield tensor


def multiply_unrounded(model: PreTrainedModel) -> None:
    """Have bitsandbytes' 8-bit maps multiply their inputs as they are.

    Its own product rounds inputs to 8 bits, too, but for features that are large in any row of the batch. So what is
    computed beside a token changes its numbers, in SmolLM2 by as much as 8 bits change them at all.

    Here a weight is unpacked for a product, each into the same memory: in new memory, that takes several times as long.
    """
    bitsandbytes = sys.modules.get("bitsandbytes")
    if bitsandbytes is None:
        return
    modules: list[Any] = [module for module in model.modules() if type(module) is bitsandbytes.nn.Linear8bitLt]
    largest = max((module.weight.numel() for module in modules), default=0)

    @cache
    def room(device: torch.device, dtype: torch.dtype) -> Tensor:
        with torch.inference_mode(False):  # where it could not be written to outside of it
            return torch.empty(largest, dtype=dtype, device=device)

    def forward(module: Any, inputs: Tensor) -> Tensor:
        if module.weight.CB is not None:
            module.init_8bit_state()
        packed, scale = module.state.CB, (module.state.SCB / 127).to(inputs.dtype)  # (out, in), (out,)
        weight = room(packed.device, inputs.dtype)[: packed.numel()].view(packed.shape).copy_(packed)
        bias = None if module.bias is None else module.bias.to(inputs.dtype)
        return functional.linear(inputs, weight.mul_(scale[:, None]), bias)

    for module in modules:
        # Where accelerate's hook stands in front, it calls the method that it found
        name = "_old_forward" if "_old_forward" in vars(module) else "forward"
        setattr(module, name, forward.__get__(module))


@torch.no_grad()
def reorder_weights(model: PreTrainedModel) -> None:
    """Reorder the weights of a model's linear maps on a CPU; of those that modules share, the head's is copied.

    In float32 this is done on every x86 processor, in bfloat16 on those that multiply it.
    """
    # PyTorch comes without oneDNN for some processors, and does not document these operations
    if platform.machine() != "x86_64" or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    dtypes = [torch.float32, *([torch.bfloat16] if multiplies_bfloat16_fast("cpu") else [])]
    owners = Counter(id(parameter) for module in model.modules() for parameter in module._parameters.values())
    head = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    for module in model.modules():
        # Another forward pass that was put in place (by accelerate, compressed-tensors) may change the weight
        if type(module) is not nn.Linear or "forward" in vars(module):
            continue
        weight = module.weight
        # torchao's quantised weights are tensors of other types, and name the dtype that they stand for
        if type(weight) is not nn.Parameter or weight.device.type != "cpu" or weight.dtype not in dtypes:
            continue
        if owners[id(weight)] == 1:
            del module.weight
            module.__class__ = ReorderedLinear
        elif module is head and available_bytes([weight.device]) > _ROOM_FOR_COPY * weight.nbytes:
            module.__class__ = ReorderedHead
        else:
            continue
        module.reordered = torch.ops.mkldnn._reorder_linear_weight(weight)
        del weight
    if not any(isinstance(module, ReorderedHead) for module in model.modules()):
        return
    # A file of the same dtype stays in memory, whole, as long as one weight stands there
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        if type(tensor) in (nn.Parameter, Tensor) and tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()
    with suppress(AttributeError):  # glibc keeps what is freed between other things; musl has no such function
        ctypes.CDLL(None).malloc_trim(0)
