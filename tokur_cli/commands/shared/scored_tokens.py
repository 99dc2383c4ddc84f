"""The tokens of a scored response: where they stand, their values and, on demand, the steps that they make up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tokur_cli.records.encoding import json_type
from tokur_cli.records.record import Record
from tokur_cli.scores.steps import Span, step_spans, tokens_of_steps


@dataclass(frozen=True)
class ScoredTokens:
    """The tokens of a scored response."""

    response: str  # its text
    spans: list[Span]  # code points ``[start, end)`` of it, one pair per token
    values: dict[str, list[float | None]]  # quantities by name, a value per token; None where a token has none
    scored_steps: list[Span] | None  # the steps that it was scored with; None without any

    def steps(self) -> Iterator[tuple[Span, range]]:
        """Yield the steps with the tokens of each: those that the record was scored with, else ``auto`` ones."""
        steps = step_spans(self.response) if self.scored_steps is None else self.scored_steps
        yield from zip(steps, tokens_of_steps(self.response, self.spans, steps), strict=True)


def scored_tokens(record: Record, names: Iterable[str]) -> ScoredTokens:
    """Return the tokens of a scored record, checked, with those of the quantities that it has."""
    arrays, response = token_arrays(record), record.response
    spans = _spans(record, response, arrays)
    values = {name: _values(record, name, arrays[name]) for name in names if name in arrays}
    for name, of_tokens in values.items():
        if len(of_tokens) != len(spans):
            raise record.error(f'"{name}" has {len(of_tokens)} token values but there are {len(spans)} tokens')
    return ScoredTokens(response, spans, values, _scored_steps(record, response))


def token_arrays(record: Record) -> Mapping[str, Any]:
    """Return what a record has of its tokens, unchecked."""
    tokens = record.tokur.get("tokens")
    if isinstance(tokens, dict):
        return tokens
    if tokens is not None:
        raise record.error(f'"tokur.tokens" is {json_type(tokens)}, not an object')
    if "scores" in record.tokur:
        mend = "tokur select --records keeps them" if "selection" in record.tokur else "score it without --no-tokens"
        raise record.error(f'has no token arrays ("tokur.tokens"): {mend}')
    raise record.error("is not scored: run it through tokur score first")


def _spans(record: Record, response: str, tokens: Mapping[str, Any]) -> list[Span]:
    """Return the tokens' spans.

    Starts and ends never decrease. A token without text has an empty span; the tokens of one character share its span;
    text between spans is allowed.
    """
    offsets = tokens.get("offsets")
    if not isinstance(offsets, list):
        raise record.error(f'"tokur.tokens.offsets" is {json_type(offsets)}, not a list of [start, end]')
    spans = [(0, 0)]
    for index, span in enumerate(offsets):
        if not (isinstance(span, list) and len(span) == 2 and type(span[0]) is type(span[1]) is int):
            raise record.error(f'"tokur.tokens.offsets"[{index}] is not [start, end]')
        start, end = span
        if not 0 <= start <= end <= len(response):
            raise record.error(f"offsets[{index}] is {span}, outside the response of {len(response)} code points")
        if start < spans[-1][0] or end < spans[-1][1]:
            raise record.error(f"offsets[{index}] is {span}, before the span of the token in front of it")
        spans.append((start, end))
    return spans[1:]


def _values(record: Record, name: str, values: Any) -> list[float | None]:
    if not isinstance(values, list):
        raise record.error(f'"tokur.tokens.{name}" is {json_type(values)}, not a list of numbers')
    if set(map(type, values)) == {float} and math.isfinite(sum(values)):  # which is so of nearly all
        return values
    return [record.number(f'"tokur.tokens.{name}"[{index}]', value) for index, value in enumerate(values)]


def _scored_steps(record: Record, text: str) -> list[Span] | None:
    scored = record.tokur.get("steps")
    if scored is None:
        return None
    if isinstance(scored, list) and all(isinstance(step, dict) for step in scored):
        steps = [(step.get("start"), step.get("end")) for step in scored]
        bounds = [0, *(end for _, end in steps)]
        if all(type(end) is int for end in bounds) and bounds == sorted(bounds) and bounds[-1] == len(text):
            joined = list(pairwise(bounds))
            if joined == steps:
                return joined
    raise record.error('"tokur.steps" are not spans that join to the response: score it again with --steps')
