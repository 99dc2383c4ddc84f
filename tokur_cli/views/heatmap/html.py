"""A heat map as one self-contained web page: no network, many responses, and no script in it but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import IO, Any

from tokur_cli.views.heatmap.alternatives import Alternatives, drawn
from tokur_cli.views.heatmap.cells import Cell, cells_of
from tokur_cli.views.heatmap.colours import Palette, Theme, colour_steps
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale
from tokur_cli.views.heatmap.steps import tally
from tokur_cli.views.visible import NEWLINE, paragraphs, picture, shorten

_STEP_LABEL_COLUMNS = 80


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
    paints when they come near the screen. Token values are whole numbers of a hundredth of what the legend tells apart
    (`_quantum_decimals`), which keeps a page of 300,000 tokens small.

    Args:
        file: a text file in UTF-8.
        responses: what to paint; each must have values for every scale.
        scales: the quantities to switch between; the first one is shown at first.
        title: the page's title.
        scored: with what the responses were scored, in a sentence.
        compare: whether to put the responses in two columns.
    """
    style = _palette_css({scale.palette: None for scale in scales}) + _asset("page.css")
    script = _asset("page.js")
    head, _, tail = _asset("page.html").partition("{data}")
    told = {"title": _escape(picture(title)), "scored": _escape(picture(scored))}
    for name, text in {"policy": _policy(style, script), "style": style, **told}.items():
        head = head.replace("{" + name + "}", text)
    file.write(head)
    file.write(_json({"compare": compare, "quantities": [_scale_data(scale) for scale in scales]}))
    for response in responses:
        file.write("\n" + _json(_head_data(response, scales)) + "\n" + _json(_tokens_data(response, scales)))
    file.write(tail.replace("{script}", script))


def _asset(name: str) -> str:
    return files("tokur_cli.views.heatmap").joinpath("page", name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return the policy of a page that has this style, this script and nothing else."""

    def of(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; script-src '{of(script)}'; style-src '{of(style)}'; base-uri 'none'; form-action 'none'"
    )


def _escape(text: str) -> str:
    """Return text that can stand between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _json(data: Any) -> str:
    """Return JSON that cannot end or escape the script element it stands in."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _quantum_decimals(scale: Scale) -> int:
    return scale.decimals + 2


def _quanta(values: Sequence[float | None], scale: Scale) -> list[int | None]:
    per_unit = 10 ** _quantum_decimals(scale)
    return [None if value is None else round(value * per_unit) for value in values]


def _palette_css(palettes: Iterable[Palette]) -> str:
    """Return the colours of the eight steps, sure to unsure, in both themes, for what has ``data-palette``."""

    def variables(palette: Palette, theme: Theme) -> str:
        steps = enumerate(colour_steps(palette, theme))
        return ";".join(f"--step{step}:{back};--ink{step}:{ink}" for step, (back, ink) in steps)

    classes = "".join(f".step{step}{{background:var(--step{step});color:var(--ink{step})}}" for step in range(8))
    rules = []
    for palette in palettes:
        light, dark, here = variables(palette, "light"), variables(palette, "dark"), f"[data-palette={palette}]"
        rules.append(
            f"{here}{{{light}}}@media(prefers-color-scheme:dark){{:root:not([data-theme=light]) {here}{{{dark}}}}}"
            f":root[data-theme=dark] {here}{{{dark}}}"
        )
    return "".join(rules) + classes + "\n"


def _scale_data(scale: Scale) -> dict[str, Any]:
    quantity = scale.quantity
    return {
        "name": picture(quantity.name),
        "label": picture(quantity.label),
        "unit": quantity.unit,
        "confidence": quantity.orientation == "confidence",
        "aggregate": quantity.aggregate,
        "scores": [picture(name) for name in quantity.scores],
        # Rounded as the values are, or a value at an end could land beyond it.
        "ends": _quanta([scale.sure, scale.unsure], scale),
        "quantum": _quantum_decimals(scale),
        "edges": [scale.format(edge) for edge in scale.edges],
        "decimals": scale.decimals,
        "origin": scale.origin,
        "palette": scale.palette,
    }


def _head_data(response: HeatmapResponse, scales: Sequence[Scale]) -> dict[str, Any]:
    return {
        "id": picture(response.id),
        "sample": response.sample,
        "question": paragraphs(response.question or ""),
        "correct": response.correct,
        "answer": None if response.answer is None else picture(response.answer),
        "reference": None if response.reference is None else picture(response.reference),
        "scores": [[picture(name), f"{value:.4g}"] for name, value in response.scores.items() if value is not None],
        "unknown": [picture(name) for name, value in response.scores.items() if value is None],
        "length": len(response.response),
        "doubts": [tally(response.values[scale.quantity.name], scale.quantity)[2] for scale in scales],
    }


def _tokens_data(response: HeatmapResponse, scales: Sequence[Scale]) -> dict[str, Any]:
    cells = cells_of(response.response, response.spans)
    one_to_one = [cell.tokens for cell in cells] == [range(token, token + 1) for token in range(len(response.spans))]
    steps = [
        [tokens.start, tokens.stop, _label(response.response[start:end])] for (start, end), tokens in response.steps
    ]
    return {
        "cells": [_drawn(cell) for cell in cells],
        "tokens": None if one_to_one else [[cell.tokens.start, len(cell.tokens)] for cell in cells],
        "steps": steps,
        "values": [_quanta(response.values[scale.quantity.name], scale) for scale in scales],
        "others": {token: _others_data(others) for token, others in response.alternatives.items()},
    }


def _others_data(others: Alternatives) -> list[Any]:
    """Return the texts, p and p̄ of a token's alternatives in thousandths, and the draws' own.

    Of a draw it is the text's place in the list, if it is there.
    """
    places = {text: place for place, text in reversed(list(enumerate(others.texts)))}
    return [
        [drawn(text) for text in others.texts],
        *(None if p is None else [one and round(1000 * one) for one in p] for p in (others.p, others.p_mean)),
        [places.get(text, drawn(text)) for text in others.draws],
    ]


def _drawn(cell: Cell) -> str:
    return cell.shown if NEWLINE not in cell.shown else "".join(u.shown + "\n" * u.newline for u in cell.glyphs)


def _label(text: str) -> str:
    return shorten(picture(" ".join(text.split())), _STEP_LABEL_COLUMNS)
