"""What goes on inside a model: its decoder's layers and what they put out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.records.errors import TokurError, UsageError


def decoder_layer(model: PreTrainedModel, number: int | None) -> tuple[int, nn.Module]:
    """Return a layer of the decoder with its number.

    Args:
        model: the model.
        number: from 1; None for the middle, ⌊n/2⌋ of n layers.

    Raises:
        UsageError: the model has fewer layers.
        TokurError: its layers are not where they are in other models.
    """
    count: int = model.config.get_text_config(decoder=True).num_hidden_layers
    lists = (part for part in model.get_decoder().modules() if isinstance(part, nn.ModuleList))
    layers = next((part for part in lists if len(part) == count), None)
    if layers is None:
        raise TokurError("the layers of this model are not found, so no score can be computed from them")
    chosen = max(count // 2, 1) if number is None else number
    if chosen > count:
        raise UsageError(f"there is no layer {chosen}: the model has {count}")
    return chosen, layers[chosen - 1]


@contextmanager
def recorded(module: nn.Module) -> Iterator[list[Any]]:
    """Give a list to which every call of the module adds its whole output."""
    outputs: list[Any] = []
    hook = module.register_forward_hook(lambda _module, _arguments, output: outputs.append(output))
    try:
        yield outputs
    finally:
        hook.remove()


def hidden_states(output: Any) -> Tensor:
    """Return the hidden states (B, L, d) in what a layer put out."""
    states: Tensor = output[0] if isinstance(output, tuple) else output
    return states


@contextmanager
def eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Have attention computed step by step, so that its probabilities can be seen.

    They are freed with the layer that made them, unless someone keeps them.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
