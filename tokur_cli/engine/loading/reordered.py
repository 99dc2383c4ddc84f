"""Weights in the order in which a processor's products read them.

oneDNN, which multiplies bfloat16 on a CPU, brings a weight into an order of its own for every product; with few rows,
as in a step of generation, that takes a third of the time. Here it is done once, when the model is loaded: no weight is
kept twice, and products are the same to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.loading.hardware import multiplies_bfloat16_fast

_OPERATIONS = "_reorder_linear_weight", "_linear_pointwise"


class ReorderedLinear(nn.Linear):
    """A linear map that keeps its weight in oneDNN's order."""

    reordered: Tensor

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weight (out × in) as it was, in memory of its own: changing it changes nothing here."""
        return self.reordered.to_dense()

    def forward(self, input: Tensor) -> Tensor:
        """Return (…, out) of inputs (…, in)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            input.contiguous(), self.reordered, self.bias, "none", [], ""
        )
        return product


@torch.no_grad()
def reorder_weights(model: PreTrainedModel) -> None:
    """Reorder the weights of a model's linear maps in bfloat16 on a CPU, but those that several modules share.

    All stay as they are where the processor does not multiply bfloat16, and where PyTorch comes without oneDNN or
    without its operations for that.
    """
    available = torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in _OPERATIONS)
    if not (available and multiplies_bfloat16_fast("cpu")):
        return
    owners = Counter(id(parameter) for module in model.modules() for parameter in module._parameters.values())
    for module in model.modules():
        # accelerate's hooks call the forward pass that they found
        if type(module) is not nn.Linear or hasattr(module, "_hf_hook") or owners[id(module.weight)] > 1:
            continue
        weight = module.weight
        if weight.device.type == "cpu" and weight.dtype == torch.bfloat16:
            del module.weight
            module.__class__ = ReorderedLinear
            module.reordered = torch.ops.mkldnn._reorder_linear_weight(weight)


def parameters_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield a module's own parameters by name, as they were before any was reordered."""
    if isinstance(module, ReorderedLinear):
        yield "weight", module.weight
    yield from module.named_parameters(recurse=False)
