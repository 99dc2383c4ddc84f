"""Labelled responses in columns, for their scores to be evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from tokur_cli.answers.equivalence import Outcome
from tokur_cli.answers.grading import Labelled
from tokur_cli.commands.evaluate.reading.columns import Columns, Wanted, scores_of
from tokur_cli.commands.evaluate.reading.runs import RunReader, RunsOfFile
from tokur_cli.commands.options.evaluate import EvaluationOutput
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labelled import Labeller, graded, told_unmarked
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.views.visible import picture, shorten

_EXAMPLES = 3
_MOST_COLUMNS = 60  # of an id, and of the end of a response


class Collector(Protocol):
    """Takes of the records, with their scores, what columns do not keep."""

    def add(self, labelled: Labelled, values: Mapping[str, float]) -> None:
        """Take a record."""


class ResponseReader(RunReader[Labelled]):
    """Reads files into columns of responses."""

    def __init__(
        self,
        source: InputOptions,
        wanted: Wanted,
        invalid: InvalidRecords,
        labels: LabelOptions,
        *,
        collector: Collector | None = None,
    ) -> None:
        super().__init__(source, wanted, invalid)
        self._labels, self._collector = labels, collector
        self._unknown: Counter[str] = Counter()
        self._logged: Counter[bool] = Counter()
        self._unread = _Unread()
        self._unmarked = 0
        self._labelling: Labeller
        self._writer: RecordWriter | None = None

    def read(self, paths: Sequence[str], target: EvaluationOutput | None = None) -> list[Columns]:
        """Return the runs of all files; the records with their labels go to the target's graded file, if it has one."""
        with ExitStack() as stack:
            if target is not None and target.graded is not None:
                self._writer = stack.enter_context(open_output(target.graded, force=target.force, whole=True))
            answers = self.wanted.answers or self._writer is not None
            self._labelling = stack.enter_context(Labeller(self._labels, self.invalid, answers=answers))
            runs = self.read_files(paths)
        for run in runs:
            run.hold(name for other in runs for name in other.scores)
        self.told += self._told_of_responses()
        return runs

    def _told_of_responses(self) -> Iterator[str]:
        for name, count in self._unknown.items():
            yield f"skipped the score {name} of {count:,} records: the catalogue does not know it"
        logged, exact = self._logged[True], self._logged[False]
        if logged and exact:
            yield (
                f"{logged:,} records were scored by the log-probabilities that they came with, {exact:,} by a model "
                "here: their scores may not be comparable; evaluate them apart"
            )
        if self._unread.count:
            yield self._unread.told()
        if self._unmarked:
            yield told_unmarked(self._unmarked) + ': label them by a field "correct" if that is not meant'

    def good(self, items: Iterable[Record | RecordError]) -> Iterator[Labelled]:
        """Yield the records with their labels, without the bad ones."""
        return self._labelling.good(items)

    def add(self, item: Labelled, runs: RunsOfFile) -> None:
        """Add a response, and write it to the graded file."""
        record = item.record
        values = scores_of(record, self._unknown)
        group = self.group(record)
        if self._collector is not None:
            self._collector.add(item, values)
        runs.of(record).add(record, [(item, values)], group)
        if isinstance(run := record.computed("run"), dict):
            self._logged["computed_from" in run] += 1
        if item.outcome == Outcome.NO_ANSWER:
            self._unread.add(record)
        self._unmarked += item.correct is False and item.is_unmarked
        if self._writer is not None:
            self._writer.write(graded(item))


@dataclass(slots=True)
class _Unread:
    """The responses that count as wrong because no answer can be read in them.

    Attributes:
        count: how many there are.
    """

    count: int = 0
    _examples: list[str] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Count a response."""
        self.count += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(_example(record))

    def told(self) -> str:
        """Return how many there are, and the place and the end of the first few, a line each."""
        responses = "1 response has" if self.count == 1 else f"{self.count:,} responses have"
        what = f"{responses} no answer that could be read, and count{'s' if self.count == 1 else ''} as incorrect"
        return "\n".join([f"{what} (--answer REGEX reads them your way), such as", *self._examples])


def _example(record: Record) -> str:
    sample = f", sample {record.sample}" if record.computed("sample") is not None else ""
    name = f" ({shorten(picture(record.id), _MOST_COLUMNS)}{sample})" if record.id is not None else ""
    words = " ".join(record.response[-20 * _MOST_COLUMNS :].split())
    end = shorten(picture(words), _MOST_COLUMNS, keep_end=True)
    return f"{record.source}:{record.line}{name}: {end or 'is empty'}"
