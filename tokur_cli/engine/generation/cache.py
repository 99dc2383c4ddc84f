"""The cache of a running batch, for any family: its rows all end at the same column, so that responses can come and go.

    columns   0 1 2 3 4 5 6 7
    row 0     . . . p p p y y      p prompt, y response, . nothing (masked)
    row 1     p p p p p y y y

The next tokens of all rows go to the next column, in place, and a response that joins takes the row of one that has
left. Distances between columns are distances between tokens, so any family's masks (causal, sliding windows) hold as
they do for left-padded input.

The state that linear attention, state spaces and convolutions keep of a text has no columns; it is a row's whatever its
length. Padding would become part of it, so models with such layers are given prompts of one length at a time.

Where responses are scored as they are generated, every one has 1 + M rows, member-major as in ``perturbed``: W stands
for 1 + M, and is 1 where they are not.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer
from transformers.cache_utils import LinearAttentionAndFullAttentionLayer as StateAndKeysLayer
from transformers.utils.generic import ModelOutput

from tokur_cli.engine.forward.batching import pad
from tokur_cli.engine.forward.body import cache_argument, empty_cache, input_device, logits_from, run_body
from tokur_cli.engine.forward.hooks import Draws, perturbed
from tokur_cli.engine.forward.rope import rescaling

_SPARE = 32  # columns that are allocated ahead, at fewest; as many may come before the longest response
_LEAST_SAVING = 64  # positions: fewer are not worth a pass of their own
# By name, since DummyLayer, which keeps nothing, is not in older versions
_KNOWN = {"DynamicLayer", "LinearAttentionLayer", "LinearAttentionAndFullAttentionLayer", "DummyLayer"}


class KeptText:
    """What a model keeps of a text.

    Args:
        layers: keys and values (W, heads, tokens, d) of its last tokens, states (W, …) of all.
        tokens: how many tokens the text has.
        prompt: the text of the tokens before these; None for none.
    """

    def __init__(self, layers: list[Any], tokens: int, prompt: KeptText | None = None) -> None:
        self.layers: list[Any] | None = layers
        self.tokens, self.prompt = tokens, prompt

    def give_up(self) -> bool:
        """Forget what was kept, for want of memory; return whether it was there."""
        held, self.layers, self.prompt = self.layers, None, None
        return held is not None


class RollingLayer(DynamicLayer):
    """One layer's keys and values, in storage with rows and columns to spare: (rows, heads, columns, d) each."""

    storage: tuple[Tensor, ...]
    keys: Tensor
    values: Tensor

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write the next columns and return all of them."""
        rows, first = self.keys.shape[0], self.keys.shape[2]
        self.use(rows, first + key_states.shape[-2])
        self.keys[:, :, first:], self.values[:, :, first:] = key_states, value_states
        return self.keys, self.values

    def use(self, rows: int, columns: int, more_rows: int = 0) -> None:
        """Have so many rows and columns be in use; make room for more rows."""
        have_rows, heads, have_columns, _ = self.storage[0].shape
        if rows + more_rows > have_rows or columns > have_columns:
            have_rows = max(have_rows, rows + more_rows)
            have_columns = have_columns if columns <= have_columns else columns + max(_SPARE, columns // 8)
            larger = [tensor.new_empty(have_rows, heads, have_columns, tensor.shape[-1]) for tensor in self.storage]
            for new, old in zip(larger, (self.keys, self.values), strict=True):
                new[: old.shape[0], :, : old.shape[2]] = old
            self.storage = tuple(larger)
        self.keys, self.values = (tensor[:rows, :, :columns] for tensor in self.storage)

    def arrange(self, rows: Tensor, places: Tensor, used: int, count: int, columns: int, more_rows: int) -> None:
        """Have rows stand at other places of so many, with their last ``used`` columns as the last of so many."""
        have_rows, _, before, _ = self.keys.shape
        if columns == before:  # what comes before them moves as well: it is masked and must be finite
            used, rows, places = columns, rows[rows != places], places[rows != places]
        self.use(max(have_rows, count), max(before, columns), more_rows)
        for tensor in (self.keys, self.values) if len(rows) else ():
            states = tensor[:, :, before - used : before].index_select(0, rows.to(tensor.device))
            tensor[:, :, columns - used : columns].index_copy_(0, places.to(tensor.device), states)
            tensor[:, :, : columns - used] = 0
        self.use(count, columns)


class RollingStateLayer(RollingLayer, StateAndKeysLayer):  # type: ignore[misc,override]
    """One layer's keys and values, and the states that it has besides."""


def columns_for(length: int) -> int:
    """Return how many columns a response of so many tokens takes at most."""
    return length + length // 8 + 2 * _SPARE


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
        self._last_position = min(context_length or sys.maxsize, rescaling(model).beyond) - 1
        self._cache: Cache | None = None
        self._lengths = torch.zeros(0, dtype=torch.long)  # (R,) tokens of each response that are processed

    @property
    def _columns(self) -> int:
        """Columns in use; 0 where no layer has any."""
        layers: Sequence[Any] = self._cache.layers if self._cache else ()
        return next((layer.keys.shape[2] for layer in layers if _has_columns(layer)), 0)

    def prefill(self, texts: Sequence[Sequence[int]], prompt_lengths: Sequence[int]) -> tuple[list[KeptText], Tensor]:
        """Process prompts, or responses so far.

        Args:
            texts: token ids of each.
            prompt_lengths: how many of them are the prompt's.

        Returns:
            What is kept of each, and the logits (W, B, V) of what follows.
        """
        cache = empty_cache(self.model)
        groups = [list(group) for _, group in itertools.groupby(range(len(texts)), lambda index: len(texts[index]))]
        if len(groups) > 1 and any(map(_keeps_states, cache.layers)):
            in_turn = [self.prefill([texts[i] for i in group], [prompt_lengths[i] for i in group]) for group in groups]
            return [text for some, _ in in_turn for text in some], torch.cat([logits for _, logits in in_turn], dim=1)
        prompts = [text[: min(length, len(text) - 1)] for text, length in zip(texts, prompt_lengths, strict=True)]
        agreeing = itertools.takewhile(lambda ids: len(set(ids)) == 1, zip(*prompts, strict=False))
        common = sum(1 for _ in agreeing)  # tokens, which go through once
        if (len(texts) - 1) * common >= _LEAST_SAVING and all(type(layer) is DynamicLayer for layer in cache.layers):
            self._run(cache, [texts[0][:common]], [common], 0)
            cache.batch_repeat_interleave(len(texts))
        else:
            common = 0
        outputs = self._run(cache, [text[common:] for text in texts], prompt_lengths, common)
        states = outputs["last_hidden_state"].unflatten(0, (self.num_weights, -1))
        ends = torch.tensor([len(text) - common - 1 for text in texts], device=states.device)
        last = states[:, torch.arange(len(texts), device=states.device), ends]
        kept = [
            KeptText([_row(layer, self.num_weights, row, slice(len(text))) for layer in cache.layers], len(text))
            for row, text in enumerate(texts)
        ]
        with logits_from(self.model, outputs) as logits:
            return kept, logits(last.flatten(0, 1)[None])[0].unflatten(0, (self.num_weights, -1))

    def _run(
        self, cache: Cache, texts: Sequence[Sequence[int]], prompt_lengths: Sequence[int], first: int
    ) -> ModelOutput:
        """Run the model's body under all weights over padded rows that come after ``first`` tokens in the cache."""
        ids = pad(texts, self.device)
        steps = torch.arange(first, first + ids.shape[1]) - torch.tensor(prompt_lengths)[:, None]
        with self._perturbed(steps.clamp(min=-1).to(self.device)):
            argument = cache_argument(self.model, cache)
            return run_body(self.model, input_ids=ids.repeat(self.num_weights, 1), use_cache=True, **argument)

    def admit(self, texts: Sequence[KeptText], copies: Sequence[int], more: int = 0) -> None:
        """Append rows for responses.

        Args:
            texts: what is kept of what they begin with.
            copies: responses that go on from each.
            more: responses that join next, for which room is made.
        """
        if self._cache is None:
            assert texts[0].layers is not None
            self._cache = Cache(layers=[_without_rows(layer) for layer in texts[0].layers])
        first = len(self._lengths)
        new = torch.tensor([text.tokens for text in texts]).repeat_interleave(torch.tensor(list(copies)))
        self._arrange(range(first), torch.cat([self._lengths, new]), more)
        for text, begin, count in zip(texts, itertools.accumulate(copies, initial=first), copies, strict=False):
            for place, layer in enumerate(self._cache.layers):
                _put(layer, self.num_weights, slice(begin, begin + count), text, place)

    def select_rows(self, index: Sequence[int]) -> None:
        """Make response i what response ``index[i]`` is, each at most once, and evict the others."""
        self._arrange(index, self._lengths[torch.tensor(list(index))], 0)

    def _arrange(self, index: Sequence[int], lengths: Tensor, more: int) -> None:
        """Have responses ``index`` be the first of those that have these lengths from now on."""
        assert self._cache is not None
        kept = torch.tensor(list(index), dtype=torch.long)
        weights, count = torch.arange(self.num_weights)[:, None], self.num_weights * len(lengths)
        rows = (weights * len(self._lengths) + kept).flatten()
        places = (weights * len(lengths) + torch.arange(len(kept))).flatten()
        used = max(self._lengths[kept].tolist(), default=0)
        columns = max([used if self._columns - used >= _SPARE else self._columns, *lengths.tolist()])
        layers: list[Any] = self._cache.layers
        for layer in layers:
            if _has_columns(layer):
                layer.arrange(rows, places, used, count, columns, self.num_weights * more)
            for states, place, state in _states(layer):
                moved = state.index_select(0, rows.to(state.device))
                states[place] = state.new_empty(count, *state.shape[1:])
                states[place].index_copy_(0, places.to(state.device), moved)
        self._lengths = lengths

    def take(self, row: int, prompt: KeptText | None = None) -> KeptText:
        """Return a copy of what is kept of a response, but for the tokens that another text holds."""
        assert self._cache is not None
        tokens = int(self._lengths[row])
        columns = slice(self._columns - tokens + (prompt.tokens if prompt else 0), self._columns)
        rows = [_row(layer, self.num_weights, row, columns, Tensor.clone) for layer in self._cache.layers]
        return KeptText(rows, tokens, prompt)

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
        if length := self._columns:
            filled = self._lengths.to(self.device)
            mask = torch.arange(length + 1, device=self.device) >= (length - filled)[:, None]
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


def _states(layer: Any) -> Iterator[tuple[dict[int, Tensor], int, Tensor]]:
    """Yield a layer's states (rows, …), each with the dict and the key that it stands under."""
    for name in ("conv_states", "recurrent_states"):
        states = getattr(layer, name, {})
        yield from [(states, key, state) for key, state in states.items() if state is not None]


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
    layers = text.layers or []
    columns = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers if _has_columns(layer))
    return columns, sum(state.nbytes for layer in layers for _, _, state in _states(layer))


def _with_own_states(layer: Any) -> Any:
    """Return a layer with the same tensors, of which others can take the places."""
    own = copy.copy(layer)
    for name, value in vars(layer).items():
        if isinstance(value, dict):
            setattr(own, name, dict(value))
    return own


def _without_rows(of_text: Any) -> Any:
    """Return an empty layer of a batch."""
    layer = _with_own_states(of_text)
    if _has_columns(layer):
        layer.__class__ = RollingStateLayer if _keeps_states(layer) else RollingLayer
        layer.storage = (layer.keys[:0, :, :0], layer.values[:0, :, :0])
        layer.use(0, 0)
    for states, key, state in _states(layer):
        states[key] = state[:0]
    return layer


def _row(
    layer: Any, num_weights: int, row: int, columns: slice, own: Callable[[Tensor], Tensor] = lambda view: view
) -> Any:
    """Return some columns of a row in a layer of (W·rows, …) as a layer (W, …)."""
    alone = _with_own_states(layer)
    if _has_columns(layer):
        alone.storage = ()
        both = (tensor.unflatten(0, (num_weights, -1))[:, row, :, columns] for tensor in (layer.keys, layer.values))
        alone.keys, alone.values = map(own, both)
    for states, key, state in _states(alone):
        states[key] = own(state.unflatten(0, (num_weights, -1))[:, row])
    return alone


def _put(layer: Any, num_weights: int, rows: slice, text: KeptText, place: int) -> None:
    """Have rows of a layer (W·rows, …), the one at this place, be copies of a text's."""
    assert text.layers is not None
    own = text.layers[place]
    pieces = [own, text.prompt.layers[place]] if text.prompt and text.prompt.layers else [own]
    for name in ("keys", "values") if _has_columns(layer) else ():
        tensor = getattr(layer, name).unflatten(0, (num_weights, -1))[:, rows]
        end = tensor.shape[-2]
        for piece in pieces:
            states = getattr(piece, name)[:, None]
            first, end = end, end - states.shape[-2]
            tensor[..., end:first, :] = states
        tensor[..., :end, :] = 0
    for (_, _, state), (_, _, theirs) in zip(_states(layer), _states(own), strict=True):
        state.unflatten(0, (num_weights, -1))[:, rows] = theirs[:, None]
