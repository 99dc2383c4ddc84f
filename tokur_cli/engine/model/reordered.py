"""Weights in the order in which a processor's products read them.

oneDNN multiplies weights in an order of its own, into which PyTorch brings a bfloat16 weight for every product; in
float32 PyTorch calls a library that is slower with few rows. Here weights are brought into that order once. Products in
bfloat16 stay the same to the last bit; in float32 they are summed up in another order.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.forward.batching import available_bytes
from tokur_cli.engine.model.place import multiplies_bfloat16_fast

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


def parameters_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield a module's own parameters by name, as they were before any was reordered."""
    if isinstance(module, ReorderedLinear):
        yield "weight", module.weight
    yield from module.named_parameters(recurse=False)
