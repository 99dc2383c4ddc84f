"""Weights in the order in which a processor's products read them.

oneDNN multiplies weights in an order of its own. In bfloat16, PyTorch brings a weight into it for every product; with
few rows, as in a step of generation, that takes a third of the time. In float32, PyTorch calls another library, which
is slower with few rows. Here weights are brought into that order once, when the model is loaded, and none is kept
twice. Products in bfloat16 stay the same to the last bit; in float32 they are summed up in another order.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.loading.hardware import multiplies_bfloat16_fast


class ReorderedLinear(nn.Linear):
    """A linear map that keeps its weight in oneDNN's order."""

    reordered: Tensor

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weight (out × in) as it was, in memory of its own: changing it changes nothing here."""
        return self.reordered.to_dense()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "reordered": self.weight}  # what is in an order of oneDNN's can't be copied by PyTorch

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.reordered = _reorder(self.reordered)

    def forward(self, input: Tensor) -> Tensor:
        """Return (…, out) of inputs (…, in)."""
        return _product(input, self.reordered, self.bias)


@torch.no_grad()
def reorder_weights(model: PreTrainedModel) -> None:
    """Reorder the weights of a model's linear maps on a CPU, but those that several modules share.

    In float32 this is done on every x86 processor, in bfloat16 on those that multiply it. All stay as they are where
    PyTorch comes without oneDNN, or without the operations for that, which it does not document.
    """
    dtypes = _dtypes()
    owners = Counter(id(parameter) for module in model.modules() for parameter in module._parameters.values())
    for module in model.modules():
        # Another forward pass that was put in place (by accelerate, compressed-tensors) may change the weight
        if type(module) is not nn.Linear or "forward" in vars(module) or owners[id(module.weight)] > 1:
            continue
        weight = module.weight
        # torchao's quantised weights are tensors of other types, and name the dtype that they stand for
        if type(weight) is nn.Parameter and weight.device.type == "cpu" and weight.dtype in dtypes:
            del module.weight
            module.__class__ = ReorderedLinear
            module.reordered = _reorder(weight)
            del weight
    if any(isinstance(module, ReorderedLinear) for module in model.modules()):
        _let_go_of_the_rest(model)


def _let_go_of_the_rest(model: PreTrainedModel) -> None:
    """Give back the memory in which weights stood."""
    # A file of the same dtype stays in memory, whole, as long as one weight stands there
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        if type(tensor) in (nn.Parameter, Tensor) and tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()
    with suppress(AttributeError):  # glibc keeps what is freed between other things; musl has no such function
        ctypes.CDLL(None).malloc_trim(0)


def _dtypes() -> tuple[torch.dtype, ...]:
    """Return which dtypes are multiplied faster, on a CPU, with weights in oneDNN's order."""
    if platform.machine() != "x86_64":
        return ()
    faster = (torch.float32, torch.bfloat16) if multiplies_bfloat16_fast("cpu") else (torch.float32,)
    return tuple(dtype for dtype in faster if _multiplies(dtype))


def _multiplies(dtype: torch.dtype) -> bool:
    """Try a product of small whole numbers."""
    weight, inputs = torch.arange(12, dtype=dtype).view(4, 3), torch.arange(6, dtype=dtype).view(2, 3)
    try:
        return torch.equal(_product(inputs, _reorder(weight), None), inputs @ weight.T)
    except (AttributeError, RuntimeError):
        return False


def _reorder(weight: Tensor) -> Tensor:
    """Return a weight (out × in) in oneDNN's order."""
    reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
    return reordered


def _product(inputs: Tensor, reordered: Tensor, bias: Tensor | None) -> Tensor:
    """Return (…, out) of inputs (…, in)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs.contiguous(), reordered, bias, "none", [], "")
    return product


def parameters_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield a module's own parameters by name, as they were before any was reordered."""
    if isinstance(module, ReorderedLinear):
        yield "weight", module.weight
    yield from module.named_parameters(recurse=False)
