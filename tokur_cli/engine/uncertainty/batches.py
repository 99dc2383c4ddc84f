"""Batches of responses in which every common prefix stands once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tokur_cli.engine.uncertainty import prefixes
from tokur_cli.engine.uncertainty.prefixes import Stretch

# What is computed ahead is computed in pieces of a share of the budget, but not in smaller ones than this. They are cut
# at the same places whatever follows, so that another window, which may go on otherwise, can take them over
LEAST_PIECE = 256
PIECES_IN_BUDGET = 8


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
        further = (*cuts, end) if end - begun >= prefixes.LEAST_SAVING else ()
        done = end if further else begun
        yield from cut_batches(stretch.parts, budget, latest, (*ahead, *further), stretch.last - done)
    if waiting:
        yield Batch(tuple(waiting), ahead)
