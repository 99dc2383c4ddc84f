"""The tokens where a response is least sure, with the text around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tokur_cli.records.quantity import Quantity
from tokur_cli.views.heatmap.cells import Cell
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.visible import shorten, width_of


class Unsure(NamedTuple):
    """One of the least sure tokens."""

    cell: int
    token: int
    value: float


def most_unsure(response: HeatmapResponse, cells: Sequence[Cell], quantity: Quantity, count: int) -> list[Unsure]:
    """Return the ``count`` least sure tokens, least sure first, the earlier one where they are even; one per cell."""
    values = response.values[quantity.name]
    ranked: dict[int, Unsure] = {}
    for index, cell in enumerate(cells):
        known = [
            (quantity.doubt(value), -token, value) for token in cell.tokens if (value := values[token]) is not None
        ]
        if known:
            _, negated, value = max(known)
            token = -negated
            # A token that shares a character with its neighbour lies in two cells: keep the one with more of it.
            if token not in ranked or len(cell.text) > len(cells[ranked[token].cell].text):
                ranked[token] = Unsure(index, token, value)
    return sorted(ranked.values(), key=lambda unsure: (-quantity.doubt(unsure.value), unsure.token))[:count]


def context(cells: Sequence[Cell], at: int, width: int) -> tuple[str, str, str]:
    """Return the pictures of the text before a cell, of the cell and of the text after it, on one line.

    Args:
        cells: all cells of the response.
        at: the cell in the middle.
        width: columns for all three together.
    """
    middle = shorten(cells[at].shown, max(1, width // 2))
    room = max(1, (width - width_of(middle)) // 2)
    before, behind = "", ""
    for index in range(at - 1, -1, -1):
        before = cells[index].shown + before
        if width_of(before) > room:
            break
    for index in range(at + 1, len(cells)):
        behind += cells[index].shown
        if width_of(behind) > room:
            break
    return shorten(before, room, keep_end=True), middle, shorten(behind, room)
