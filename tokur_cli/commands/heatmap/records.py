"""What a heat map paints of a scored record, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tokur_cli.answers.grading import Grader
from tokur_cli.commands.heatmap.quantities import TOKEN_QUANTITIES
from tokur_cli.commands.shared.labels import brings_label, found_in, is_compared, verdict_of
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.scan import kind
from tokur_cli.scores.steps import Span, step_spans, tokens_of_steps
from tokur_cli.views.heatmap.response import HeatmapResponse


def heatmap_response(
    record: Record, needed: Sequence[str], wanted: Sequence[str], grader: Grader | None = None
) -> HeatmapResponse:
    """Return what is painted of a scored record.

    Args:
        record: the record.
        needed: token quantities that it must have.
        wanted: token quantities that are taken too if it has them.
        grader: compares the answer with the reference where the record does not say whether it is right; None to leave
            that open.

    Raises:
        RecordError: it is not scored, has no token arrays or none of a needed quantity, they do not fit its text, or
            what it has as a label is none.
    """
    tokur = record.tokur
    tokens = _token_arrays(record, tokur)
    spans = _spans(record, tokens)
    values = {name: _values(record, name, tokens[name]) for name in (*needed, *wanted) if name in tokens}
    correct, answer = _verdict(record, tokur, grader)
    turns = record.turns
    text = record.response
    try:
        response = HeatmapResponse(
            id=record.id or f"line {record.line}",
            response=text,
            spans=spans,
            values=values,
            sample=record.sample if "sample" in tokur else None,
            question=turns[-1]["content"] if turns else None,
            scores={name: record.number(f'"tokur.scores.{name}"', value) for name, value in record.scores.items()},
            correct=correct,
            answer=answer,
            reference=record.reference,
        )
        response = replace(response, steps=_steps(record, text, spans))  # spans that fit the text
        for name in needed:
            if name not in values and (others := _with_values(tokens)):
                raise RecordError(f'no token values named "{name}": give --score {",".join(others)}, which there are')
            response.token_values(name)
    except RecordError as error:
        raise record.error(error.message) from None
    return response


def scored_with(record: Record) -> str:
    """Return in words what a record's uncertainties come from: ``MODEL in float32, σ 0.1, rank 8, draws 2, seed 0``.

    What the record does not say is left out.
    """
    run = record.computed("run")
    known = {name: value for name, value in run.items() if value is not None} if isinstance(run, dict) else {}
    model = " in ".join(str(known[name]) for name in ("model", "dtype") if name in known)
    words = {"sigma": "σ {}", "rank": "rank {}", "draws": "draws {}", "sampling": "{}", "seed": "seed {}"}
    return ", ".join([model, *(text.format(known[name]) for name, text in words.items() if name in known)]).strip(", ")


def _token_arrays(record: Record, tokur: dict[str, Any]) -> dict[str, Any]:
    tokens = tokur.get("tokens")
    if isinstance(tokens, dict):
        return tokens
    if "scores" in tokur and tokens is None:
        raise record.error('has no token arrays ("tokur.tokens"): score it without --no-tokens')
    if tokens is None:
        raise record.error("is not scored: run it through tokur score first")
    raise record.error(f'"tokur.tokens" is {kind(tokens)}, not an object')


def _with_values(tokens: Mapping[str, Any]) -> list[str]:
    """Return the quantities of which at least one token has a value."""
    return [
        name
        for name in TOKEN_QUANTITIES
        if isinstance(values := tokens.get(name), list) and any(value is not None for value in values)
    ]


def _spans(record: Record, tokens: dict[str, Any]) -> list[tuple[int, int]]:
    offsets = tokens.get("offsets")
    if not isinstance(offsets, list):
        raise record.error(f'"tokur.tokens.offsets" is {kind(offsets)}, not a list of [start, end]')
    spans = []
    for index, span in enumerate(offsets):
        if not (isinstance(span, list) and len(span) == 2 and all(type(end) is int for end in span)):
            raise record.error(f'"tokur.tokens.offsets"[{index}] is not [start, end]')
        spans.append((span[0], span[1]))
    return spans


def _steps(record: Record, text: str, spans: Sequence[Span]) -> list[tuple[Span, range]]:
    """Return the steps of the text with their tokens: those that the record was scored with, else ``auto`` ones."""
    scored = record.computed("steps")
    steps = step_spans(text) if scored is None else _scored_steps(record, text, scored)
    return list(zip(steps, tokens_of_steps(text, spans, steps), strict=True))


def _scored_steps(record: Record, text: str, scored: Any) -> list[Span]:
    if isinstance(scored, list) and all(isinstance(step, dict) for step in scored):
        steps = [(step.get("start"), step.get("end")) for step in scored]
        bounds = [0, *(end for _, end in steps)]
        if all(type(end) is int for end in bounds) and bounds == sorted(bounds) and bounds[-1] == len(text):
            joined = list(pairwise(bounds))
            if joined == steps:
                return joined
    raise record.error('"tokur.steps" are not spans that join to the response: score it again with --steps')


def _values(record: Record, name: str, values: Any) -> list[float | None]:
    if not isinstance(values, list):
        raise record.error(f'"tokur.tokens.{name}" is {kind(values)}, not a list of numbers')
    return [_number(record, f'"tokur.tokens.{name}"[{index}]', value) for index, value in enumerate(values)]


def _number(record: Record, what: str, value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(number := _float(value)):
        raise record.error(f"{what} is {value if type(value) is float else kind(value)}, not a finite number")
    return number


def _float(value: float) -> float:
    """Return the number as a float: infinity for an integer that is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _verdict(record: Record, tokur: dict[str, Any], grader: Grader | None) -> tuple[bool | None, str | None]:
    """Return whether the response is right, and its answer: as the record says, else by its reference."""
    said = tokur.get("answer")
    said = said if isinstance(said, str) else None
    if brings_label(record):
        return verdict_of(record, said), said
    if grader is None or not record.references:
        return None, said
    found = found_in(record)
    answer = None if found is None else found.text
    if is_compared(record):
        (outcome,) = grader.grade([(answer, record.references)])
        return outcome.correct, said or answer
    return verdict_of(record, answer), said or answer
