"""The cache of a running batch, for any family: its rows all end at the same column, so that responses can come and go.

    columns   0 1 2 3 4 5 6 7
    row 0     . . . p p p y y      p prompt, y response, . nothing (masked)
    row 1     p p p p p y y y

The next tokens of all rows go to the next column, written in place. Distances between columns are distances between
tokens, so any family's masks (causal, sliding windows) hold as they do for left-padded input.

The state that linear attention, state spaces and convolutions keep of a text has no columns; it is a row's whatever its
length. Padding would become part of it, so models with such layers are given prompts of one length at a time.

Where responses are scored as they are generated, every one has 1 + M rows, member-major as in ``perturbed``: W stands
for 1 + M, and is 1 where they are not.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer
from transformers.utils.generic import ModelOutput

from tokur_cli.engine.forward.batching import pad
from tokur_cli.engine.forward.body import cache_argument, empty_cache, input_device, logits_from, run_body
from tokur_cli.engine.forward.hooks import Draws, perturbed
from tokur_cli.engine.forward.rope import rescaled_beyond

SPARE_COLUMNS = 64
"""Columns that are allocated ahead."""
_LEAST_SAVING = 64  # positions: fewer are not worth a pass of their own
_COLUMNS = ("keys", "values")  # of transformers' layers: (rows, heads, columns, d) each
_STATES = ("conv_states", "recurrent_states")  # dicts of (rows, …)
# By name, since DummyLayer, which keeps nothing, is not in older versions
_KNOWN = {"DynamicLayer", "LinearAttentionLayer", "LinearAttentionAndFullAttentionLayer", "DummyLayer"}


class KeptText:
    """What a model keeps of a text.

    Args:
        cache: of W·B rows, one of which is the text's under each of the W.
        row: which of the B.
        tokens: how many tokens the text has; they stand in the first columns.
    """

    def __init__(self, cache: Cache, row: int, tokens: int) -> None:
        self.layers: list[Any] | None = cache.layers
        self.row, self.tokens = row, tokens

    def give_up(self) -> bool:
        """Forget what was kept, for want of memory; return whether it was there."""
        held, self.layers = self.layers, None
        return held is not None


class RollingLayer(DynamicLayer):
    """One layer's keys and values, in storage with columns to spare.

    Args:
        keys: (rows, heads, columns, d) storage.
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
    wider = storage.new_empty(rows, heads, length + SPARE_COLUMNS, size)
    wider[:, :, :columns] = storage
    return wider


class KVCache:
    """The keys, values and states of R responses under W weights, in the model's own kind of attention.

    Args:
        model: of any family.
        context_length: positions of the model; None for any number.
        draws: the M draws beside the mean weights; None for these alone.
        stepwise: whether every decoding step has a draw of its own, see ``Scorer``.
    """

    def __init__(
        self, model: PreTrainedModel, context_length: int | None, draws: Draws | None = None, *, stepwise: bool = False
    ) -> None:
        self.model, self.draws, self.stepwise = model, draws, stepwise
        self.device = input_device(model)
        self.num_weights = 1 + (draws.num_draws if draws else 0)
        self._last_position = min(context_length or sys.maxsize, rescaled_beyond(model) or sys.maxsize) - 1
        self._cache: Cache | None = None
        self._lengths = torch.zeros(0, dtype=torch.long)  # (R,) tokens of each response that are processed

    def prefill(self, texts: Sequence[Sequence[int]], prompt_lengths: Sequence[int]) -> tuple[list[KeptText], Tensor]:
        """Process prompts, or responses so far.

        Args:
            texts: token ids of each.
            prompt_lengths: how many of them are the prompt's.

        Returns:
            What is kept of each, and the logits (W, B, V) of what follows.
        """
        kept: list[KeptText] = []
        following: list[Tensor] = []
        together = [list(range(len(texts)))]
        if any(map(_keeps_states, empty_cache(self.model).layers)):
            groups = itertools.groupby(range(len(texts)), key=lambda index: len(texts[index]))
            together = [list(group) for _, group in groups]
        for group in together:
            cache, logits = self._processed([texts[i] for i in group], [prompt_lengths[i] for i in group])
            kept += [KeptText(cache, row, len(texts[index])) for row, index in enumerate(group)]
            following.append(logits)
        return kept, torch.cat(following, dim=1)

    def _processed(self, texts: Sequence[Sequence[int]], prompt_lengths: Sequence[int]) -> tuple[Cache, Tensor]:
        """Process texts as rows that are padded on the right; what their prompts begin with goes through once."""
        cache = empty_cache(self.model)
        prompts = [text[: min(length, len(text) - 1)] for text, length in zip(texts, prompt_lengths, strict=True)]
        agreeing = itertools.takewhile(lambda ids: len(set(ids)) == 1, zip(*prompts, strict=False))
        common = sum(1 for _ in agreeing)
        if (len(texts) - 1) * common >= _LEAST_SAVING and all(type(layer) is DynamicLayer for layer in cache.layers):
            self._run(cache, [texts[0][:common]], [common], 0)
            cache.batch_repeat_interleave(len(texts))
        else:
            common = 0
        outputs = self._run(cache, [text[common:] for text in texts], prompt_lengths, common)
        states = outputs["last_hidden_state"].unflatten(0, (self.num_weights, -1))
        ends = torch.tensor([len(text) - common - 1 for text in texts], device=states.device)
        last = states[:, torch.arange(len(texts), device=states.device), ends]
        with logits_from(self.model, outputs) as logits:
            return cache, logits(last.flatten(0, 1)[None])[0].unflatten(0, (self.num_weights, -1))

    def _run(
        self, cache: Cache, texts: Sequence[Sequence[int]], prompt_lengths: Sequence[int], first: int
    ) -> ModelOutput:
        """Run the model's body under all weights over tokens that come after ``first`` others in the cache."""
        ids = pad(texts, self.device)
        steps = torch.arange(first, first + ids.shape[1]) - torch.tensor(prompt_lengths)[:, None]
        with self._perturbed(steps.clamp(min=-1).to(self.device)):
            argument = cache_argument(self.model, cache)
            return run_body(self.model, input_ids=ids.repeat(self.num_weights, 1), use_cache=True, **argument)

    def admit(self, texts: Sequence[KeptText], copies: Sequence[int]) -> None:
        """Append rows for responses.

        Args:
            texts: what is kept of what they begin with.
            copies: responses that go on from each.
        """
        self._rejoin(torch.arange(len(self._lengths)), list(zip(texts, copies, strict=True)))
        new = torch.tensor([text.tokens for text in texts]).repeat_interleave(torch.tensor(list(copies)))
        self._lengths = torch.cat([self._lengths, new])

    def select_rows(self, index: Sequence[int]) -> None:
        """Make response i what response ``index[i]`` is, each at most once, and evict the others."""
        kept = torch.tensor(list(index))
        self._lengths = self._lengths[kept]
        self._rejoin(kept, [])

    def _rejoin(self, kept: Tensor, joining: Sequence[tuple[KeptText, int]]) -> None:
        """Have some responses leave and others join, layer by layer, so that no more than one layer is held twice."""
        kept_length = int(self._lengths[: len(kept)].max()) if len(kept) else 0
        running = self._cache
        like = running.layers if running is not None else joining[0][0].layers
        assert like is not None
        layers: list[Any] = []
        for index in range(len(like)):
            old = running.layers[index] if running is not None else None
            new = [(text.layers[index], text, copies) for text, copies in joining if text.layers is not None]
            layers.append(_rejoined(old, kept, kept_length, new, self.num_weights))
            if running is not None:
                running.layers[index] = layers[-1]
        self._cache = Cache(layers=layers)

    def take(self, row: int) -> KeptText:
        """Return a copy of what is kept of a response."""
        assert self._cache is not None
        tokens = int(self._lengths[row])
        only = torch.tensor([row])
        layers = [_rejoined(layer, only, tokens, [], self.num_weights, spare=0) for layer in self._cache.layers]
        return KeptText(Cache(layers=layers), 0, tokens)

    def step(self, ids: Sequence[int], steps: Sequence[int]) -> Tensor:
        """Process each response's next token.

        Args:
            ids: R token ids.
            steps: which token of its response each is.

        Returns:
            Logits (W, R, V) of what follows.
        """
        assert self._cache is not None
        where: dict[str, Tensor] = {}
        if any(map(_has_columns, self._cache.layers)):
            length = self._cache.get_seq_length() + 1
            filled = self._lengths.to(self.device)
            mask = torch.arange(length, device=self.device) >= (length - 1 - filled)[:, None]
            positions = filled.clamp(max=self._last_position)  # ended responses may run beyond it
            where = {
                "attention_mask": mask.long().repeat(self.num_weights, 1),
                "position_ids": positions[:, None].repeat(self.num_weights, 1),
            }
        tokens = torch.tensor(ids, device=self.device)[:, None].repeat(self.num_weights, 1)
        with self._perturbed(torch.tensor(steps, device=self.device)[:, None]):
            argument = cache_argument(self.model, self._cache)
            outputs = self.model(input_ids=tokens, use_cache=True, **where, **argument)
        self._lengths = self._lengths + 1
        logits: Tensor = outputs.logits[:, -1].unflatten(0, (self.num_weights, -1))
        return logits

    @contextmanager
    def _perturbed(self, steps: Tensor) -> Iterator[None]:
        """Have passes over positions of these decoding steps (B, L) see the draws."""
        if self.draws is None:
            yield
            return
        with perturbed(self.draws, steps if self.stepwise else None):
            yield


def _has_columns(layer: Any) -> bool:
    return getattr(layer, "keys", None) is not None


def _keeps_states(layer: Any) -> bool:
    return isinstance(layer, LinearAttentionLayer)


def unsupported_cache_reason(model: PreTrainedModel) -> str | None:
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
    (text,), _ = KVCache(model, None).prefill([[0]], [1])
    assert text.layers is not None
    columns = [getattr(layer, name) for layer in text.layers if _has_columns(layer) for name in _COLUMNS]
    states = [state for layer in text.layers for name in _STATES for state in _states(layer, name).values()]
    return sum(tensor.nbytes for tensor in columns), sum(tensor.nbytes for tensor in states)


def _states(layer: Any, name: str) -> dict[int, Tensor]:
    return {place: state for place, state in getattr(layer, name, {}).items() if state is not None}


def _rejoined(
    old: Any,
    kept: Tensor,
    kept_length: int,
    new: Sequence[tuple[Any, KeptText, int]],
    num_weights: int,
    spare: int = SPARE_COLUMNS,
) -> Any:
    """Return one layer of a batch that some responses have left and others join.

    Args:
        old: the layer of the batch, of W·R rows; None if there is none.
        kept: (K,) the responses that stay, in their new order.
        kept_length: columns that the longest of them fills.
        new: the layer of each text, the text, and how many responses go on from it.
        num_weights: W.
        spare: columns that are allocated ahead.

    Returns:
        A layer of W·(K + J) rows, the joining ones last, with max(kept_length, longest text) columns in use.
    """
    like = old if old is not None else new[0][0]
    length = max([kept_length, *(text.tokens for _, text, _ in new)])
    layer: Any = copy.copy(like)

    def by_weights(tensor: Tensor) -> Tensor:
        return tensor.view(num_weights, -1, *tensor.shape[1:])

    if _has_columns(like):
        keys, values = (
            _aligned(
                None if old is None else by_weights(getattr(old, name)),
                kept,
                kept_length,
                [(by_weights(getattr(theirs, name))[:, text.row, :, : text.tokens], n) for theirs, text, n in new],
                length,
                spare,
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
                None if old is None else by_weights(getattr(old, name)[place]),
                kept,
                [(by_weights(getattr(theirs, name)[place])[:, text.row], n) for theirs, text, n in new],
            )
            for place in _states(like, name)
        }
        if states:
            setattr(layer, name, getattr(like, name) | states)
    return layer


def _stacked(old: Tensor | None, kept: Tensor, new: Sequence[tuple[Tensor, int]]) -> Tensor:
    """Return (W·(K + J), …): responses ``kept`` of an old state (W, R, …), then copies of those of texts, (W, …)."""
    rows = [] if old is None else [old[:, kept.to(old.device)]]
    copies = [state[:, None].expand(-1, count, *state.shape[1:]) for state, count in new]
    return torch.cat([*rows, *copies], dim=1).flatten(0, 1)


def _aligned(
    old: Tensor | None,
    kept: Tensor,
    kept_length: int,
    new: Sequence[tuple[Tensor, int]],
    length: int,
    spare: int,
) -> Tensor:
    """Return storage of rows that all end at one column, (W·(K + J), heads, length + spare, d).

    Args:
        old: (W, R, heads, columns, d); None for none.
        kept: (K,) the responses that stay.
        kept_length: their last columns, which stay.
        new: of each text (W, heads, tokens, d), and how many responses go on from it.
        length: columns in use.
        spare: columns that are allocated ahead.
    """
    like = old[:, 0] if old is not None else new[0][0]
    num_weights, heads, _, size = like.shape
    responses = len(kept) + sum(copies for _, copies in new)
    storage = like.new_empty(num_weights, responses, heads, length + spare, size)
    storage[..., :length, :] = 0  # what is masked must be finite
    if old is not None:
        columns = slice(old.shape[-2] - kept_length, None)
        staying = old[:, kept.to(old.device)]
        storage[:, : len(kept), :, length - kept_length : length] = staying[..., columns, :]
    first = len(kept)
    for tokens, copies in new:
        storage[:, first : first + copies, :, length - tokens.shape[2] : length] = tokens[:, None]
        first += copies
    return storage.flatten(0, 1)
