"""Labelled spans of responses (steps, claims, facts) in columns: how unsure the model was in each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from tokur_cli.answers.equivalence import Outcome
from tokur_cli.answers.grading import Labelled
from tokur_cli.commands.evaluate.reading.columns import Columns, Wanted
from tokur_cli.commands.evaluate.reading.runs import RunReader, RunsOfFile
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.scored_tokens import scored_tokens
from tokur_cli.records.encoding import json_type
from tokur_cli.records.errors import RecordError, TokurError, UsageError, there_are
from tokur_cli.records.mapping import value_at
from tokur_cli.records.quantity import Orientation
from tokur_cli.records.record import Record
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.scores.steps import AGGREGATES, Span, aggregates, token_places

CLAIMS = "claims"

BASELINES: dict[str, Orientation] = {"length": "uncertainty", "position": "uncertainty", "chance": "uncertainty"}
"""What needs no model: how many tokens the span has, how many stand before it, and nothing."""

_OUTCOMES = {True: Outcome.CORRECT, False: Outcome.INCORRECT, None: Outcome.NULL_LABEL}


def quantity_of(score: str) -> str:
    """Return what a score of a span is computed of: ``eu`` for ``eu_mean``."""
    return score.rpartition("_")[0]


def span_scores(names: str | None) -> dict[str, Orientation]:
    """Return the scores of spans that were asked for, and the baselines: which way each points.

    Args:
        names: comma-separated: quantities such as ``eu``, for all that is computed of them, or single scores such as
            ``eu_mean``; None for all.
    """
    known = {f"{name}_{how}": quantity.orientation for name, quantity in QUANTITIES.items() for how in AGGREGATES}
    asked = set(known) if names is None else {name.strip() for name in names.split(",")}
    unknown = sorted(asked - known.keys() - QUANTITIES.keys() - BASELINES.keys())
    if unknown:
        names_known = there_are([*QUANTITIES, *known, *BASELINES], *unknown)
        raise UsageError(f"--scores: spans have no {', '.join(unknown)}{names_known}")
    chosen = {score: known[score] for score in known if {score, quantity_of(score)} & asked}
    return {**chosen, **BASELINES}


class SpanReader(RunReader[Record]):
    """Reads files into columns of the spans in a field, ``claims`` by default."""

    def __init__(
        self,
        source: InputOptions,
        wanted: Wanted,
        invalid: InvalidRecords,
        *,
        label_field: str | None,
    ) -> None:
        super().__init__(source, wanted, invalid)
        self._field = label_field or CLAIMS
        self._without_claims = 0

    def read(self, paths: Sequence[str]) -> list[Columns]:
        """Return the runs of all files."""
        runs = self.read_files(paths)
        if self._without_claims:
            if not runs:
                raise TokurError(
                    f'no record has labelled spans: give each "{self._field}", '
                    'a list such as [{"start": 0, "end": 12, "correct": true}]'
                )
            self.told.append(f"skipped {self._without_claims:,} responses without labelled spans")
        return runs

    def good(self, items: Iterable[Record | RecordError]) -> Iterator[Record]:
        """Yield the records without the bad ones."""
        return self.invalid.good(items)

    def add(self, item: Record, runs: RunsOfFile) -> None:
        """Add the labelled spans of a response."""
        spans = labelled_spans(item, self._field)
        if spans is None:
            self._without_claims += 1
            return
        scores = self._scores(item, [span for span, _ in spans])
        labels = [
            Labelled(item, math.nan if correct is None else float(correct), _OUTCOMES[correct]) for _, correct in spans
        ]
        group = self.group(item)
        runs.of(item).add(item, zip(labels, scores, strict=True), group)

    def _scores(self, record: Record, spans: Sequence[Span]) -> list[dict[str, float]]:
        """Return the scores of each span."""
        response = scored_tokens(record, QUANTITIES)
        places = token_places(response.response, response.spans)
        scores: list[dict[str, float]] = []
        for start, end in spans:
            within = [token for token, place in enumerate(places) if start <= place < end]
            scores.append(
                {
                    f"{name}_{how}": value
                    for name, values in response.values.items()
                    for how, value in aggregates(_at(within, values), QUANTITIES[name].orientation).items()
                }
                | {"length": len(within), "position": sum(place < start for place in places), "chance": 0.0}
            )
        return scores


def _at(places: Iterable[int], values: Sequence[float | None]) -> list[float]:
    """Return the values of the tokens at some places, NaN where a token has none."""
    return [math.nan if (value := values[place]) is None else value for place in places]


def labelled_spans(record: Record, path: str) -> list[tuple[Span, bool | None]] | None:
    """Return the labelled spans at a dotted path, in the order of the response's text; None where there are none."""
    try:
        claims = value_at(record.fields, path)
    except LookupError:
        return None
    if claims is None:
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
