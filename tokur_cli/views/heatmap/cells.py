"""Tokens laid over text: the cells that are painted, and their lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tokur_cli.records.quantity import Quantity
from tokur_cli.views.visible import NO_TEXT, Glyph, glyphs


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of a response that has one colour.

    Args:
        text: the piece, sliced from the response; empty for a token without text.
        glyphs: how it is drawn.
        tokens: the tokens that it shows: one as a rule, several for a character that is made of several tokens, none
            for text between tokens.
    """

    text: str
    glyphs: tuple[Glyph, ...]
    tokens: range

    @property
    def shown(self) -> str:
        """What is drawn, on one line."""
        return "".join(glyph.shown for glyph in self.glyphs)

    def value(self, values: Sequence[float | None], quantity: Quantity) -> float | None:
        """Return the value of the cell's least certain token, as scales are of single tokens; None if it has none."""
        known = [value for token in self.tokens if (value := values[token]) is not None]
        return max(known, key=quantity.uncertainty, default=None)


def cells_of(response: str, spans: Sequence[tuple[int, int]]) -> list[Cell]:
    """Cut a response into cells, in reading order; their texts join to the response.

    A character is never cut: one that several tokens share is a cell of its own that shows them all. A token without
    text is a cell too, drawn as ``∎`` where it stands.

    Args:
        response: the text.
        spans: code points ``[start, end)`` per token, as in `HeatmapResponse`.
    """
    cells: list[Cell] = []
    pending: list[Glyph] = []
    covering = range(0)
    first = after = 0  # the tokens [first, after) lie over the glyph at hand

    def flush() -> None:
        if pending:
            cells.append(Cell(response[pending[0].start : pending[-1].end], tuple(pending), covering))
            pending.clear()

    def add_textless(tokens: range) -> None:
        for token in tokens:
            flush()
            at = spans[token][0]
            cells.append(Cell("", (Glyph(at, at, NO_TEXT, 1, False),), range(token, token + 1)))

    for glyph in glyphs(response):
        seen = after
        while first < len(spans) and spans[first][1] <= glyph.start:
            first += 1
        add_textless(range(seen, first))
        after = max(after, first)
        while after < len(spans) and spans[after][0] < glyph.end:
            after += 1
        if covering != range(first, after):
            flush()
            covering = range(first, after)
        pending.append(glyph)
    flush()
    add_textless(range(after, len(spans)))
    return cells


class Run(NamedTuple):
    """A piece of one cell on one line, with its columns."""

    cell: int
    text: str
    width: int


def wrap(cells: Sequence[Cell], width: int) -> list[list[Run]]:
    """Break cells into lines, after spaces and beside wide characters where possible; nothing is left out.

    Args:
        cells: what to draw.
        width: columns of a line, at least 16.

    Returns:
        The lines, each its runs from left to right, no two neighbours of one cell.
    """
    lines: list[list[Run]] = [[]]
    column = 0
    for word, ends_line in _words(cells):
        if column and column + sum(glyph.width for glyph in word) > width:
            lines.append([])
            column = 0
        for glyph in word:
            if column + glyph.width > width:  # a word that is wider than a line is cut
                lines.append([])
                column = 0
            line = lines[-1]
            if line and line[-1].cell == glyph.cell:
                line[-1] = Run(glyph.cell, line[-1].text + glyph.text, line[-1].width + glyph.width)
            else:
                line.append(glyph)
            column += glyph.width
        if ends_line:
            lines.append([])
            column = 0
    return lines


def _words(cells: Sequence[Cell]) -> Iterator[tuple[list[Run], bool]]:
    """Yield the glyphs of what stays together, with the space behind it, and whether the line ends there."""
    word: list[Run] = []
    for index, cell in enumerate(cells):
        for glyph in cell.glyphs:
            if word and glyph.width == 2:
                yield word, False
                word = []
            word.append(Run(index, glyph.shown, glyph.width))
            if glyph.newline or glyph.width == 2 or glyph.shown[-1] == " ":
                yield word, glyph.newline
                word = []
    yield word, False
