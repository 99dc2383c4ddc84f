"""Tokens laid over text: the cells that are painted, and their lines."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from tokur_cli.records.quantity import Quantity
from tokur_cli.views.visible import NO_TEXT, Glyph, glyphs

Values: TypeAlias = Mapping[str, Sequence[float | None]]
"""Quantities by name, each with a value per token, None where a token has none."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of a response that has one colour."""

    text: str  # the piece, sliced from the response; empty for a token without text
    glyphs: tuple[Glyph, ...]  # how it is drawn
    # The tokens that it shows: one as a rule, several for a character that is made of several tokens, none for text
    # between tokens
    tokens: range

    @property
    def shown(self) -> str:
        """What is drawn, on one line."""
        return "".join(glyph.shown for glyph in self.glyphs)

    def least_certain(self, values: Values, quantity: Quantity) -> tuple[int, float] | None:
        """Return the least certain token, the first of equals, and its value by a quantity; None if none has one."""
        of_all, first = values[quantity.name], self.tokens.start
        if len(self.tokens) == 1:  # as nearly always
            return None if (only := of_all[first]) is None else (first, only)
        known = [(token, value) for token in self.tokens if (value := of_all[token]) is not None]
        return max(known, key=lambda one: -quantity.sign * one[1], default=None)

    def value(self, values: Values, quantity: Quantity) -> float | None:
        """Return the value of the cell's least certain token, as scales are of single tokens; None if it has none."""
        found = self.least_certain(values, quantity)
        return found and found[1]


def cells_of(response: str, spans: Sequence[tuple[int, int]]) -> list[Cell]:
    """Cut a response into cells, in reading order; their texts join to the response.

    A character is never cut: one that several tokens share is a cell of its own that shows them all. A token without
    text is a cell too, drawn as ``∎`` where it stands.
    """
    cells = []
    for tokens, placed in groupby(_placed(response, spans), key=itemgetter(0)):
        drawn = tuple(glyph for _, glyph in placed)
        cells.append(Cell(response[drawn[0].start : drawn[-1].end], drawn, tokens))
    return cells


def _placed(response: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[range, Glyph]]:
    """Yield what is drawn, in reading order, each glyph after the tokens that lie over it."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    seen = 0
    for glyph in (*glyphs(response), None):
        first = bisect_right(ends, glyph.start) if glyph else len(spans)
        for token in range(seen, first):  # their text would lie before this glyph, and behind the last one
            yield range(token, token + 1), Glyph(starts[token], starts[token], NO_TEXT, 1, False)
        if glyph:
            seen = bisect_left(starts, glyph.end)
            yield range(first, seen), glyph


def wrap(cells: Sequence[Cell], width: int) -> list[list[tuple[int, Glyph]]]:
    """Break cells into lines of so many columns, at least 16; nothing is left out.

    They are broken after spaces and beside wide characters where possible.

    Returns:
        The lines, each its glyphs from left to right, each glyph after the index of its cell.
    """
    lines: list[list[tuple[int, Glyph]]] = [[]]
    column = breakable = 0  # where the line may be broken last, 0 for nowhere
    for index, cell in enumerate(cells):
        for glyph in cell.glyphs:
            line = lines[-1]
            if glyph.width == 2:
                breakable = len(line)
            while column + glyph.width > width:
                at = breakable or len(line)  # a word that is wider than a line is cut
                lines[-1:] = line[:at], line[at:]
                line = lines[-1]
                column, breakable = sum(moved.width for _, moved in line), 0
            line.append((index, glyph))
            column += glyph.width
            if glyph.newline:
                lines.append([])
                column = breakable = 0
            elif glyph.width == 2 or glyph.shown[-1] == " ":
                breakable = len(line)
    return lines
