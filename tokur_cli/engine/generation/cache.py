"""A cache for any family, whose rows all end at the same column, so that responses can join and leave a running batch.

    columns   0 1 2 3 4 5 6 7
    row 0     . . . p p p y y      p prompt, y response, . nothing (masked)
    row 1     p p p p p y y y

The next tokens of all rows go to the next column, written in place. Distances between columns are distances between
tokens, so any family's masks (causal, sliding windows) hold as they do for left-padded input.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from tokur_cli.engine.body import cache_argument, input_device, logits_from, run_body
from tokur_cli.engine.halving import pad
from tokur_cli.engine.rotary import rescaled_beyond

_SPARE_COLUMNS = 64  # columns allocated ahead
_STATES = frozenset(
    {"conv", "hybrid", "hybrid_sliding", "linear_attention"}
)  # kinds of layers in transformers' configs


class RollingLayer(DynamicLayer):
    """One layer's keys and values, in storage with columns to spare.

    Args:
        keys: (R, heads, columns, d) storage.
        values: the same of the values.
        length: columns in use.
    """

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.length = length
        self._storage = (keys, values)
        self.keys, self.values = (storage[:, :, :length] for storage in self._storage)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write the next columns and return all of them."""
        first, self.length = self.length, self.length + key_states.shape[-2]
        if self.length > self._storage[0].shape[-2]:
            self._storage = tuple(_widen(storage, self.length) for storage in self._storage)  # type: ignore[assignment]
        for storage, states in zip(self._storage, (key_states, value_states), strict=True):
            storage[:, :, first : self.length] = states
        self.keys, self.values = (storage[:, :, : self.length] for storage in self._storage)
        return self.keys, self.values


def _widen(storage: Tensor, length: int) -> Tensor:
    rows, heads, columns, size = storage.shape
    wider = storage.new_empty(rows, heads, length + _SPARE_COLUMNS, size)
    wider[:, :, :columns] = storage
    return wider


class RollingCache:
    """The keys and values of a batch whose rows are responses, in the model's own kind of attention.

    Args:
        model: of any family.
        context_length: positions of the model; None for any number.
    """

    def __init__(self, model: PreTrainedModel, context_length: int | None) -> None:
        self.model = model
        self._last_position = min(context_length or sys.maxsize, rescaled_beyond(model) or sys.maxsize) - 1
        self._cache: Cache | None = None
        self._filled = torch.zeros(0, dtype=torch.long, device=_device(model))  # (R,) columns of each row

    def join(self, prompts: Sequence[Sequence[int]], copies: Sequence[int]) -> Tensor:
        """Process prompts, padded on the right, and append rows for their responses.

        Args:
            prompts: token ids.
            copies: rows that start from each.

        Returns:
            Logits (B, V) of what follows each prompt.
        """
        cache, logits = _processed(self.model, prompts)
        lengths = list(map(len, prompts))
        rows = torch.arange(len(self._filled))
        self._cache = _rejoin(self._cache, rows, self._longest(), cache, list(zip(lengths, copies, strict=True)))
        new = torch.from_numpy(np.repeat(lengths, copies))
        self._filled = torch.cat([self._filled, new.to(self._filled.device)])
        return logits

    def step(self, ids: Tensor) -> Tensor:
        """Process each row's next token.

        Args:
            ids: (R,) on the device of the embeddings.

        Returns:
            Logits (R, V) of what follows.
        """
        assert self._cache is not None
        length = self._cache.get_seq_length() + 1
        first = length - 1 - self._filled
        mask = torch.arange(length, device=first.device) >= first[:, None]
        outputs = self.model(
            input_ids=ids[:, None],
            attention_mask=mask.long(),
            position_ids=self._filled.clamp(max=self._last_position)[:, None],  # ended rows may run beyond it
            use_cache=True,
            **cache_argument(self.model, self._cache),
        )
        self._filled = self._filled + 1
        logits: Tensor = outputs.logits[:, -1]
        return logits

    def without(self, ended: Sequence[bool]) -> list[int]:
        """Return the other rows."""
        return list(itertools.compress(range(len(ended)), (not has for has in ended)))

    def gather(self, index: Sequence[int]) -> None:
        """Make row i what row ``index[i]`` is: rows may be repeated or left out."""
        kept = torch.tensor(index)
        self._filled = self._filled[kept.to(self._filled.device)]
        self._cache = _rejoin(self._cache, kept, self._longest(), None, [])

    def _longest(self) -> int:
        return int(self._filled.max()) if len(self._filled) else 0


def _device(model: PreTrainedModel) -> torch.device:
    device: torch.device = input_device(model)
    return device


def _processed(model: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> tuple[DynamicCache, Tensor]:
    """Process prompts, padded on the right: their keys and values, and the logits (B, V) of what follows."""
    cache = DynamicCache()
    ids = pad(prompts, _device(model))
    outputs = run_body(model, input_ids=ids, use_cache=True, **cache_argument(model, cache))
    states = outputs["last_hidden_state"]
    ends = torch.tensor([len(prompt) - 1 for prompt in prompts], device=states.device)
    with logits_from(model, outputs) as logits:
        following = logits(states[torch.arange(len(prompts), device=states.device), ends][None])[0]
    return cache, following


def kept_otherwise(model: PreTrainedModel) -> str | None:
    """Return what keeps a model's responses from being rows of a batch; None where all it keeps is keys and values."""
    config = model.config.get_text_config(decoder=True)
    kinds = _STATES.intersection(getattr(config, "layer_types", None) or ())
    if model._is_stateful or kinds:
        return "some of its layers keep a state (linear attention, state spaces, convolutions), not keys and values"
    layers: list[Any] = _processed(model, [[0]])[0].layers
    if not layers or any(getattr(layer, "keys", None) is None for layer in layers):
        return "not all of its layers keep keys and values of a text"
    return None


def bytes_per_token(model: PreTrainedModel) -> int:
    """Return what a token's keys and values take; a model's config tells it in too many ways."""
    layers: list[Any] = _processed(model, [[0]])[0].layers
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


def _rejoin(
    running: Cache | None,
    kept: Tensor,
    kept_length: int,
    prompts: DynamicCache | None,
    joining: Sequence[tuple[int, int]],
) -> Cache:
    """Return the cache of a batch that some rows have left and others join.

    The running cache is taken apart layer by layer, so that no more than one layer is held twice.

    Args:
        running: the batch's cache, of no use afterwards; None if there is none.
        kept: (K,) its rows that stay, in their new order.
        kept_length: columns that the longest of them fills.
        prompts: right-padded prompts, (B, heads, P, d) a layer; None if nothing joins.
        joining: for each row of ``prompts``, (tokens of the prompt, rows of the new batch that start from it).

    Returns:
        A cache of K + J rows, the joining ones last, with max(kept_length, longest prompt) columns in use.
    """
    length = max([kept_length, *(tokens for tokens, _ in joining)])
    source = running if running is not None else prompts
    assert source is not None
    layers: list[Any] = []
    for index in range(len(source.layers)):
        old = running.layers[index] if running is not None else None
        new = prompts.layers[index] if prompts is not None else None
        pair = [
            _rejoined(getattr(old, name, None), kept, kept_length, getattr(new, name, None), joining, length)
            for name in ("keys", "values")
        ]
        layers.append(RollingLayer(pair[0], pair[1], length))
        if running is not None:
            running.layers[index] = layers[-1]
    return Cache(layers=layers)


def _rejoined(
    old: Tensor | None,
    kept: Tensor,
    kept_length: int,
    new: Tensor | None,
    joining: Sequence[tuple[int, int]],
    length: int,
) -> Tensor:
    like = old if old is not None else new
    assert like is not None
    rows = len(kept) + sum(copies for _, copies in joining)
    storage = like.new_zeros(rows, like.shape[1], length + _SPARE_COLUMNS, like.shape[3])
    if old is not None:
        columns = slice(old.shape[-2] - kept_length, None)
        storage[: len(kept), :, length - kept_length : length] = old[:, :, columns][kept.to(old.device)]
    first = len(kept)
    for row, (tokens, copies) in enumerate(joining):
        assert new is not None
        storage[first : first + copies, :, length - tokens : length] = new[row, :, :tokens]
        first += copies
    return storage
