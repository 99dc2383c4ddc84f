"""``tokur evaluate``: scored records in, how well each score tells right from wrong out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tokur_cli.answers.code.execution import Execution, probe, run_all
from tokur_cli.answers.grading import Grader
from tokur_cli.commands.evaluate.columns import Columns, Wanted, group_of, scores_of
from tokur_cli.commands.evaluate.difficulty import failures_of, group_by_difficulty
from tokur_cli.commands.evaluate.fitting import Fitting, results_options
from tokur_cli.commands.evaluate.results import Results, as_rows, evaluate_runs
from tokur_cli.commands.evaluate.runs import check_runs
from tokur_cli.commands.evaluate.spans import SpanReader, span_scores
from tokur_cli.commands.evaluate.tables import as_csv, heading, left_out, reasons, tables
from tokur_cli.commands.evaluate.tokens import scores_of_matches
from tokur_cli.commands.evaluate.worst import show_worst
from tokur_cli.commands.options.evaluate import EvaluationOptions, EvaluationOutput
from tokur_cli.commands.options.fit import FitOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.labels import Labelled, Labeller, graded, told_unmarked
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError, UsageError, there_are
from tokur_cli.records.outputs import check_target, writing_whole
from tokur_cli.records.record import Record
from tokur_cli.records.scan import kind
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.catalogue import ALL, CATALOGUE, DEFAULT, choose_scores
from tokur_cli.scores.steps import Orientation
from tokur_cli.views.tables import latex, print_table, table_console

COMMAND = "evaluate"


def evaluate(
    paths: Sequence[str],
    source: InputOptions,
    options: EvaluationOptions,
    fit: FitOptions,
    target: EvaluationOutput,
) -> None:
    """Evaluate the scores of one or several files, or fit a calibration to them and evaluate its probabilities.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    if len(set(paths)) < len(paths):
        raise UsageError("a file is given twice: each is a run of its own")
    if options.worst is not None:
        if fit.file is not None:
            raise UsageError("--worst shows records, --fit is made of all: run tokur evaluate twice")
        show_worst(paths, source, options, target, options.worst)
        return
    fitting = _fitting(options, fit, target)
    if fitting is None:
        wanted = _wanted(options, target)
    else:
        options = results_options(options, fitting)
        wanted = Wanted(fitting.orientations, options.group_by)
    if target.plots is not None:
        from tokur_cli.views.plots import require_matplotlib

        require_matplotlib()
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    if options.level == "step":
        runs = _read_spans(paths, source, options, wanted, invalid)
    else:
        runs = _read_responses(paths, _Reading(wanted, options, source, invalid, fitting), target)
        if runs and options.difficulty is not None:
            _group_by_difficulty(runs, options.difficulty, source, options, target, invalid)
    if not runs:
        invalid.finish(none_of=", ".join(map(display_name, paths)))
        return
    if fitting is None and (apart := check_runs(runs)):
        say(COMMAND, f"{apart:,} questions are not in all {len(runs)} runs, whose figures are averaged")
    scored = runs[0]
    if fitting is not None:
        runs = [fitting.hold_out(runs)]
    names = _present(runs, options) if fitting is None else list(fitting.methods)
    if not names and target.graded is None:
        if options.tokens is not None:
            raise TokurError(f"--tokens {options.tokens}: no record has a score of tokens that match")
        raise TokurError("no record has a score: run tokur score first, or give --graded FILE to label the records")
    with Progress(COMMAND) as progress:
        progress.say("computing metrics and intervals")
        results = evaluate_runs(runs, names, options, {} if fitting is None else fitting.methods)
    if fitting is not None:
        with writing_whole(fitting.file) as file:
            file.write(fitting.calibration(scored, results).as_json())
        say(COMMAND, f"{fitting.file} has {fitting.described}")
        if warning := fitting.warning(scored, results):
            say(COMMAND, warning)
    if names:
        _say_left_out(results, runs)
        _write(results, target)
    else:  # grading may have been all that was wanted
        for line in (f"no record has a score; graded {heading(results)}", *left_out(results)):
            say(COMMAND, line)
    if names and target.plots is not None:
        from tokur_cli.commands.evaluate.plots import write_plots

        write_plots(runs, results, target.plots)
    invalid.finish()


def _fitting(options: EvaluationOptions, fit: FitOptions, target: EvaluationOutput) -> Fitting | None:
    """Return the calibration that is asked for, yet to be fitted.

    Raises:
        UsageError: its file may not be written, or it cannot be made so.
    """
    if fit.file is not None or target.graded is None:
        check_target(fit.file, force=target.force)
    if fit.file == STDIN and target.path is None:
        raise UsageError("--fit - would mix the calibration and the results: give one of them a file")
    return None if fit.file is None else Fitting(fit.file, fit, options.seed)


def _wanted(options: EvaluationOptions, target: EvaluationOutput) -> Wanted:
    """Return what is kept of records, or of their spans.

    Raises:
        UsageError: an unknown score, or an option that does not go with the level.
    """
    scores = span_scores(options.scores) if options.level == "step" else _response_scores(options)
    if options.versus is not None and options.versus not in scores:
        raise UsageError(f"--versus {options.versus}: there is no such score{there_are(scores, options.versus)}")
    if options.level == "step":
        for option, path in (("--graded", target.graded), ("--plot", target.plots)):
            if path is not None:
                raise UsageError(f"{option} is for whole responses, not for --level step")
    return Wanted(scores, options.group_by, answers=bool(options.sizes))


def _response_scores(options: EvaluationOptions) -> dict[str, Orientation]:
    asked = choose_scores(ALL if options.scores is None else options.scores)
    scores = [score for score in CATALOGUE.values() if score in asked or score.name == options.versus]
    if options.tokens is not None:
        named = scores if options.scores not in (None, ALL) else [s for s in scores if s.name == options.versus]
        if beyond := [score.name for score in named if not score.default]:
            raise UsageError(f"--tokens: values of tokens do not give {', '.join(beyond)}: leave it out")
        scores = [score for score in scores if score.default]
    return {score.name: score.orientation for score in scores}


def _group_by_difficulty(
    runs: Sequence[Columns],
    count: int,
    source: InputOptions,
    options: EvaluationOptions,
    target: EvaluationOutput,
    invalid: InvalidRecords,
) -> None:
    if options.difficulty_from is None:
        failures = [failures_of(run, count) for run in runs]
    else:
        reading = _Reading(Wanted({}), options, source, invalid, None)
        telling = reading.read([options.difficulty_from], replace(target, graded=None, force=False))
        known = {name: failed for run in telling for name, failed in failures_of(run, count).items()}
        failures = [known] * len(runs)
    group_by_difficulty(runs, failures, count)


def _read_responses(paths: Sequence[str], reading: _Reading, target: EvaluationOutput) -> list[Columns]:
    runs = reading.read(paths, target)
    reading.say_unknown()
    reading.say_mixed()
    reading.say_unmarked()
    reading.say_without_match()
    return runs


def _read_spans(
    paths: Sequence[str], source: InputOptions, options: EvaluationOptions, wanted: Wanted, invalid: InvalidRecords
) -> list[Columns]:
    reader = SpanReader(source, options, wanted, invalid)
    with Progress(COMMAND) as progress:
        runs = reader.read(paths, progress)
    if reader.without_claims:
        say(COMMAND, f"left out {reader.without_claims:,} responses without labelled spans")
    return runs


class _Reading:
    """Reads files into columns: one run a file, and within a file one for each seed that it was scored under."""

    def __init__(
        self,
        wanted: Wanted,
        options: EvaluationOptions,
        source: InputOptions,
        invalid: InvalidRecords,
        fitting: Fitting | None,
    ) -> None:
        self._wanted, self._options, self._fitting = wanted, options, fitting
        self._source, self._invalid = source, invalid
        self._unknown: Counter[str] = Counter()
        self._logged: Counter[bool] = Counter()
        self._tokens = None if options.tokens is None else re.compile(options.tokens)
        self._unmarked = self._without_match = 0
        self._runs_code = False

    def read(self, paths: Sequence[str], target: EvaluationOutput) -> list[Columns]:
        """Return the runs of all files; the records with their labels go to the graded file."""
        runs: list[Columns] = []
        with ExitStack() as stack:
            grader = stack.enter_context(Grader())
            writer = None
            if target.graded is not None:
                writer = stack.enter_context(open_output(target.graded, force=target.force, whole=True))
            progress = stack.enter_context(Progress(COMMAND))
            counts = [count_lines(path) for path in paths]
            progress.start(None if None in counts else sum(count or 0 for count in counts))
            may_run_code = self._options.allow_code_execution or self._options.unsafe_code_execution
            labeller = Labeller(
                grader,
                field=self._options.label_field,
                run_code=self._run_code if may_run_code else None,
                answers=self._wanted.answers or writer is not None,
                on_error=self._invalid.skip_or_raise,
                unsafe_rules=self._options.unsafe_code_execution,
            )
            for path in paths:
                runs += self._read_file(path, labeller, writer, progress)
            self._unmarked = labeller.unmarked
        return runs

    def _read_file(
        self, path: str, labeller: Labeller, writer: RecordWriter | None, progress: Progress
    ) -> list[Columns]:
        found: dict[object, Columns] = {}
        for labelled in labeller.label(read_input(replace(self._source, path=path))):
            try:
                self._add(labelled, path, found)
            except RecordError as error:
                self._invalid.skip_or_raise(error)
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

    def _run_code(self, programs: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Execution]:
        isolated = not self._options.unsafe_code_execution
        if not self._runs_code:
            say(COMMAND, f"HumanEval tests run {probe(isolated=isolated)}")
            self._runs_code = True
        return run_all(programs, isolated=isolated)

    def _add(self, labelled: Labelled, path: str, found: dict[object, Columns]) -> None:
        record = labelled.record
        run = record.computed("run")
        seed = run.get("seed") if isinstance(run, dict) else None
        if isinstance(seed, list | dict):
            raise record.error(f'"tokur.run.seed" is {kind(seed)}, not a number')
        if isinstance(run, dict):
            self._logged["computed_from" in run] += 1
        values = self._scores(record)
        group = group_of(record, self._options.group_by) if self._options.group_by is not None else None
        if self._fitting is not None:
            self._fitting.add(labelled, values)
        if seed is None:  # nothing was drawn for it: it belongs to whatever run there is
            seed = next(iter(found), None)
        elif None in found:
            found[seed] = found.pop(None)
        if seed not in found:
            found[seed] = Columns(path, self._wanted)
        found[seed].add(labelled, values, group)

    def _scores(self, record: Record) -> dict[str, float]:
        if self._tokens is None or not self._wanted.scores:
            return scores_of(record, self._unknown)
        values = scores_of_matches(record, [CATALOGUE[name] for name in self._wanted.scores], self._tokens)
        self._without_match += values is None
        return values or {}

    def say_without_match(self) -> None:
        """Say how many records have no score since none of their tokens has a match."""
        if self._without_match:
            say(COMMAND, f"{self._without_match:,} records have no score: no token matches {self._options.tokens}")

    def say_unknown(self) -> None:
        """Say which scores the catalogue does not know."""
        for name, count in self._unknown.items():
            say(COMMAND, f"left out the score {name} of {count:,} records: the catalogue does not know it")

    def say_unmarked(self) -> None:
        """Say if responses count as wrong that may well be right, in words."""
        if self._unmarked:
            say(COMMAND, told_unmarked(self._unmarked) + ': label them by a field "correct" if that is not meant')

    def say_mixed(self) -> None:
        """Say if scores of a model stand beside those of ``score --from-logprobs``, which another one may have made."""
        logged, exact = self._logged[True], self._logged[False]
        if logged and exact:
            say(
                COMMAND,
                f"{logged:,} records were scored by the log-probabilities that they came with, {exact:,} by a model "
                "here: their scores may not be comparable; evaluate them apart",
            )


def _present(runs: Sequence[Columns], options: EvaluationOptions) -> list[str]:
    """Return the scores to evaluate: those asked for, or all that any record has.

    Raises:
        TokurError: no record has a score that was asked for.
    """
    having = {name for run in runs for name, values in run.scores.items() if any(value == value for value in values)}
    names = [name for name in runs[0].scores if name in having]
    if options.versus is not None and options.versus not in having:
        raise TokurError(f"--versus {options.versus}: no record has this score")
    if options.scores not in (None, ALL, DEFAULT):
        if options.level == "response":
            missing = [score.name for score in choose_scores(options.scores) if score.name not in having]
        else:  # a quantity stands for all that is computed of it
            having |= {name.rpartition("_")[0] for name in having}
            missing = [name for name in map(str.strip, options.scores.split(",")) if name not in having]
        if missing:
            raise TokurError(f"--scores: no record has {', '.join(missing)}: run tokur score first")
    return names


def _say_left_out(results: Results, runs: Sequence[Columns]) -> None:
    if not results.overall.records:
        raise TokurError("; ".join(["no record has a label", *left_out(results)]))
    for line in (*left_out(results), *reasons(results)):
        say(COMMAND, line)
    without = sum(name is None for run in runs for name in run.group)
    if without:
        lacking = results.options.group_by or f"{results.options.difficulty} labelled samples of their question"
        say(COMMAND, f"left out of the groups: {without:,} records without {lacking}")


def _write(results: Results, target: EvaluationOutput) -> None:
    if target.is_table:
        with writing_whole(target.path or STDIN) as file, table_console(file) as console:
            console.print(heading(results))
            console.print()
            for table in tables(results):
                print_table(table, console)
        return
    if target.form == "latex":
        text = f"% {heading(results)}\n" + "\n".join(map(latex, tables(results)))
    elif target.form == "csv":
        text = as_csv(as_rows(results))
    else:
        text = "".join(encode_value(row).decode("utf-8") + "\n" for row in as_rows(results))
    with writing_whole(target.path or STDIN) as file:
        file.write(text)
