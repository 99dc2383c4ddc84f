"""``tokur evaluate``: scored records in, how well each score tells right from wrong out."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from tokur_cli.answers.grading import Grader
from tokur_cli.commands.columns import Columns, Wanted, group_names, group_of, scores_of
from tokur_cli.commands.evaluate_tables import as_csv, heading, left_out, reasons, tables
from tokur_cli.commands.findings import Findings, ScalingFindings, Settings, as_rows, find, find_scaling
from tokur_cli.commands.labelling import Labelled, Labeller, graded
from tokur_cli.commands.progress import Progress, count_lines
from tokur_cli.commands.reporting import Invalid, say
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.reader import read_records
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.catalogue import ALL, CATALOGUE, DEFAULT, choose_scores
from tokur_cli.selection.voting import parse_keep
from tokur_cli.views.tables import latex, print_table

COMMAND = "evaluate"

Form = Literal["json", "latex", "csv"]


@dataclass(frozen=True)
class EvaluationOptions:
    """What is evaluated, and how.

    Args:
        scores: comma-separated names; None for all that the records have.
        label_field: the field that holds the label.
        allow_code_execution: whether code is run against the tests of its row.
        bootstrap: resamples for intervals; 0 for none.
        versus: the baseline score.
        group_by: the field whose value tells the group.
        scaling: comma-separated values of N.
        repeats: draws for each N.
        keep: the part of the N that is kept, as a percentage.
        seed: of all random numbers.
    """

    scores: str | None = None
    label_field: str | None = None
    allow_code_execution: bool = False
    bootstrap: int = 1000
    versus: str | None = None
    group_by: str | None = None
    scaling: str | None = None
    repeats: int = 10
    keep: str = "10%"
    seed: int = 0

    @property
    def settings(self) -> Settings:
        """The checked settings.

        Raises:
            UsageError: a value is none of those that it can be.
        """
        if self.versus is not None and self.versus not in CATALOGUE:
            raise UsageError(f"--versus {self.versus}: there is no such score; there are: {', '.join(CATALOGUE)}")
        sizes = parse_sizes(self.scaling) if self.scaling is not None else ()
        return Settings(
            self.bootstrap, self.seed, self.versus, sizes, self.repeats, parse_keep(self.keep), self.group_by
        )


@dataclass(frozen=True)
class EvaluationOutput:
    """Where results go.

    Args:
        path: a file; None for standard output.
        form: None for tables on a terminal, JSONL elsewhere.
        plots: a folder for plots.
        graded: a file for the records with their labels.
    """

    path: str | None = None
    form: Form | None = None
    plots: str | None = None
    graded: str | None = None


def evaluate(
    paths: Sequence[str],
    format: str,
    mapping: FieldMapping,
    skip_invalid: bool,
    options: EvaluationOptions,
    target: EvaluationOutput,
) -> None:
    """Evaluate the scores of one or several files.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    settings = options.settings
    asked = choose_scores(ALL if options.scores is None else options.scores)
    if options.versus is not None:
        asked = [score for score in CATALOGUE.values() if score in asked or score.name == options.versus]
    _check_files(paths, target)
    if target.plots is not None:
        from tokur_cli.views.plots import require_matplotlib

        require_matplotlib()
    invalid = Invalid(COMMAND, skip_invalid)
    wanted = Wanted(tuple(asked), options.group_by, answers=bool(settings.sizes))
    reading = _Reading(wanted, options, format, mapping, invalid)
    runs = reading.read(paths, target.graded)
    reading.say_unknown()
    names = _present(runs, options)
    if not names:
        _without_scores(runs, settings, target)
        invalid.finish()
        return
    groups = group_names(runs, options.group_by) if options.group_by is not None else []
    with Progress(COMMAND) as progress:
        progress.say("computing metrics and intervals")
        findings = [find(runs, names, settings, group) for group in (None, *groups)]
        curves = find_scaling(runs, names, settings) if settings.sizes else None
    _say_left_out(findings[0], runs, options)
    _write(findings, curves, settings, target)
    if target.plots is not None:
        from tokur_cli.commands.evaluate_plots import write_plots

        write_plots(runs, names, findings, curves, settings, target.plots)
    invalid.finish()


def parse_sizes(text: str) -> tuple[int, ...]:
    """The values of N in a comma-separated list, ascending.

    Raises:
        UsageError: it holds something else than whole numbers from 1.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--scaling {text}: give numbers of responses, such as 16,32,64")
    return tuple(sorted({int(part) for part in parts}))


def _check_files(paths: Sequence[str], target: EvaluationOutput) -> None:
    """Refuse files that would be mixed up or written over.

    Raises:
        UsageError: a file has two uses.
    """
    if len(set(paths)) < len(paths):
        raise UsageError("a file is given twice: each is a run of its own")
    if target.graded == STDIN and target.path in (None, STDIN):
        raise UsageError("--graded - would mix records and results: give one of them a file, with -o or --graded")
    if target.path is not None and target.path != STDIN:
        for name in (*paths, *([target.graded] if target.graded else [])):
            if os.path.abspath(name) == os.path.abspath(target.path) or _is_same(name, target.path):
                raise UsageError(f"{target.path}: has another use and would be written over: give another -o FILE")


def _is_same(one: str, other: str) -> bool:
    return os.path.isfile(one) and os.path.isfile(other) and os.path.samefile(one, other)


class _Reading:
    """Reads files into columns: one run a file, and within a file one for each seed that it was scored under."""

    def __init__(
        self, wanted: Wanted, options: EvaluationOptions, format: str, mapping: FieldMapping, invalid: Invalid
    ) -> None:
        self._wanted, self._options = wanted, options
        self._format, self._mapping, self._invalid = format, mapping, invalid
        self._unknown: Counter[str] = Counter()

    def read(self, paths: Sequence[str], graded_path: str | None) -> list[Columns]:
        """The runs of all files; the records with their labels go to the graded file."""
        runs: list[Columns] = []
        with ExitStack() as stack:
            grader = stack.enter_context(Grader())
            writer = None
            if graded_path is not None:
                writer = stack.enter_context(open_output(graded_path, inputs=paths))
            progress = stack.enter_context(Progress(COMMAND))
            counts = [count_lines(path) for path in paths]
            progress.start(None if None in counts else sum(count or 0 for count in counts))
            for path in paths:
                labeller = Labeller(
                    grader,
                    field=self._options.label_field,
                    run_code=self._options.allow_code_execution,
                    answers=self._wanted.answers or writer is not None,
                    met=self._invalid.met,
                )
                runs += self._read_file(path, labeller, writer, progress)
        return runs

    def _read_file(
        self, path: str, labeller: Labeller, writer: RecordWriter | None, progress: Progress
    ) -> list[Columns]:
        found: dict[object, Columns] = {}
        for labelled in labeller.label(read_records(path, format=self._format, mapping=self._mapping)):
            try:
                self._add(labelled, path, found)
            except RecordError as error:
                self._invalid.met(error)
                continue
            if writer is not None:
                writer.write(graded(labelled))
            progress.advance(1)
        if len(found) > 1:
            for seed, columns in found.items():
                columns.name = f"{columns.name}, seed {seed}"
            seeds = ", ".join(map(str, found))
            say(COMMAND, f"{display_name(path)} was scored under the seeds {seeds}: each is a run of its own")
        return list(found.values())

    def _add(self, labelled: Labelled, path: str, found: dict[object, Columns]) -> None:
        record = labelled.record
        tokur = record.tokur
        run = tokur.get("run")
        seed = run.get("seed") if isinstance(run, dict) else None
        values = scores_of(record, tokur.get("scores"), self._unknown)
        group = group_of(record, self._options.group_by) if self._options.group_by is not None else None
        if seed not in found:
            found[seed] = Columns(display_name(path), self._wanted)
        found[seed].add(labelled, values, group)

    def say_unknown(self) -> None:
        """Say which scores the catalogue does not know."""
        for name, count in self._unknown.items():
            say(COMMAND, f"left out the score {name} of {count:,} records: the catalogue does not know it")


def _present(runs: Sequence[Columns], options: EvaluationOptions) -> list[str]:
    """The scores to evaluate: those asked for, or all that any record has.

    Raises:
        TokurError: there is no record, or none of them has a score that was asked for.
    """
    if not runs:
        raise TokurError("the input holds no records")
    having = {name for run in runs for name, values in run.scores.items() if any(value == value for value in values)}
    names = [name for name in runs[0].scores if name in having]
    if options.versus is not None and options.versus not in having:
        raise TokurError(f"--versus {options.versus}: no record has this score")
    if options.scores not in (None, ALL, DEFAULT):
        missing = [score.name for score in choose_scores(options.scores) if score.name not in having]
        if missing:
            raise TokurError(f"--scores: no record has {', '.join(missing)}: run tokur score first")
    return names


def _without_scores(runs: Sequence[Columns], settings: Settings, target: EvaluationOutput) -> None:
    """Records without scores: grading them may have been all that was wanted."""
    if target.graded is None:
        raise TokurError("no record has a score: run tokur score first, or give --graded FILE to label the records")
    findings = find(runs, [], settings)
    say(COMMAND, f"no record has a score; graded {heading(findings)}")
    for line in left_out(findings):
        say(COMMAND, line)


def _say_left_out(findings: Findings, runs: Sequence[Columns], options: EvaluationOptions) -> None:
    if not findings.records:
        raise TokurError("; ".join(["no record has a label", *left_out(findings)]))
    for line in (*left_out(findings), *reasons(findings)):
        say(COMMAND, line)
    without = sum(name is None for run in runs for name in run.group)
    if without:
        say(COMMAND, f"left out of the groups: {without:,} records without {options.group_by}")


def _write(
    findings: Sequence[Findings], curves: ScalingFindings | None, settings: Settings, target: EvaluationOutput
) -> None:
    if target.path is None and target.form is None and sys.stdout.isatty():
        _print(findings, curves, settings)
        return
    rows = as_rows(findings, curves, settings)
    if target.form == "latex":
        text = f"% {heading(findings[0])}\n" + "\n".join(map(latex, tables(findings, curves, settings)))
        data = text.encode("utf-8")
    elif target.form == "csv":
        data = as_csv(rows).encode("utf-8")
    else:
        data = b"".join(chain.from_iterable((encode_value(row), b"\n") for row in rows))
    if target.path is None or target.path == STDIN:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with open(target.path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise TokurError(f"{target.path}: cannot be written: {error.strerror}") from None


def _print(findings: Sequence[Findings], curves: ScalingFindings | None, settings: Settings) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(heading(findings[0]))
    console.print()
    for table in tables(findings, curves, settings):
        print_table(table, console)
    sys.stdout.flush()
