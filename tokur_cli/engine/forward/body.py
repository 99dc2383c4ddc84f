"""A model's forward pass in two halves: up to the last hidden states, and from there to the logits.

Logits of whole batches are too large to be held, so hidden states are turned into logits a block at a time. Both halves
are the model's own forward pass: which of its modules is the body, and what it passes to it, depends on the family.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.cache_utils import LinearAttentionAndFullAttentionLayer as StateAndKeysLayer
from transformers.cache_utils import LinearAttentionAndSlidingWindowAttentionLayer as StateAndWindowLayer
from transformers.utils.generic import ModelOutput


class Parts(NamedTuple):
    """What a model was seen to do with a text, as names of its modules: a reference to one would keep the model."""

    body: str  # the module that the model's own forward pass calls and that looks the token ids up
    working: frozenset[str]  # all modules that ran: no tower for images or sound, no cross-attention without its input


_seen: WeakKeyDictionary[PreTrainedModel, Parts] = WeakKeyDictionary()


def computing_device(module: nn.Module) -> torch.device:
    """Return the device on which a module computes, wherever its weights are kept."""
    hook = getattr(module, "_hf_hook", None)  # accelerate's, which fetches what is kept elsewhere
    if (device := getattr(hook, "execution_device", None)) is not None:
        return torch.device(device)
    tensors = itertools.chain(module.parameters(), module.buffers())
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


def input_device(model: PreTrainedModel) -> torch.device:
    """Return where token ids go: the device on which the input embeddings compute."""
    return computing_device(model.get_input_embeddings())


def parts_of(model: PreTrainedModel) -> Parts:
    """Return a model's parts; one that was never watched is given one token.

    Raises:
        ValueError: the model has no body of its own.
    """
    if model not in _seen:
        watch(model, torch.zeros(1, 1, dtype=torch.long, device=input_device(model)))
    return _seen[model]


@torch.inference_mode()
def watch(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """Return the logits (B, L, V) that a model, as it is, gives of token ids (B, L), and remember its parts.

    Raises:
        ValueError: the model has no body of its own.
    """
    names = {module: name for name, module in model.named_modules()}
    entered: list[nn.Module] = []

    def enter(module: nn.Module, _arguments: object) -> None:
        entered.append(module)

    with ExitStack() as stack:
        for module in names:
            stack.enter_context(module.register_forward_pre_hook(enter))
        logits: Tensor = model(input_ids=ids).logits
    embeddings = model.get_input_embeddings()
    body = next((module for module in entered[1:] if embeddings in set(module.modules())), embeddings)
    if body is embeddings:
        raise ValueError("its hidden states cannot be told from its logits")
    _seen[model] = Parts(names[body], frozenset(names[module] for module in entered))
    return logits


def run_body(model: PreTrainedModel, **inputs: Any) -> ModelOutput:
    """Run the first half of a forward pass; return what the body puts out, with ``last_hidden_state`` (B, L, d)."""
    outputs: list[ModelOutput] = []

    def cut(_body: nn.Module, _arguments: object, output: ModelOutput) -> ModelOutput:
        outputs.append(output)
        # One position's logits cost nothing, unless it has the batch's strides: a head in bfloat16 of 128,256 × 2,048
        # takes PyTorch 2.13 four seconds then, on a CPU
        return _with_states(output, output["last_hidden_state"][0, 0][None, None])

    with _body(model).register_forward_hook(cut):
        model(**inputs)
    return outputs[-1]


def cache_argument(model: PreTrainedModel, cache: Cache) -> dict[str, Cache]:
    """Return a cache under the name that the model's forward pass has for it: the same in all from 5.24 on."""
    return {_cache_name(type(model).forward): cache}


@lru_cache
def _cache_name(forward: Callable[..., Any]) -> str:
    names = inspect.signature(forward).parameters
    return next((name for name in ("cache", "cache_params") if name in names), "past_key_values")


def empty_cache(model: PreTrainedModel) -> Cache:
    """Return transformers' own cache for a model, except that it keeps all keys: masks see to windows."""
    cache = DynamicCache(config=model.config)
    for index, layer in enumerate(cache.layers):
        if type(layer) is DynamicSlidingWindowLayer:
            cache.layers[index] = DynamicLayer()
        elif type(layer) is StateAndWindowLayer:
            cache.layers[index] = StateAndKeysLayer(layer.number_of_states)
    return cache


@contextmanager
def logits_from(model: PreTrainedModel, outputs: ModelOutput) -> Iterator[Callable[[Tensor], Tensor]]:
    """Give a function from hidden states (1, n, d) to the model's own logits (1, n, V).

    The model's forward pass runs with its body left out, so whatever a family does after its last hidden state (soft
    caps, scalings, biases) is done, to the rows that are asked for only.

    Args:
        model: the model.
        outputs: what ``run_body`` returned for the batch.
    """
    body = _body(model)
    hidden: Tensor

    def stand_in(*_: object, **__: object) -> ModelOutput:
        return _with_states(outputs, hidden)

    def logits(states: Tensor) -> Tensor:
        nonlocal hidden
        hidden = states
        token = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)  # read by nobody
        result: Tensor = model(input_ids=token, use_cache=False).logits
        return result

    own = vars(body).get("forward")
    body.forward = stand_in
    try:
        yield logits
    finally:
        if own is None:
            del body.forward
        else:
            body.forward = own


def _body(model: PreTrainedModel) -> nn.Module:
    return model.get_submodule(parts_of(model).body)


def _with_states(outputs: ModelOutput, states: Tensor) -> ModelOutput:
    return dataclasses.replace(outputs, last_hidden_state=states)  # type: ignore[type-var]
