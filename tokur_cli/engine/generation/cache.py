"""A cache for any family, whose rows all end at the same column, so that responses can join and leave a running batch.

    columns   0 1 2 3 4 5 6 7
    row 0     . . . p p p y y      p prompt, y response, . nothing (masked)
    row 1     p p p p p y y y

The next tokens of all rows go to the next column, written in place. Distances between columns are distances between
tokens, so any family's masks (causal, sliding windows) hold as they do for left-padded input.

The state that linear attention, state spaces and convolutions keep of a text has no columns; it is a row's whatever its
length. Padding would become part of it, so models with such layers are given prompts of one length at a time.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer

from tokur_cli.engine.body import cache_argument, empty_cache, input_device, logits_from, run_body
from tokur_cli.engine.halving import pad
from tokur_cli.engine.rotary import rescaled_beyond
from tokur_cli.engine.transfers import sent

_SPARE_COLUMNS = 64  # columns allocated ahead
_COLUMNS = ("keys", "values")  # of transformers' layers: (R, heads, columns, d) each
_STATES = ("conv_states", "recurrent_states")  # dicts of (R, …)
# By name, since DummyLayer, which keeps nothing, is not in older versions
_KNOWN = {"DynamicLayer", "LinearAttentionLayer", "LinearAttentionAndFullAttentionLayer", "DummyLayer"}


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

    width = 1  # columns that are added at once, as far as a budget for memory is concerned

    def __init__(self, model: PreTrainedModel, context_length: int | None) -> None:
        self.model = model
        self._last_position = min(context_length or sys.maxsize, rescaled_beyond(model) or sys.maxsize) - 1
        self._cache: Cache | None = None
        self._lengths = np.zeros(0, dtype=np.int64)  # (R,) columns of each row
        self._filled = sent(self._lengths, _device(model))  # the same, where they are computed with

    def join(self, prompts: Sequence[Sequence[int]], copies: Sequence[int]) -> Tensor:
        """Process prompts and append rows for their responses.

        Args:
            prompts: token ids.
            copies: rows that start from each.

        Returns:
            Logits (B, V) of what follows each prompt.
        """
        processed, logits = _processed(self.model, prompts)
        rows = torch.arange(len(self._filled), device=self._filled.device)
        longest = int(self._lengths.max(initial=0))
        self._cache = _rejoin(self._cache, rows, longest, list(zip(processed, copies, strict=True)))
        new = np.repeat([len(prompt) for prompt in prompts], copies)
        self._lengths = np.concatenate([self._lengths, new])
        self._filled = torch.cat([self._filled, sent(new, self._filled.device)])
        return logits

    def step(self, ids: Tensor) -> Tensor:
        """Process each row's next token.

        Args:
            ids: (R,) on the device of the embeddings.

        Returns:
            Logits (R, V) of what follows.
        """
        assert self._cache is not None
        where: dict[str, Tensor] = {}
        if any(map(_has_columns, self._cache.layers)):
            length = self._cache.get_seq_length() + 1
            first = length - 1 - self._filled
            mask = torch.arange(length, device=first.device) >= first[:, None]
            positions = self._filled.clamp(max=self._last_position)  # ended rows may run beyond it
            where = {"attention_mask": mask.long(), "position_ids": positions[:, None]}
        cache = cache_argument(self.model, self._cache)
        outputs = self.model(input_ids=ids[:, None], use_cache=True, **where, **cache)
        self._lengths = self._lengths + 1
        self._filled = self._filled + 1
        logits: Tensor = outputs.logits[:, -1]
        return logits

    def gather(self, index: Sequence[int]) -> None:
        """Make row i what row ``index[i]`` is, each at most once."""
        kept = sent(np.array(index), self._filled.device)  # once, not for each layer
        self._lengths, self._filled = self._lengths[index], self._filled[kept]
        self._cache = _rejoin(self._cache, kept, int(self._lengths.max(initial=0)), [])


def _device(model: PreTrainedModel) -> torch.device:
    device: torch.device = input_device(model)
    return device


class _Processed(NamedTuple):
    """A prompt of ``tokens`` tokens that was processed: a row of a cache, padded on the right."""

    cache: Cache
    row: int
    tokens: int


def _has_columns(layer: Any) -> bool:
    return getattr(layer, "keys", None) is not None


def _keeps_states(layer: Any) -> bool:
    return isinstance(layer, LinearAttentionLayer)


def _processed(model: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> tuple[list[_Processed], Tensor]:
    """Process prompts: what is kept of them, and the logits (B, V) of what follows."""
    processed, following = [], []
    together = [list(prompts)]
    if any(map(_keeps_states, empty_cache(model).layers)):
        together = [list(group) for _, group in itertools.groupby(prompts, key=len)]
    for group in together:
        cache = empty_cache(model)
        ids = pad(group, _device(model))
        outputs = run_body(model, input_ids=ids, use_cache=True, **cache_argument(model, cache))
        states = outputs["last_hidden_state"]
        ends = sent(np.array([len(prompt) - 1 for prompt in group]), states.device)
        with logits_from(model, outputs) as logits:
            following.append(logits(states[torch.arange(len(group), device=states.device), ends][None])[0])
        processed += [_Processed(cache, row, len(prompt)) for row, prompt in enumerate(group)]
    return processed, torch.cat(following)


def kept_otherwise(model: PreTrainedModel) -> str | None:
    """Return what keeps a model's responses from being rows of a batch; None where nothing does."""
    generating: Any = model
    if not generating._supports_default_dynamic_cache():
        return "what it keeps of a text is not in a cache that transformers' families share"
    if others := {type(layer).__name__ for layer in empty_cache(model).layers} - _KNOWN:
        return f"some of its layers keep more than keys, values and states ({', '.join(sorted(others))})"
    if kept_bytes(model) == (0, 0):
        return "it keeps nothing of a text"
    return None


def kept_bytes(model: PreTrainedModel) -> tuple[int, int]:
    """Return what is kept of a token, and of a text of any length; a model's config tells it in too many ways."""
    ((cache, *_),), _ = _processed(model, [[0]])
    columns = [getattr(layer, name) for layer in cache.layers if _has_columns(layer) for name in _COLUMNS]
    states = [state for layer in cache.layers for name in _STATES for state in _states(layer, name).values()]
    return sum(tensor.nbytes for tensor in columns), sum(tensor.nbytes for tensor in states)


def _states(layer: Any, name: str) -> dict[int, Tensor]:
    return {place: state for place, state in getattr(layer, name, {}).items() if state is not None}


def _rejoin(running: Cache | None, kept: Tensor, kept_length: int, joining: Sequence[tuple[_Processed, int]]) -> Cache:
    """Return the cache of a batch that some rows have left and others join.

    The running cache is taken apart layer by layer, so that no more than one layer is held twice.

    Args:
        running: the batch's cache, of no use afterwards; None if there is none.
        kept: (K,) its rows that stay, in their new order.
        kept_length: columns that the longest of them fills.
        joining: prompts, and how many rows of the new batch start from each.

    Returns:
        A cache of K + J rows, the joining ones last, with max(kept_length, longest prompt) columns in use.
    """
    length = max([kept_length, *(prompt.tokens for prompt, _ in joining)])
    source = running if running is not None else joining[0][0].cache
    layers: list[Any] = []
    for index in range(len(source.layers)):
        old = running.layers[index] if running is not None else None
        new = [(prompt.cache.layers[index], prompt, copies) for prompt, copies in joining]
        layers.append(_rejoined(old, kept, kept_length, new, length))
        if running is not None:
            running.layers[index] = layers[-1]
    return Cache(layers=layers)


def _rejoined(old: Any, kept: Tensor, kept_length: int, new: Sequence[tuple[Any, _Processed, int]], length: int) -> Any:
    """Return one layer of what ``_rejoin`` returns."""
    like = old if old is not None else new[0][0]
    layer: Any = copy.copy(like)
    if _has_columns(like):
        keys, values = (
            _aligned(
                getattr(old, name, None),
                kept,
                kept_length,
                [(getattr(theirs, name)[prompt.row, :, : prompt.tokens], copies) for theirs, prompt, copies in new],
                length,
            )
            for name in _COLUMNS
        )
        if _keeps_states(like):
            layer.keys, layer.values = keys[:, :, :length], values[:, :, :length]
        else:
            layer = RollingLayer(keys, values, length)
    for name in _STATES:
        states = {
            place: _stacked(
                getattr(old, name)[place] if old is not None else None,
                kept,
                [(getattr(theirs, name)[place][prompt.row], copies) for theirs, prompt, copies in new],
            )
            for place in _states(like, name)
        }
        if states:
            setattr(layer, name, getattr(like, name) | states)
    return layer


def _stacked(old: Tensor | None, kept: Tensor, new: Sequence[tuple[Tensor, int]]) -> Tensor:
    """Return (K + J, …): rows ``kept`` of an old state (R, …), then copies of those of prompts, (…) each."""
    rows = [] if old is None else [old[kept.to(old.device)]]
    return torch.cat([*rows, *(state.expand(copies, *state.shape) for state, copies in new)])


def _aligned(
    old: Tensor | None, kept: Tensor, kept_length: int, new: Sequence[tuple[Tensor, int]], length: int
) -> Tensor:
    """Return storage of rows that all end at one column.

    Args:
        old: (R, heads, columns, d); None for none.
        kept: (K,) its rows that stay.
        kept_length: its last columns, which stay.
        new: of each prompt (heads, tokens, d), and how many rows start from it.
        length: columns in use.
    """
    like = old[0] if old is not None else new[0][0]
    rows = len(kept) + sum(copies for _, copies in new)
    storage = like.new_zeros(rows, like.shape[0], length + _SPARE_COLUMNS, like.shape[2])
    if old is not None:
        columns = slice(old.shape[-2] - kept_length, None)
        storage[: len(kept), :, length - kept_length : length] = old[:, :, columns][kept.to(old.device)]
    first = len(kept)
    for tokens, copies in new:
        storage[first : first + copies, :, length - tokens.shape[1] : length] = tokens
        first += copies
    return storage
