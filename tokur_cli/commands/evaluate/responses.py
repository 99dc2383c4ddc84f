"""Labelled responses in columns, for their scores to be evaluated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from tokur_cli.answers.grading import Outcome
from tokur_cli.answers.judging import Labelled
from tokur_cli.commands.evaluate.columns import Columns, Wanted, group_of, scores_of
from tokur_cli.commands.evaluate.fitting import Fitting
from tokur_cli.commands.evaluate.runs import RunsOfFile
from tokur_cli.commands.evaluate.tokens import scores_of_matches
from tokur_cli.commands.evaluate.unread import Unread
from tokur_cli.commands.options.evaluate import EvaluationOptions, EvaluationOutput
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labelled import Labelling, graded, told_unmarked
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.catalogue import CATALOGUE


class ResponseReader:
    """Reads files into columns of responses: one run a file, and within a file one for each seed.

    Args:
        source: how the files are read.
        options: what is evaluated.
        labels: how responses get their labels.
        wanted: what is kept of them.
        invalid: what happens to bad records.
        fitting: the calibration that is fitted on them; None for none.
    """

    def __init__(
        self,
        source: InputOptions,
        options: EvaluationOptions,
        labels: LabelOptions,
        wanted: Wanted,
        invalid: InvalidRecords,
        fitting: Fitting | None = None,
    ) -> None:
        self._source, self._options, self._labels = source, options, labels
        self._wanted, self._invalid, self._fitting = wanted, invalid, fitting
        self._tokens = None if options.tokens is None else re.compile(options.tokens)
        self._unknown: Counter[str] = Counter()
        self._logged: Counter[bool] = Counter()
        self._unread = Unread()
        self._unmarked = self._without_match = 0
        self._told: list[str] = []

    def read(self, paths: Sequence[str], target: EvaluationOutput | None = None) -> list[Columns]:
        """Return the runs of all files; the records with their labels go to the target's graded file, if it has one.

        Raises:
            RecordError: the first bad record, unless bad ones are skipped.
            TokurError: whatever else ends the reading.
        """
        with ExitStack() as stack:
            writer = None
            if target is not None and target.graded is not None:
                writer = stack.enter_context(open_output(target.graded, force=target.force, whole=True))
            answers = self._wanted.answers or writer is not None
            labelling = stack.enter_context(Labelling(self._labels, self._invalid, answers=answers))
            progress = stack.enter_context(Progress(self._invalid.command))
            progress.start(count_lines(*paths))
            return [run for path in paths for run in self._read_file(path, labelling, writer, progress)]

    def told(self) -> list[str]:
        """Return what the user should know of what was read, a line each."""
        lines = [
            f"left out the score {name} of {count:,} records: the catalogue does not know it"
            for name, count in self._unknown.items()
        ]
        logged, exact = self._logged[True], self._logged[False]
        if logged and exact:
            lines.append(
                f"{logged:,} records were scored by the log-probabilities that they came with, {exact:,} by a model "
                "here: their scores may not be comparable; evaluate them apart"
            )
        if self._unread.count:
            lines.append(self._unread.told())
        if self._unmarked:
            lines.append(told_unmarked(self._unmarked) + ': label them by a field "correct" if that is not meant')
        if self._without_match:
            lines.append(f"{self._without_match:,} records have no score: no token matches {self._options.tokens}")
        return self._told + lines

    def _read_file(
        self, path: str, labelling: Labelling, writer: RecordWriter | None, progress: Progress
    ) -> list[Columns]:
        runs = RunsOfFile(path, lambda: Columns(path, self._wanted))
        for labelled in labelling.good(read_input("evaluate", replace(self._source, path=path))):
            try:
                self._add(labelled, runs)
            except RecordError as error:
                self._invalid.skip_or_raise(error)
                continue
            if labelled.outcome == Outcome.NO_ANSWER.value:
                self._unread.add(labelled.record)
            self._unmarked += labelled.correct is False and labelled.is_unmarked
            if writer is not None:
                writer.write(graded(labelled))
            progress.advance(1)
        self._told += runs.told(grouped=self._options.group_by is not None)
        return runs.named()

    def _add(self, labelled: Labelled, runs: RunsOfFile[Columns]) -> None:
        record = labelled.record
        values = self._scores(record)
        group = group_of(record, self._options.group_by) if self._options.group_by is not None else None
        if self._fitting is not None:
            self._fitting.add(labelled, values)
        runs.of(record).add(labelled, values, group)
        if isinstance(run := record.computed("run"), dict):
            self._logged["computed_from" in run] += 1

    def _scores(self, record: Record) -> dict[str, float]:
        if self._tokens is None or not self._wanted.scores:
            return scores_of(record, self._unknown)
        values = scores_of_matches(record, [CATALOGUE[name] for name in self._wanted.scores], self._tokens)
        self._without_match += values is None
        return values or {}
