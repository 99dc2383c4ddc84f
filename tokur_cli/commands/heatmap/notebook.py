"""A scored record in a notebook: a heat map that stays where the notebook is shared, printed or not trusted."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from tokur_cli.answers.grading import is_correct, label_of
from tokur_cli.commands.heatmap.records import heatmap_response, said_answer
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.scale import ScaleBuilder
from tokur_cli.views.heatmap.style import TerminalStyle
from tokur_cli.views.heatmap.svg import svg_figure
from tokur_cli.views.heatmap.terminal import legend, response_view

_COLUMNS = 96


def picture_of(fields: Mapping[str, Any]) -> str | None:
    """Return an image for HTML, which neither styles nor scripts the page around it; None without values of tokens.

    The colours are of a scale of the record's own, by the first of ``QUANTITIES`` that it has.
    """
    try:
        record = Record.parse(dict(fields), None, None)
        quantity = next(one for one in QUANTITIES.values() if one.name in record.tokur.get("tokens", {}))
        response = heatmap_response(record, [quantity.name], [], correct=_brought(record), answer=said_answer(record))
    except (RecordError, StopIteration, TypeError):
        return None
    scales = ScaleBuilder([quantity])
    scales.add(response)
    if not scales.has_values(quantity.name):
        return None
    style = TerminalStyle(_COLUMNS, theme="light")
    scale = [scales.scale(quantity.name)]
    figure = svg_figure([legend(scale, style), response_view(response, scale, style)], width=_COLUMNS)
    data = base64.b64encode(figure.encode()).decode()
    alt = escape(f"Heat map of the {quantity.label} in: {response.response}")
    return f'<img alt="{alt}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


def _brought(record: Record) -> bool | None:
    """Return whether a record says by itself that its response is correct; None where it does not, or several do."""
    try:
        brought = label_of(record)
    except UsageError:
        return None
    return None if brought is None else is_correct(brought[0])
