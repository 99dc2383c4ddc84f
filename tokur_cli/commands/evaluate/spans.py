"""Labelled spans of responses (steps, claims, facts): how unsure the model was in each."""

from __future__ import annotations

import math

from tokur_cli.answers.equivalence import Outcome
from tokur_cli.answers.grading import Labelled
from tokur_cli.commands.shared.scored_tokens import scored_tokens
from tokur_cli.records.encoding import json_type
from tokur_cli.records.errors import UsageError, there_are
from tokur_cli.records.mapping import find_value
from tokur_cli.records.quantity import Orientation
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import ALL
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.scores.steps import AGGREGATES, Span, aggregates, token_places

CLAIMS = "claims"

BASELINES: dict[str, Orientation] = {"length": "uncertainty", "position": "uncertainty", "chance": "uncertainty"}
"""What needs no model: how many tokens the span has, how many stand before it, and nothing."""


def quantity_of(score: str) -> str:
    """Return what a score of a span is computed of: ``eu`` for ``eu_mean``."""
    return score.rpartition("_")[0]


def span_scores(names: str | None) -> dict[str, Orientation]:
    """Return the scores of spans that were asked for, and the baselines: which way each points.

    The names are comma-separated, in any case: quantities such as ``eu``, for all that is computed of them, or single
    scores such as ``eu_mean``; None or ``all`` for all.
    """
    known = {f"{name}_{how}": quantity.orientation for name, quantity in QUANTITIES.items() for how in AGGREGATES}
    asked = {name.strip().lower() for name in (ALL if names is None else names).split(",") if name.strip()}
    if not asked:
        raise UsageError("--scores names none")
    unknown = sorted(asked - known.keys() - QUANTITIES.keys() - BASELINES.keys() - {ALL})
    if unknown:
        names_known = there_are([*QUANTITIES, *known, *BASELINES], *unknown)
        raise UsageError(f"--scores: spans have no {', '.join(unknown)}{names_known}")
    chosen = {score: known[score] for score in known if {score, quantity_of(score), ALL} & asked}
    return {**chosen, **BASELINES}


def span_rows(record: Record, path: str) -> list[tuple[Labelled, dict[str, float]]] | None:
    """Return the labelled spans at a dotted path with their scores, in the order of the text; None without any."""
    spans = labelled_spans(record, path)
    if spans is None:
        return None
    response = scored_tokens(record, QUANTITIES)
    places = token_places(response.response, response.spans)
    rows = []
    for (start, end), correct in spans:
        within = [token for token, place in enumerate(places) if start <= place < end]
        scores = {
            "length": float(len(within)),
            "position": float(sum(place < start for place in places)),
            "chance": 0.0,
        }
        for name, values in response.values.items():
            of_span = [math.nan if (value := values[token]) is None else value for token in within]
            for how, aggregate in aggregates(of_span, QUANTITIES[name].orientation).items():
                scores[f"{name}_{how}"] = aggregate
        label = math.nan if correct is None else float(correct)
        rows.append((Labelled(record, label, Outcome.of(correct)), scores))
    return rows


def labelled_spans(record: Record, path: str) -> list[tuple[Span, bool | None]] | None:
    """Return the labelled spans at a dotted path, in the order of the response's text; None where there are none."""
    if (claims := find_value(record.fields, path)) is None:
        return None
    if not isinstance(claims, list):
        raise record.error(f'"{path}" is {json_type(claims)}, not a list of spans')
    length = len(record.response)
    spans = []
    for index, claim in enumerate(claims):
        start, end, correct = map(claim.get, ("start", "end", "correct")) if isinstance(claim, dict) else (None,) * 3
        if type(start) is not int or type(end) is not int or not (correct is None or type(correct) is bool):
            raise record.error(
                f'"{path}"[{index}] must be {{"start": …, "end": …, "correct": …}}: whole numbers; true, false or null'
            )
        if not 0 <= start < end <= length:
            raise record.error(f'"{path}"[{index}] is [{start}, {end}], outside the response of {length} code points')
        spans.append(((start, end), correct))
    return sorted(spans, key=lambda labelled: labelled[0])
