"""Labelled spans of responses (steps, claims, facts) in columns: how unsure the model was in each."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tokur_cli.answers.grading import Outcome
from tokur_cli.answers.judging import NULL_LABEL, Labelled
from tokur_cli.commands.evaluate.columns import Columns, Wanted, group_of
from tokur_cli.commands.evaluate.runs import RunsOfFile
from tokur_cli.commands.evaluate.tokens import has_match
from tokur_cli.commands.options.evaluate import EvaluationOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.commands.shared.scored_tokens import scored_tokens
from tokur_cli.records.errors import RecordError, TokurError, UsageError, there_are
from tokur_cli.records.mapping import value_at
from tokur_cli.records.quantity import Orientation
from tokur_cli.records.record import Record
from tokur_cli.records.scan import kind
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.scores.steps import AGGREGATES, Span, aggregates, token_places
from tokur_cli.selection.gathering import known_question

CLAIMS = "claims"

BASELINES: dict[str, Orientation] = {"length": "uncertainty", "position": "uncertainty", "chance": "uncertainty"}
"""What needs no model: how many tokens the span has, how many stand before it, and nothing."""

_OUTCOMES = {True: Outcome.CORRECT.value, False: Outcome.INCORRECT.value, None: NULL_LABEL}


def span_scores(names: str | None) -> dict[str, Orientation]:
    """Return the scores of spans that were asked for, and the baselines: which way each points.

    Args:
        names: comma-separated: quantities such as ``eu``, for all that is computed of them, or single scores such as
            ``eu_mean``; None for all.

    Raises:
        UsageError: an unknown name.
    """
    known = {f"{name}_{how}": quantity.orientation for name, quantity in QUANTITIES.items() for how in AGGREGATES}
    asked = set(known) if names is None else {name.strip() for name in names.split(",")}
    unknown = sorted(asked - known.keys() - QUANTITIES.keys() - BASELINES.keys())
    if unknown:
        names_known = there_are([*QUANTITIES, *known, *BASELINES], *unknown)
        raise UsageError(f"--scores: spans have no {', '.join(unknown)}{names_known}")
    chosen = {score: known[score] for score in known if {score, score.rpartition("_")[0]} & asked}
    return {**chosen, **BASELINES}


@dataclass
class SpanColumns(Columns):
    """The labelled spans of one run.

    Attributes:
        response: number of the response of each span; those of one stand together, in the order of the text.
    """

    response: array[int] = field(default_factory=lambda: array("q"))
    _responses: int = 0

    def add_response(
        self, record: Record, spans: Sequence[tuple[float, str, dict[str, float]]], group: str | None
    ) -> None:
        """Add the spans of a response, each a label, an outcome and scores."""
        question = self._number(known_question(record), record)
        for label, outcome, values in spans:
            self._append(Labelled(record, label, outcome), values, group, question, record.sample)
            self.response.append(self._responses)
        self._responses += 1


class SpanReader:
    """Reads files into columns of spans: runs as of responses.

    Args:
        source: how the files are read.
        options: what is evaluated.
        label_field: the field that holds the labelled spans; None for ``claims``.
        wanted: what is kept of it.
        invalid: what happens to bad records.
    """

    def __init__(
        self,
        source: InputOptions,
        options: EvaluationOptions,
        label_field: str | None,
        wanted: Wanted,
        invalid: InvalidRecords,
    ) -> None:
        self._source, self._options, self._wanted, self._invalid = source, options, wanted, invalid
        self._field = label_field or CLAIMS
        self._tokens = re.compile(options.tokens) if options.tokens is not None else None
        self._without_claims = 0
        self._told: list[str] = []

    def read(self, paths: Sequence[str]) -> list[Columns]:
        """Return the runs of all files.

        Raises:
            RecordError: the first bad record, unless they are skipped.
            TokurError: there are records, but none has labelled spans.
        """
        with Progress(self._invalid.command) as progress:
            progress.start(count_lines(*paths))
            runs: list[Columns] = [run for path in paths for run in self._read_file(path, progress)]
        if self._without_claims and not runs:
            raise TokurError(
                f'no record has labelled spans: give each "{self._field}", '
                'a list such as [{"start": 0, "end": 12, "correct": true}]'
            )
        return runs

    def told(self) -> list[str]:
        """Return what the user should know of what was read, a line each."""
        left_out = [f"left out {self._without_claims:,} responses without labelled spans"] * bool(self._without_claims)
        return [*self._told, *left_out]

    def _read_file(self, path: str, progress: Progress) -> list[SpanColumns]:
        runs = RunsOfFile(path, lambda: SpanColumns(path, self._wanted))
        for item in read_input("evaluate", replace(self._source, path=path)):
            progress.advance(1)
            try:
                if isinstance(item, RecordError):
                    raise item
                self._add(item, runs)
            except RecordError as error:
                self._invalid.skip_or_raise(error)
        self._told += runs.told(grouped=self._options.group_by is not None)
        return runs.named()

    def _add(self, record: Record, runs: RunsOfFile[SpanColumns]) -> None:
        spans = labelled_spans(record, self._field)
        if spans is None:
            self._without_claims += 1
            return
        scores = self._scores(record, [span for span, _ in spans])
        labels = [math.nan if correct is None else float(correct) for _, correct in spans]
        outcomes = [_OUTCOMES[correct] for _, correct in spans]
        group = group_of(record, self._options.group_by) if self._options.group_by is not None else None
        runs.of(record).add_response(record, list(zip(labels, outcomes, scores, strict=True)), group)

    def _scores(self, record: Record, spans: Sequence[Span]) -> list[dict[str, float]]:
        """Return the scores of each span."""
        response = scored_tokens(record, QUANTITIES)
        places = token_places(response.response, response.spans)
        scores: list[dict[str, float]] = []
        for start, end in spans:
            within = [token for token, place in enumerate(places) if start <= place < end]
            counted = [token for token in within if has_match(self._tokens, response.response, response.spans[token])]
            values = {
                name: [math.nan if (value := of[token]) is None else value for token in counted]
                for name, of in response.values.items()
            }
            scores.append(
                {
                    f"{name}_{how}": value
                    for name in values
                    for how, value in aggregates(values[name], QUANTITIES[name].orientation).items()
                }
                | {"length": len(within), "position": sum(place < start for place in places), "chance": 0.0}
            )
        return scores


def labelled_spans(record: Record, path: str) -> list[tuple[Span, bool | None]] | None:
    """Return the labelled spans of a response in the order of its text; None where it has no such field.

    Args:
        record: the record.
        path: the field, dots reaching inward.

    Raises:
        RecordError: they are not a list of ``{"start", "end", "correct"}``, or not within the response.
    """
    try:
        claims = value_at(record.fields, path)
    except LookupError:
        return None
    if claims is None:
        return None
    if not isinstance(claims, list):
        raise record.error(f'"{path}" is {kind(claims)}, not a list of spans')
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
