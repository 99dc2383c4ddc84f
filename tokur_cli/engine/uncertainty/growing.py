"""Scoring of responses that grow: of each, only what is new goes through the model.

    prompt ┬ piece ┬ piece       what a pass added to a response is a piece, with its keys and values under all members
           │       └ piece       a copy of a response has the same pieces: it costs nothing
           └ piece ─ piece       a piece attends to itself and, as a part of one long query, to the pieces before it

The new pieces of many responses stand in one packed row. A piece whose responses were all dropped is freed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet, WeakValueDictionary

import numpy as np
import torch

from tokur_cli.engine.halving import HalvingBatches
from tokur_cli.engine.uncertainty.packing import Ahead, KeysAndValues, Layout, PackedAttention
from tokur_cli.engine.uncertainty.prefixes import Stretch
from tokur_cli.engine.uncertainty.scorer import Quantities, Scorer, TokenizedResponse
from tokur_cli.engine.uncertainty.tensors import packed
from tokur_cli.records.errors import TokurError

_numbers = itertools.count()


@dataclass(eq=False)
class Piece:
    """Positions ``first … last`` of some responses, after those of the pieces before it.

    Args:
        before: the piece that it continues; None for the first.
        first, last: positions, ``last`` excluded.
        states: keys and values, (1 + M, key heads, last − first, d) each (one row in layers that no draw reaches); None
            where they were given up for want of memory.
        number: in the order of their making.
    """

    before: Piece | None
    first: int
    last: int
    states: KeysAndValues | None
    number: int = field(default_factory=lambda: next(_numbers))

    def path(self) -> list[Piece]:
        """Return the pieces up to this one."""
        return [*(self.before.path() if self.before else ()), self]


@dataclass(frozen=True)
class Scored:
    """A response as far as it is scored.

    Args:
        quantities: per-token quantities, (T,) each.
        piece: its last one; None where the next pass begins anew.
    """

    quantities: Quantities
    piece: Piece | None

    @property
    def states(self) -> list[KeysAndValues]:
        """Keys and values of the response but for its last token, part after part; none if any of them is lacking."""
        states = [piece.states for piece in _path(self.piece)]
        return [state for state in states if state is not None] if None not in states else []


@dataclass(frozen=True)
class Growth:
    """A response that has grown.

    Args:
        prompt_ids: P ≥ 1 token ids.
        response_ids: T ≥ 1 token ids, more than were scored.
        scored: what was; None for nothing.
    """

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    scored: Scored | None = None

    @property
    def length(self) -> int:
        """Positions in all: the last token predicts nothing that is asked for."""
        return len(self.prompt_ids) + len(self.response_ids) - 1

    @property
    def known(self) -> int:
        """Positions that need not be computed again, if their states are still there."""
        return self.scored.piece.last if self.scored and self.scored.piece else len(self.prompt_ids) - 1


class GrowingScorer:
    """Gives growing responses the quantities that ``Scorer`` gives them as wholes, up to floating point.

    Responses that cannot be packed are scored as wholes each time, and so are all under draws that are weighted by what
    they gave to the response so far.

    Args:
        scorer: the scorer.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.members = scorer, scorer.members
        self._pieces: WeakSet[Piece] = WeakSet()
        self._prompts: WeakValueDictionary[tuple[int, ...], Piece] = WeakValueDictionary()
        self._halving = HalvingBatches(scorer.batch_tokens, make_room=self._give_up_states)

    def score(self, growths: Sequence[Growth]) -> Iterator[tuple[int, Scored | TokurError]]:
        """Yield each response's index with what it is scored as, or an error where memory does not suffice."""
        in_pieces = {i: growth.length - growth.known for i, growth in enumerate(growths) if self._in_pieces(growth)}
        for batch in _batches(in_pieces, lambda: self._halving.batch_tokens):
            yield from self._halving.results(
                batch, in_pieces, lambda indices: self._score_pieces([growths[index] for index in indices])
            )
        whole = [index for index in range(len(growths)) if index not in in_pieces]
        responses = [TokenizedResponse(growths[i].prompt_ids, growths[i].response_ids) for i in whole]
        for index, result in self.scorer.score(responses):
            yield whole[index], result if isinstance(result, TokurError) else Scored(result, None)

    def _in_pieces(self, growth: Growth) -> bool:
        longest = self.scorer.longest_packed
        return self.scorer.sampling != "joint" and (longest is None or growth.length <= longest)

    def _give_up_states(self) -> bool:
        """Drop the keys and values of all pieces; return whether any had them."""
        held = [piece for piece in self._pieces if piece.states is not None]
        for piece in held:
            piece.states = None
        return bool(held)

    @torch.inference_mode()
    def _score_pieces(self, growths: Sequence[Growth]) -> list[Scored]:
        """Score what is new of each response, in one packed row."""
        befores = self._befores(growths)
        stretches = {i: Stretch(_last(befores[i]), growth.length, (i,), ()) for i, growth in enumerate(growths)}
        layout = Layout([stretches[i] for i in sorted(stretches, key=lambda i: [p.number for p in _path(befores[i])])])
        responses = [_unscored(growth, before) for growth, before in zip(growths, befores, strict=True)]
        states: KeysAndValues = {}
        tensors = packed(responses, layout, self.scorer.device)
        outputs = self.scorer.forward(tensors, PackedAttention(layout, _ahead(layout, befores), states))
        quantities = self.scorer.reduced(responses, tensors, outputs)
        pieces = [self._piece(before, layout, index, states) for index, before in enumerate(befores)]
        return [
            Scored(_continued(growth.scored, new, len(growth.response_ids)), piece)
            for growth, new, piece in zip(growths, quantities, pieces, strict=True)
        ]

    def _befores(self, growths: Sequence[Growth]) -> list[Piece | None]:
        """Return the piece that each response's new one continues, at least its prompt's but for the last token."""
        prompts: dict[tuple[int, ...], Piece] = {}
        missing: list[tuple[int, ...]] = []
        for prompt in dict.fromkeys(tuple(growth.prompt_ids) for growth in growths):
            piece = self._prompts.get(prompt)
            if piece is not None and piece.states is not None:
                prompts[prompt] = piece
            elif len(prompt) > 1:
                missing.append(prompt)
        for batch in _batches(dict(enumerate(map(len, missing))), lambda: self._halving.batch_tokens):
            layout = Layout([Stretch(0, len(missing[i]) - 1, (place,), ()) for place, i in enumerate(batch)])
            states: KeysAndValues = {}
            tensors = packed([TokenizedResponse(missing[i], (0,)) for i in batch], layout, self.scorer.device)
            self.scorer.forward(tensors, PackedAttention(layout, (), states))
            for place, i in enumerate(batch):
                prompts[missing[i]] = self._prompts[missing[i]] = self._piece(None, layout, place, states)
        return [
            growth.scored.piece
            if growth.scored and all(piece.states is not None for piece in _path(growth.scored.piece))
            else prompts.get(tuple(growth.prompt_ids))
            for growth in growths
        ]

    def _piece(self, before: Piece | None, layout: Layout, sequence: int, states: KeysAndValues) -> Piece:
        """Return the piece that a sequence is in a row, with states of its own."""
        first, last = _place(layout, sequence)
        own = {
            module: (keys[:, :, first:last].clone(), values[:, :, first:last].clone())
            for module, (keys, values) in states.items()
        }
        piece = Piece(before, _last(before), _last(before) + last - first, own)
        self._pieces.add(piece)
        return piece


def _batches(lengths: Mapping[int, int], budget: Callable[[], int]) -> Iterator[list[int]]:
    """Cut sequences of these lengths, in their order, into batches of at most ``budget()`` positions, or of one."""
    batch: list[int] = []
    for index, length in lengths.items():
        if batch and sum(lengths[other] for other in batch) + length > budget():
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _last(before: Piece | None) -> int:
    return before.last if before else 0


def _path(piece: Piece | None) -> list[Piece]:
    return piece.path() if piece else []


def _place(layout: Layout, sequence: int) -> tuple[int, int]:
    """Return where a sequence without common stretches begins and ends in the row."""
    where = layout.where(sequence)
    return int(where[0]), int(where[-1]) + 1


def _unscored(growth: Growth, before: Piece | None) -> TokenizedResponse:
    """Return what comes after a piece as a response to all before it."""
    begun = _last(before) - len(growth.prompt_ids) + 1
    ids = list(growth.response_ids)
    return TokenizedResponse([*growth.prompt_ids, *ids[:begun]], ids[begun:], begun)


def _continued(scored: Scored | None, new: Quantities, length: int) -> Quantities:
    """Return the quantities of ``length`` tokens, the last of which are new."""
    if scored is None:
        return new
    return {
        name: np.concatenate([scored.quantities[name][: length - len(values)], values]) for name, values in new.items()
    }


def _ahead(layout: Layout, befores: Sequence[Piece | None]) -> list[Ahead]:
    """Return what each part of the row attends to: sequences that go on from the same piece stand together."""
    reach: dict[Piece, tuple[int, int]] = {}
    for sequence, before in enumerate(befores):
        first, last = _place(layout, sequence)
        for piece in _path(before):
            begin, end = reach.get(piece, (first, last))
            reach[piece] = min(begin, first), max(end, last)
    together: dict[tuple[int, int], list[KeysAndValues]] = {}
    for piece in sorted(reach, key=lambda piece: piece.first):
        assert piece.states is not None
        together.setdefault(reach[piece], []).append(piece.states)
    return [Ahead(first, last, states) for (first, last), states in together.items()]
