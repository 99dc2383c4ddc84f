"""A heat map as one self-contained web page: no network, many responses, and no script in it but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import IO, Any

from tokur_cli.views.heatmap.cells import Cell, cells_of
from tokur_cli.views.heatmap.response import Alternatives, HeatmapResponse, drawn, least_certain, uncertainty_of
from tokur_cli.views.heatmap.scale import Scale
from tokur_cli.views.heatmap.style import BACKGROUNDS, INKS, STEPS, Theme
from tokur_cli.views.visible import paragraphs, picture, shorten

_TOP = 5
_LABEL_COLUMNS = 80
_NO_VALUE, _NO_TOKEN, _STEPS = "-", " ", "01234567ha"
"""Marks of cells; those of steps by their numbers, so that the one of −1 is the last."""


def write_html(
    file: IO[str],
    responses: Iterable[HeatmapResponse],
    scales: Sequence[Scale],
    *,
    title: str = "tokur heatmap",
    scored: str = "",
    compare: bool = False,
) -> None:
    """Write a page that paints responses, one after the other, so that any number fits in memory.

    The page holds each response as two lines of JSON: what the list needs, and the tokens, which the browser reads and
    paints when they come near the screen. Steps of colours, sums and what is least certain are computed here.

    Each response has values for every scale, the first of which is shown at first. ``scored`` says with what they were
    scored; to ``compare`` them they are put in two columns.
    """
    style, script, page = _step_css() + _asset("page.css"), _asset("page.js"), _asset("page.html")
    head, tail = page.split("{data}")
    said = {"title": escape(picture(title), quote=False), "scored": escape(picture(scored), quote=False)}
    file.write(head.format(policy=_policy(script, style), style=style, **said))
    file.write(_json({"compare": compare, "quantities": [_scale_data(scale) for scale in scales]}))
    for response in responses:
        file.write("\n" + _json(_head_data(response, scales)) + "\n" + _json(_tokens_data(response, scales)))
    file.write(tail.replace("{script}", script))


def _asset(name: str) -> str:
    return files("tokur_cli.views.heatmap").joinpath("page", name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    """Return the policy of a page that has this script, this style and nothing else."""
    ours, styles = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style))
    sources = f"script-src 'sha256-{ours}'; style-src 'sha256-{styles}'"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def _json(data: Any) -> str:
    """Return JSON that cannot end or escape the script element it stands in."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _step_css() -> str:
    """Return the colours of the eight steps, certain to uncertain, in both themes."""

    def rules(theme: Theme) -> str:
        colours = zip(range(STEPS), BACKGROUNDS[theme], INKS[theme], strict=True)
        return "".join(f".step{step}{{background:{back};color:{ink}}}" for step, back, ink in colours)

    return f"{rules('light')}@media(prefers-color-scheme:dark){{{rules('dark')}}}\n"


def _scale_data(scale: Scale) -> dict[str, Any]:
    quantity = scale.quantity
    name, what = picture(quantity.name), "Sum" if quantity.aggregate == "sum" else "Mean"
    return {
        "name": name,
        "label": f"{picture(quantity.label)}, {quantity.unit}",
        "edges": [scale.format(edge) for edge in scale.edges],
        "decimals": scale.decimals + 2,
        "origin": scale.origin,
        "steps": f"{what} of {name} by step, ▶ the least certain",
    }


def _head_data(response: HeatmapResponse, scales: Sequence[Scale]) -> dict[str, Any]:
    leading = response.leading_scores([scales[0].quantity])
    others = {name: value for name, value in response.scores.items() if name not in leading}
    uncertainties = [uncertainty_of(response.sums, scale.quantity) for scale in scales]  # that responses are ordered by
    return {
        "title": response.title,
        "question": paragraphs(response.question or ""),
        "correct": response.correct,
        "withheld": response.withheld,
        "verdict": response.verdict,
        "facts": " · ".join(response.facts),
        "scores": [
            [[picture(name), "not known" if value is None else f"{value:.4g}"] for name, value in scores.items()]
            for scores in (leading, others)
        ],
        "length": len(response.response),
        "uncertainties": [None if math.isnan(value) else float(f"{value:.7g}") for value in uncertainties],
    }


def _tokens_data(response: HeatmapResponse, scales: Sequence[Scale]) -> dict[str, Any]:
    cells = cells_of(response.response, response.spans)
    one_to_one = [cell.tokens for cell in cells] == [range(token, token + 1) for token in range(len(response.spans))]
    return {
        "cells": ["".join(glyph.shown + "\n" * glyph.newline for glyph in cell.glyphs) for cell in cells],
        "tokens": None if one_to_one else [[cell.tokens.start, len(cell.tokens)] for cell in cells],
        "values": [_whole_numbers(response.values[scale.quantity.name], scale) for scale in scales],
        "marks": ["".join(_mark(cell, response, scale) for cell in cells) for scale in scales],
        "top": [least_certain(response, cells, scale.quantity, _TOP) for scale in scales],
        "steps": [
            [step.tokens.start, step.tokens.stop, shorten(response.step_text(step), _LABEL_COLUMNS)]
            for step in response.steps
        ],
        "sums": [_sums_data(response, scale) for scale in scales],
        "least": [response.least_certain_step(scale.quantity) for scale in scales],
        "others": {token: _others_data(others) for token, others in response.alternatives.items()},
    }


def _whole_numbers(values: Sequence[float | None], scale: Scale) -> list[int | None]:
    """Return values in units of their last decimal on the page, which keeps a page of 300,000 tokens small.

    None where a value is not known, or too large for this.
    """
    per_unit = 10 ** (scale.decimals + 2)
    whole = (None if value is None else value * per_unit for value in values)
    return [None if value is None or math.isinf(value) else round(value) for value in whole]


def _mark(cell: Cell, response: HeatmapResponse, scale: Scale) -> str:
    if not cell.tokens:
        return _NO_TOKEN
    value = cell.value(response.values, scale.quantity)
    return _NO_VALUE if value is None else _STEPS[scale.step(value)]


def _sums_data(response: HeatmapResponse, scale: Scale) -> list[str] | None:
    """Return what each step is compared by; None for less than two steps, or where no step has a value."""
    quantity = scale.quantity
    if len(response.steps) < 2 or response.least_certain_step(quantity) is None:
        return None
    values = [step.sums[quantity.name][quantity.aggregate] for step in response.steps]
    return ["–" if math.isnan(value) else scale.format(value) for value in values]


def _others_data(others: Alternatives) -> list[Any]:
    """Return the texts, p and p̄ of a token's alternatives in thousandths, and the draws' own texts."""
    return [
        list(map(drawn, others.text)),
        *(None if p is None else [one and round(1000 * one) for one in p] for p in (others.p, others.p_mean)),
        list(map(drawn, others.draws)),
    ]
