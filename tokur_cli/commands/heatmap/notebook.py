"""A scored record in a notebook: a heat map that stays where the notebook is shared, printed or not trusted."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from tokur_cli.answers.judging import LabelRule
from tokur_cli.commands.heatmap.records import heatmap_response, said_answer
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.quantity import Quantity
from tokur_cli.records.record import Record
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.cells import cells_of
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import ScaleBuilder
from tokur_cli.views.heatmap.svg import svg_figure
from tokur_cli.views.heatmap.unsure import most_unsure

_COLUMNS = 96
_LEAST_SURE = 5


def picture_of(fields: Mapping[str, Any]) -> str | None:
    """Return an image for HTML, which neither styles nor scripts the page around it; None without values of tokens.

    The colours are of a scale of the record's own, by the first of ``QUANTITIES`` that it has.
    """
    try:
        record = Record.of(dict(fields), None, None)
        quantity = next(one for one in QUANTITIES.values() if one.name in record.computed("tokens", {}))
        response = heatmap_response(record, [quantity.name], [], correct=_brought(record), answer=said_answer(record))
    except (RecordError, StopIteration, TypeError):
        return None
    scales = ScaleBuilder([quantity])
    scales.add(response)
    if not scales.has_values(quantity.name):
        return None
    figure = svg_figure([response], [scales.scale(quantity.name)], columns=_COLUMNS)
    data = base64.b64encode(figure.encode()).decode()
    alt = escape(f"Heat map of the {quantity.label} in: {response.response}")
    image = f'<img alt="{alt}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'
    others = _alternatives(response, quantity)
    return f"{image}<pre>{escape(others)}</pre>" if others else image


def _alternatives(response: HeatmapResponse, quantity: Quantity) -> str:
    """Return what else might have been written at the least sure tokens, a line each; empty where it is not known."""
    cells = cells_of(response.response, response.spans)
    found = [
        (unsure, response.alternatives[unsure.token])
        for unsure in most_unsure(response, cells, quantity, _LEAST_SURE)
        if unsure.token in response.alternatives
    ]
    rows = [
        f"{unsure.token + 1:>5}  »{cells[unsure.cell].shown}«  {others.in_a_line(_COLUMNS)}" for unsure, others in found
    ]
    return "\n".join([f"token  by {quantity.name} the least sure, and the likeliest there", *rows]) if rows else ""


def _brought(record: Record) -> bool | None:
    """Return whether a record says by itself that its response is right; None where it does not, or several do."""
    try:
        brought = LabelRule().brought(record)
    except UsageError:
        return None
    return None if brought is None else brought.correct
