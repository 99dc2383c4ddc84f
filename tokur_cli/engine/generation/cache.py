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

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer
from transformers.cache_utils import LinearAttentionAndFullAttentionLayer as StateAndKeysLayer

from tokur_cli.engine.forward.attention import quick_attention
from tokur_cli.engine.forward.body import cache_argument, empty_cache, logits_from
from tokur_cli.engine.forward.hooks import perturbed
from tokur_cli.engine.forward.prefix_tree import Ids, agreement
from tokur_cli.engine.forward.rope import rescaled_beyond
from tokur_cli.engine.scoring.scorer import PLAIN_LAYERS, Scorer, identity_of

_SPARE = 16  # columns: so many may come before the longest response, or an eighth of its length
_KNOWN = PLAIN_LAYERS | {"LinearAttentionLayer", "LinearAttentionAndFullAttentionLayer"}


class KeptText(NamedTuple):
    """What a model keeps of a text."""

    # The keys (W, heads, tokens, d) of its last tokens in each layer that has them, and the values
    columns: Sequence[Tensor]
    states: Sequence[Tensor]  # the states (W, …) of all its tokens
    tokens: int  # how many tokens the text has
    prompt: KeptText | None = None  # the text of the tokens before the last ones; None for none


class RollingLayer(DynamicLayer):
    """One layer's keys and values, (rows, heads, columns, d) each, with columns to spare at the end.

    A model is given the whole of them, as from transformers' static caches: what is contiguous is multiplied without
    being copied first. One that takes the last column for the query's own is given those in use.
    """

    keys: Tensor
    values: Tensor
    is_whole: bool  # what a model is given
    used: int  # columns
    storage: list[Tensor]  # keys and values are what its first numbers are
    room: int  # rows times columns of the storage

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write the next columns, for which there is room, and return what a model is given."""
        first, self.used = self.used, self.used + key_states.shape[2]
        self.keys[:, :, first : self.used], self.values[:, :, first : self.used] = key_states, value_states
        end = None if self.is_whole else self.used
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self, *_: Any) -> int:
        """Return how many columns are in use."""
        return self.used

    def get_mask_sizes(self, *_: Any, **__: Any) -> tuple[int, int]:
        """Return how many columns a step's mask has, and the first of them."""
        return self.keys.shape[2] if self.is_whole else self.used + 1, 0

    def arrange(self, rows: Tensor, places: Tensor, count: int, columns: int, width: int, room: int) -> None:
        """Have rows stand at other places, and their last columns be the last of those that are in use.

        Args:
            rows: some of those that there are.
            places: of each from now on.
            count: rows from now on.
            columns: in use from now on.
            width: of these and those to spare.
            room: rows times columns of new storage, or more, where the storage is too small.
        """
        fits = 0 < count * width <= self.room
        is_in_place = fits and (columns, width) == (self.used, self.keys.shape[2])
        if is_in_place:
            rows, places = rows[rows != places], places[rows != places]
        elif not fits:
            self.room = max(count * width, room)
        begin = max(0, columns - self.used)
        arranged = []
        for place, old in enumerate((self.keys, self.values)):
            moved = old[:, :, self.used - columns + begin : self.used].index_select(0, rows.to(old.device))
            heads, numbers = old.shape[1], old.shape[3]
            if not fits:
                self.storage[place] = old.new_empty(self.room * heads * numbers)
            new = self.storage[place][: count * heads * width * numbers].view(count, heads, width, numbers)
            if not is_in_place or count > len(old):
                new[:, :, :begin] = new[:, :, columns:] = 0  # what is masked must be finite
            new[:, :, begin:columns].index_copy_(0, places.to(old.device), moved)
            arranged.append(new)
        self.keys, self.values = arranged
        self.used = columns


class RollingStateLayer(RollingLayer, StateAndKeysLayer):  # type: ignore[misc,override]
    """One layer's keys and values, and the states that it has besides."""


def columns_for(length: int) -> int:
    """Return how many columns a response of so many tokens takes at most."""
    return length + max(_SPARE, length // 8)


class KVCache:
    """The keys, values and states of R responses under W weights, in the model's own kind of attention.

    Args:
        model: of any family.
        context_length: positions of the model; None for any number.
        scorer: what scores the responses, under its draws beside the mean weights; None for these alone.
    """

    def __init__(self, model: PreTrainedModel, context_length: int | None, scorer: Scorer | None = None) -> None:
        self.model, self._scorer = model, scorer or Scorer(model, None)
        self.device, self.num_weights = self._scorer.device, self._scorer.num_rows
        self._last_position = min(context_length or sys.maxsize, rescaled_beyond(model)) - 1
        # So transformers marks what static caches suit; GPT-Neo's local attention counts from the last column
        self._is_whole = bool(model._can_compile_fullgraph)
        self._cache: Cache | None = None  # from the first prompt on
        self._layers: list[Any] = []
        self._lengths: list[int] = []  # tokens of each response that are processed
        self._room = (0, 0)  # rows and columns

    @cached_property
    def kept_bytes(self) -> tuple[int, int]:
        """What is kept of a token, and of a text of any length; a model's config tells it in too many ways."""
        (text,), _ = self.prefill([identity_of([0], [])])
        return sum(tensor.nbytes for tensor in text.columns), sum(state.nbytes for state in text.states)

    def unsupported_reason(self) -> str | None:
        """Return what keeps the model's responses from being rows of a batch; None where nothing does."""
        generating: Any = self.model
        known = {type(layer).__name__ for layer in empty_cache(self.model).layers} <= _KNOWN
        if known and generating._supports_default_dynamic_cache() and any(self.kept_bytes):
            return None
        return "what it keeps of a text is not keys, values and states in transformers' own cache"

    def reserve(self, rows: int, length: int) -> None:
        """Say how many responses there will be before any is evicted, and how many tokens they may have."""
        columns = columns_for(length) if self._lengths else length  # those that begin together take no more
        self._room = rows * self.num_weights, columns

    @property
    def is_full(self) -> bool:
        """Whether columns have to move before the next step."""
        return 0 < self._width == self._columns

    @property
    def _columns(self) -> int:
        """Columns in use; 0 where no layer has any."""
        return next((layer.used for layer in self._layers if _has_columns(layer)), 0)

    @property
    def _width(self) -> int:
        """Columns in use and to spare; 0 where no layer has any."""
        return next((keys.shape[2] for keys in _keys_and_values(self._layers)), 0)

    def prefill(self, texts: Sequence[Ids]) -> tuple[list[KeptText], Tensor]:
        """Process prompts, or responses so far, given by their ``identity_of``.

        Returns:
            What is kept of each, and the logits (W, B, V) of what follows.
        """
        cache = empty_cache(self.model)
        groups = [list(group) for _, group in itertools.groupby(texts, len)]
        if len(groups) > 1 and any(isinstance(layer, LinearAttentionLayer) for layer in cache.layers):
            in_turn = [self.prefill(group) for group in groups]
            return [text for some, _ in in_turn for text in some], torch.cat([logits for _, logits in in_turn], dim=1)
        common = min(agreement(texts[0], text[:-1]) for text in texts)  # tokens, which go through once
        saves = (len(texts) - 1) * common >= self._scorer.min_saving
        if saves and all(type(layer) is DynamicLayer for layer in cache.layers):
            self._scorer.forward([texts[0][:common]], cache)
            cache.batch_repeat_interleave(len(texts))
        else:
            common = 0
        outputs = self._scorer.forward([text[common:] for text in texts], cache)
        states = outputs["last_hidden_state"].unflatten(0, (self.num_weights, -1))
        rows = torch.arange(len(texts), device=states.device)
        last = states[:, rows, torch.tensor([len(text) - common - 1 for text in texts], device=states.device)]
        kept = [KeptText(*self._row(cache.layers, row, slice(len(ids))), len(ids)) for row, ids in enumerate(texts)]
        if self._cache is None:
            self._begin(cache)
        with logits_from(self.model, outputs) as logits:
            return kept, logits(last.flatten(0, 1)[None])[0].unflatten(0, (self.num_weights, -1))

    def _begin(self, cache: Cache) -> None:
        """Have a cache of no rows with the layers of a prompt's."""
        self._cache, self._layers = cache, list(cache.layers)
        for layer in self._layers:
            if _has_columns(layer):
                layer.__class__ = RollingStateLayer if isinstance(layer, LinearAttentionLayer) else RollingLayer
                layer.is_whole, layer.used, layer.room = self._is_whole, 0, 0
                layer.storage = [layer.keys[:0].clone(), layer.values[:0].clone()]
        self.clear()

    def _row(self, layers: Iterable[Any], row: int, columns: slice) -> tuple[list[Tensor], list[Tensor]]:
        """Return some columns, and the states, that layers of (W·rows, …) hold of a row: (W, …) each, no copies."""
        kept = [tensor.unflatten(0, (self.num_weights, -1))[:, row, :, columns] for tensor in _keys_and_values(layers)]
        return kept, [place[key].unflatten(0, (self.num_weights, -1))[:, row] for place, key in _states(layers)]

    def admit(self, texts: Sequence[KeptText], copies: Sequence[int]) -> None:
        """Append rows for responses.

        Args:
            texts: what is kept of what they begin with.
            copies: responses that go on from each.
        """
        first = len(self._lengths)
        new = [text.tokens for text, count in zip(texts, copies, strict=True) for _ in range(count)]
        self._arrange(range(first), [*self._lengths, *new])
        for text, begin, count in zip(texts, itertools.accumulate(copies, initial=first), copies, strict=False):
            rows = slice(begin, begin + count)
            for place, tensor in enumerate(_keys_and_values(self._layers)):
                own = tensor.unflatten(0, (self.num_weights, -1))[:, rows, :, : self._columns]
                end = self._columns
                for piece in filter(None, (text, text.prompt)):
                    columns = piece.columns[place]
                    own[..., end - columns.shape[2] : end, :] = columns[:, None]
                    end -= columns.shape[2]
                own[..., :end, :] = 0
            for (states, key), theirs in zip(_states(self._layers), text.states, strict=True):
                states[key].unflatten(0, (self.num_weights, -1))[:, rows] = theirs[:, None]

    def select_rows(self, index: Sequence[int]) -> None:
        """Make response i what response ``index[i]`` is, each at most once, and evict the others."""
        self._arrange(index, [self._lengths[i] for i in index])

    def clear(self) -> None:
        """Evict all responses; their memory is free."""
        self._arrange([], [])

    def _arrange(self, index: Sequence[int], lengths: list[int]) -> None:
        """Have responses ``index`` be the first of those that have these lengths from now on."""
        kept = torch.tensor(index, dtype=torch.long)
        weights, count = torch.arange(self.num_weights)[:, None], self.num_weights * len(lengths)
        rows = (weights * len(self._lengths) + kept).flatten()
        places = (weights * len(lengths) + torch.arange(len(kept))).flatten()
        used = max((self._lengths[i] for i in index), default=0)
        longest, columns, width = max(lengths, default=0), self._columns, self._width
        rows_to_come, columns_to_come = self._room if lengths else (0, 0)
        if not lengths or self.is_full or columns - used > max(_SPARE, used // 8) or longest > columns:
            # Some families have tables of as many columns as positions
            columns, width = longest, max(longest + 1, min(columns_for(longest), self._last_position + 1))
            if longest < columns_to_come and count <= rows_to_come:
                width = min(width, columns_to_come)
        for layer in self._layers:
            if _has_columns(layer):
                layer.arrange(rows, places, count, columns, width, rows_to_come * columns_to_come)
        for states, key in _states(self._layers):
            moved = states[key].index_select(0, rows.to(states[key].device))
            states[key] = moved.new_empty(count, *moved.shape[1:]).index_copy_(0, places.to(moved.device), moved)
        self._lengths = lengths

    def take(self, row: int, prompt: KeptText | None = None) -> KeptText:
        """Return a copy of what is kept of a response, but for the tokens that another text holds."""
        tokens = self._lengths[row]
        first = self._columns - tokens + (prompt.tokens if prompt else 0)
        columns, states = self._row(self._layers, row, slice(first, self._columns))
        return KeptText([one.clone() for one in columns], [one.clone() for one in states], tokens, prompt)

    def step(self, ids: Sequence[int], steps: Sequence[int]) -> Tensor:
        """Process each response's next token.

        Args:
            ids: R token ids.
            steps: which token of its response each is.

        Returns:
            Logits (W, R, V) of what follows.
        """
        assert self._cache is not None
        if self.is_full:
            self._arrange(range(len(ids)), self._lengths)
        where: dict[str, Tensor] = {}
        if columns := self._columns:
            lengths = torch.tensor(self._lengths, device=self.device)[:, None]
            place = torch.arange(self._width if self._is_whole else columns + 1, device=self.device)
            mask = (place >= columns - lengths) & (place <= columns)
            positions = lengths.clamp(max=self._last_position)  # ended responses may run beyond it
            where = {
                "attention_mask": mask.long().repeat(self.num_weights, 1),
                "position_ids": positions.repeat(self.num_weights, 1),
            }
        tokens = torch.tensor(ids, device=self.device)[:, None].repeat(self.num_weights, 1)
        is_stepwise = self._scorer.sampling == "stepwise"
        decoding_steps = torch.tensor(steps, device=self.device)[:, None] if is_stepwise else None
        with perturbed(self._scorer.draws, decoding_steps), quick_attention():
            argument = cache_argument(self.model, self._cache)
            outputs = self.model(input_ids=tokens, use_cache=True, **where, **argument)
        self._lengths = [length + 1 for length in self._lengths]
        logits: Tensor = outputs.logits[:, -1].unflatten(0, (self.num_weights, -1))
        return logits


def _has_columns(layer: Any) -> bool:
    return getattr(layer, "keys", None) is not None


def _keys_and_values(layers: Iterable[Any]) -> list[Tensor]:
    """Return the keys and values of all layers."""
    return [tensor for layer in layers if _has_columns(layer) for tensor in (layer.keys, layer.values)]


def _states(layers: Iterable[Any]) -> Iterator[tuple[dict[int, Tensor], int]]:
    """Yield where each state (rows, …) of all layers stands: a dict and the key in it."""
    for layer in layers:
        for name in ("conv_states", "recurrent_states"):
            states = getattr(layer, name, {})
            yield from [(states, key) for key, state in states.items() if state is not None]
