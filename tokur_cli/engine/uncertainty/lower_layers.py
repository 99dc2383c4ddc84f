"""Layers below the first perturbed one are the same for all draws: they are computed once, then the rows are copied."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from tokur_cli.engine.posterior.posterior import Posterior

_PER_HEAD = ("alibi", "position_bias")  # arguments whose rows are heads: such layers get their copies at the input


def layers_from_first_perturbed(model: PreTrainedModel, posterior: Posterior) -> list[nn.Module]:
    """Return the layers that differ between the draws; none where nothing is shared below them.

    That is so where layer 0 is perturbed, and where the family's layers do not let rows be copied between them.
    """
    places = [matrix.layer for matrix in posterior.matrices]
    lists = {place[0] for place in places if place is not None}
    if None in places or len(lists) != 1:
        return []
    first = min(place[1] for place in places if place is not None)
    layers = list(model.get_submodule(lists.pop()).children())
    if first == 0 or any(name in inspect.signature(layers[first].forward).parameters for name in _PER_HEAD):
        return []
    return layers[first:]


@contextmanager
def copied_late(layers: Sequence[nn.Module], copies: int) -> Iterator[int]:
    """Have the model copy its rows where the first of these layers begins, within the context.

    Args:
        layers: what ``layers_from_first_perturbed`` returned.
        copies: of each row, 1 + M.

    Yields:
        How many times the rows of the input have to be repeated: once if the model copies them itself.
    """
    handles = []
    try:
        copy = _Copy(copies)
        for layer in layers:
            handles.append(layer.register_forward_pre_hook(copy, with_kwargs=True))
        yield 1 if layers else copies
    finally:
        for handle in handles:
            handle.remove()


class _Copy:
    """Before a layer: repeats whatever has B rows, B being the rows of the first perturbed layer's input.

    The layers above take the hidden states with all rows from the layer below them, and masks, positions and the like
    from the body, which knows of B rows only.
    """

    def __init__(self, copies: int) -> None:
        self.copies = copies
        self.rows = 0

    def __call__(self, layer: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        hidden = arguments[0] if arguments else options["hidden_states"]
        self.rows = self.rows or hidden.shape[0]
        return self._repeat(arguments), self._repeat(options)

    def _repeat(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            is_batched = value.ndim >= 2 and value.shape[0] == self.rows
            return value.repeat(self.copies, *[1] * (value.ndim - 1)) if is_batched else value
        if isinstance(value, (tuple, list)):
            return type(value)(self._repeat(item) for item in value)
        if isinstance(value, dict):
            return {name: self._repeat(item) for name, item in value.items()}
        return value
