"""Which responses begin alike, and batches of them in which every common prefix stands once.

Sequences are sorted, so that those with a common prefix are neighbours, and divided where they part:

    header ┬ question 1 ┬ response 1
           │            └ response 2
           └ question 2 ─ response 3
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# A stretch is a tensor operation or two more in every layer: less than this many saved positions are not worth them
LEAST_SAVING = 32

# What is computed ahead is computed in pieces of a share of the budget, but not in smaller ones than this. They are cut
# at the same places whatever follows, so that another window, which may go on otherwise, can take them over
LEAST_PIECE = 256
PIECES_IN_BUDGET = 8


@dataclass(frozen=True)
class Stretch:
    """Positions ``first … last`` that some sequences have in common and others, if any, continue differently.

    Args:
        first, last: positions in each of the sequences, ``last`` excluded; both are equal for a sequence that ends
            where others go on.
        members: indices of the sequences.
        parts: how they go on after ``last``; none for a single sequence.
    """

    first: int
    last: int
    members: tuple[int, ...]
    parts: tuple[Stretch, ...]

    @property
    def positions(self) -> int:
        """Positions of the stretch and of all that comes after it."""
        return self.last - self.first + sum(part.positions for part in self.parts)


def divide(sequences: Mapping[int, npt.NDArray[np.int64]], first: int = 0) -> tuple[Stretch, ...]:
    """Divide sequences into stretches that they have in common.

    Args:
        sequences: by index; non-negative numbers that stand for what a position is computed from.
        first: where to begin; all sequences agree before it.
    """
    order = sorted(sequences, key=lambda index: (sequences[index].astype(">i8").tobytes(), index))
    common = [0, *(_agreement(sequences[a], sequences[b]) for a, b in itertools.pairwise(order))]

    def parts(low: int, high: int, first: int) -> Iterator[Stretch]:
        if high - low == 1:
            yield Stretch(first, len(sequences[order[low]]), (order[low],), ())
            return
        last = min(common[low + 1 : high])
        if (high - low - 1) * (last - first) >= LEAST_SAVING:
            yield Stretch(first, last, tuple(order[low:high]), tuple(parts(low, high, last)))
            return
        cuts = [low, *(place for place in range(low + 1, high) if common[place] == last), high]
        for begin, end in itertools.pairwise(cuts):
            yield from parts(begin, end, first)

    return tuple(parts(0, len(order), first)) if order else ()


@dataclass(frozen=True)
class Batch:
    """Responses that are computed together.

    Args:
        indices: of the responses.
        ahead: where the prefixes end that all of them share with responses of other batches, ascending: these are
            computed once, ahead of all those batches. Empty if there are none.
        packed: into one row; else they are padded to the length of the longest.
    """

    indices: tuple[int, ...]
    ahead: tuple[int, ...] = ()
    packed: bool = True


def cut_batches(
    stretches: Sequence[Stretch],
    budget: Callable[[], int],
    latest: Mapping[int, int],
    ahead: tuple[int, ...] = (),
    again: int = 0,
) -> Iterator[Batch]:
    """Cut stretches into batches of at most ``budget()`` positions, or one response where that is longer.

    Args:
        stretches: what ``divide`` returned.
        budget: asked anew for every stretch, since it may shrink while batches are computed.
        latest: for each sequence, up to where it may be computed ahead.
        ahead: what is computed ahead already.
        again: common positions that every batch must compute for itself, being beyond ``latest``.
    """
    waiting: list[int] = []
    size = again
    for stretch in stretches:
        positions = stretch.positions
        too_large = bool(stretch.parts) and again + positions > budget()
        if waiting and (too_large or size + positions > budget()):
            yield Batch(tuple(waiting), ahead)
            waiting, size = [], again
        if not too_large:
            waiting += stretch.members
            size += positions
            continue
        begun = ahead[-1] if ahead else 0
        end = min(stretch.last, *(latest[index] for index in stretch.members))
        piece = max(LEAST_PIECE, budget() // PIECES_IN_BUDGET)
        cuts = range((begun // piece + 1) * piece, end, piece)
        further = (*cuts, end) if end - begun >= LEAST_SAVING else ()
        done = end if further else begun
        yield from cut_batches(stretch.parts, budget, latest, (*ahead, *further), stretch.last - done)
    if waiting:
        yield Batch(tuple(waiting), ahead)


def in_reading_order(batches: Sequence[Batch], prompts: Mapping[int, Sequence[int]]) -> list[Batch]:
    """Order batches so that the earliest responses are computed first, and what is computed ahead still only once.

    Args:
        batches: in any order.
        prompts: the prompt of each response that is in a packed batch.
    """
    first: dict[tuple[int, ...], int] = {}  # the earliest response after each prefix that is computed ahead
    prefixes = [
        [tuple(prompts[batch.indices[0]][:end]) for end in batch.ahead] if batch.packed else [] for batch in batches
    ]
    for batch, ends in zip(batches, prefixes, strict=True):
        for prefix in ends:
            first[prefix] = min(first.get(prefix, batch.indices[0]), *batch.indices)
    keys = [
        [*(first[prefix] for prefix in ends), min(batch.indices)] for batch, ends in zip(batches, prefixes, strict=True)
    ]
    return [batches[place] for place in sorted(range(len(batches)), key=keys.__getitem__)]


def _agreement(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> int:
    """Count the positions from the start in which two sequences agree."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    return int(differs.argmax()) if differs.any() else length
