"""What a heat map is drawn from: one response with the quantities of its tokens, and where it is least certain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wcwidth import wcswidth

from tokur_cli.records.quantity import Quantity
from tokur_cli.views.heatmap.cells import Cell, Values
from tokur_cli.views.visible import one_line, picture, shorten

LEADING = ("eu", "ll_sum", "p_correct")
"""Scores of whole responses that are always shown first, whatever is painted."""

_ROUNDS_TO_A_PERCENT = 0.005


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The likeliest tokens at one place, as ``tokur.alternatives`` has them."""

    token: int  # the place, from 0
    text: tuple[str, ...]  # what each would add to the text, the likeliest first
    p: tuple[float | None, ...]  # their probabilities under the model; None where one is not known
    p_mean: tuple[float | None, ...] | None = None  # the same under the mean of the draws; None without draws
    draws: tuple[str, ...] = ()  # what the likeliest token of each draw would add

    def __post_init__(self) -> None:
        if any(len(known) != len(self.text) for known in (self.p, self.p_mean) if known is not None):
            raise ValueError("as many probabilities as texts are needed")

    def in_a_line(self, width: int) -> str:
        """Return those of more than half a percent, ``40 % 6``, then what the draws would write where they disagree.

        As many as fit into so many columns, and … where some are left out.
        """
        pieces = [
            f"{'?' if value is None else f'{100 * value:.0f}'} % {drawn(text)}"
            for text, value in zip(self.text, self.p, strict=True)
            if value is None or value > _ROUNDS_TO_A_PERCENT
        ]
        if set(self.draws) - set(self.text[:1]):
            pieces.append("draws: " + " ".join(map(drawn, self.draws)))
        for count in range(len(pieces), 0, -1):
            line = "  ".join(pieces[:count]) + " …" * (count < len(pieces))
            if wcswidth(line) <= width:
                return line
        return ""


Sums: TypeAlias = Mapping[str, Mapping[str, float]]
"""By quantity the ``sum`` and the ``mean`` over some tokens, NaN where one of them has no value."""


@dataclass(frozen=True, slots=True)
class Step:
    """A reasoning step: the code points ``[start, end)``, the tokens, and what their values sum to."""

    start: int
    end: int
    tokens: range
    sums: Sums


@dataclass(frozen=True, slots=True)
class HeatmapResponse:
    """One response to paint."""

    id: str  # the question's id
    response: str  # the model's text, exactly as it was written
    # Code points ``[start, end)`` of ``response``, one pair per token, as ``scored_tokens`` allows them
    spans: Sequence[tuple[int, int]]
    values: Values  # of the tokens, each quantity as long as ``spans``
    sums: Sums = field(default_factory=dict)  # of all tokens
    group: str = ""  # what the responses to one question have in common
    sample: int | None = None  # which of the question's N responses this is
    question: str | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)  # None where one could not be computed
    correct: bool | None = None  # whether the answer is correct, None if that is not known
    withheld: bool | None = None  # whether a certificate keeps the answer back; None where none was applied
    answer: str | None = None  # the answer extracted from the response
    reference: str | None = None  # the gold answer
    steps: Sequence[Step] = ()  # the reasoning steps, which join to the whole text
    # What else might have been written at tokens, by their indices; empty where that is not known
    alternatives: Mapping[int, Alternatives] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Which response it is, as it is drawn."""
        sample = f" · sample {self.sample}" if self.sample is not None else ""
        return picture(self.id) + sample + " · withheld" * (self.withheld is True)

    @property
    def verdict(self) -> str:
        """Whether it is correct, in words with a sign; empty if that is not known."""
        return "" if self.correct is None else "✓ correct" if self.correct else "✗ incorrect"

    def leading_scores(self, quantities: Sequence[Quantity], by: str | None = None) -> dict[str, float]:
        """Return the known scores that are shown first: of the order, of what is painted, and those of `LEADING`."""
        painted = (name for quantity in quantities for name in quantity.scores)
        names = dict.fromkeys((*filter(None, (by,)), *painted, *LEADING))
        return {name: value for name in names if (value := self.scores.get(name)) is not None}

    @property
    def facts(self) -> list[str]:
        """The answer and the reference, as far as they are known."""
        known = (("answer", self.answer), ("reference", self.reference))
        return [f"{name} {picture(text)}" for name, text in known if text is not None]

    def step_text(self, step: Step) -> str:
        """Return a step's text on one line."""
        return one_line(self.response[step.start : step.end])

    def least_certain_step(self, quantity: Quantity) -> int | None:
        """Return the index of the least certain step, the first of equals; None if no step has a value."""
        values = [uncertainty_of(step.sums, quantity) for step in self.steps]
        known = [index for index, value in enumerate(values) if not math.isnan(value)]
        return max(known, key=values.__getitem__, default=None)


def uncertainty_of(sums: Sums, quantity: Quantity) -> float:
    """Return the one of the two that a quantity compares by, turned so that more is less certain; NaN if not known."""
    return -quantity.sign * sums[quantity.name][quantity.aggregate]


def least_certain(
    response: HeatmapResponse, cells: Sequence[Cell], quantity: Quantity, count: int | None = None
) -> list[tuple[int, int]]:
    """Return the ``count`` least certain tokens, each after its cell, the least certain first, of equals the earlier.

    A cell of several tokens has one of them; a token in two cells is in the one with more text.
    """
    cell_of: dict[tuple[int, float], int] = {}
    for index, cell in enumerate(cells):
        found = cell.least_certain(response.values, quantity)
        if found and (found not in cell_of or len(cell.text) > len(cells[cell_of[found]].text)):
            cell_of[found] = index
    ranked = sorted(cell_of, key=lambda found: (quantity.sign * found[1], found[0]))
    return [(cell_of[found], found[0]) for found in ranked[:count]]


def context(cells: Sequence[Cell], at: int, width: int) -> tuple[str, str, str]:
    """Return the text before a cell, of the cell and after it as it is drawn, on one line of so many columns."""
    middle = shorten(cells[at].shown, max(1, width // 2))
    room = max(1, (width - wcswidth(middle)) // 2)
    before = "".join(cell.shown for cell in cells[max(0, at - room) : at])  # a cell takes a column at least
    behind = "".join(cell.shown for cell in cells[at + 1 : at + 2 + room])
    return shorten(before, room, keep_end=True), middle, shorten(behind, room)


def drawn(text: str) -> str:
    """Return a token's text as it is drawn, without the spaces around it; ␣ for nothing but spaces, ∅ for no text."""
    return picture(text.strip(" ")) or ("␣" if text else "∅")
