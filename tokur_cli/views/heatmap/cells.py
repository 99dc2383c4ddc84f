"""Tokens laid over text: the cells that are painted, and their lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
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


class Break(Enum):
    """Where a line may or must end next to a piece of text."""

    NONE = 0
    BEHIND = 1
    AROUND = 2
    LINE = 3


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
    word: list[tuple[int, str, int]] = []
    for cell, shown, columns, breaks in _pieces(cells):
        if breaks is Break.AROUND:
            column = _place(word, lines, column, width)
            word = []
        word.append((cell, shown, columns))
        if breaks is Break.NONE:
            continue
        column = _place(word, lines, column, width)
        word = []
        if breaks is Break.LINE:
            lines.append([])
            column = 0
    _place(word, lines, column, width)
    return lines


def _pieces(cells: Sequence[Cell]) -> Iterator[tuple[int, str, int, Break]]:
    """Yield (cell, text, columns, breaks) for every glyph."""
    for index, cell in enumerate(cells):
        for glyph in cell.glyphs:
            if glyph.newline:
                breaks = Break.LINE
            elif glyph.shown[-1] == " ":
                breaks = Break.BEHIND
            else:
                breaks = Break.AROUND if glyph.width == 2 else Break.NONE
            yield index, glyph.shown, glyph.width, breaks


def _place(word: list[tuple[int, str, int]], lines: list[list[Run]], column: int, width: int) -> int:
    """Put a word on the last line, or on the next if it does not fit there; one wider than a line is cut."""
    if column and column + sum(columns for _, _, columns in word) > width:
        lines.append([])
        column = 0
    for cell, text, columns in word:
        if column + columns > width:
            lines.append([])
            column = 0
        line = lines[-1]
        if line and line[-1].cell == cell:
            line[-1] = Run(cell, line[-1].text + text, line[-1].width + columns)
        else:
            line.append(Run(cell, text, columns))
        column += columns
    return column
