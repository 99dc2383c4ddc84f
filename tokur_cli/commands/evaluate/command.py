"""``tokur evaluate``: scored records in, how well each score tells right from wrong out."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tokur_cli.commands.evaluate.choice import aside_note, shown_scores, wanted_scores
from tokur_cli.commands.evaluate.fitting import CalibrationFit, results_options
from tokur_cli.commands.evaluate.questions import by_question, group_by_difficulty
from tokur_cli.commands.evaluate.reading import Columns, RunReader, Wanted, check_runs
from tokur_cli.commands.evaluate.results import Results, as_rows, evaluate_runs
from tokur_cli.commands.evaluate.tables import heading, left_out, reasons, tables
from tokur_cli.commands.options.evaluate import CertifyOptions, EvaluationOptions, EvaluationOutput, FitOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.outputs import check_target, writing_whole
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.scores.catalogue import CATALOGUE
from tokur_cli.views.tables import latex, print_table, table_console

COMMAND = "evaluate"
_UNLABELLED = "no record has a label: --label-field and --reference-field name the fields that have one"


def evaluate(
    paths: Sequence[str],
    source: InputOptions,
    options: EvaluationOptions,
    labels: LabelOptions,
    fit: FitOptions,
    certify: CertifyOptions,
    target: EvaluationOutput,
) -> None:
    """Evaluate the scores of one or several files, or fit a calibration to them and evaluate its probabilities.

    Or certify a threshold (``--certify``).
    """
    if len({_file(path) for path in paths}) < len(paths):
        raise UsageError("a file is given twice: each is a run of its own")
    if certify.risk is not None:
        from tokur_cli.commands.evaluate.certify import write_certificate

        write_certificate(paths, source, certify, fit.by, labels, target)
        return
    fitting = _fitting(options, fit, target)
    if fitting is None:
        wanted = wanted_scores(options)
    else:
        options = results_options(options, fitting)
        wanted = Wanted(fitting.orientations, group_by=options.group_by)
    if target.plots is not None:
        from tokur_cli.commands.evaluate.plots import require_matplotlib

        require_matplotlib()
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    reader = RunReader(source, wanted, invalid, labels, None if fitting is None else fitting.add)
    runs = reader.read(paths, target.graded, force=target.force)
    for line in reader.notes:
        say(COMMAND, line)
    if options.level == "question":
        runs = by_question(runs)
    if runs and options.difficulty is not None:
        others = RunReader(source, Wanted({}), invalid, labels)
        telling = others.read([options.difficulty_from]) if options.difficulty_from is not None else None
        group_by_difficulty(runs, options.difficulty, telling)
    if not runs:
        invalid.finish(none_of=", ".join(map(display_name, paths)))
        return
    if fitting is None and (apart := check_runs(runs)):
        say(COMMAND, f"{apart:,} questions are not in all {len(runs)} runs, whose figures are averaged")
    scored = runs[0]
    if fitting is not None:
        runs = [fitting.hold_out(runs)]
    names, aside = shown_scores(runs, options) if fitting is None else (list(fitting.methods), [])
    if not names and target.graded is None:
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
        if aside:
            say(COMMAND, aside_note(aside))
        _write(results, target)
    else:  # grading may have been all that was wanted
        for line in (f"no record has a score; graded {heading(results)}", *left_out(results)):
            say(COMMAND, line)
    if names and target.plots is not None:
        from tokur_cli.commands.evaluate.plots import write_plots

        write_plots(runs, results, target.plots)
    invalid.finish()


def _file(path: str) -> object:
    """Return what tells a file from others, by whatever name it is given."""
    try:
        found = os.stat(path)
    except OSError:
        return path
    return found.st_dev, found.st_ino


def _fitting(options: EvaluationOptions, fit: FitOptions, target: EvaluationOutput) -> CalibrationFit | None:
    """Return the calibration that is asked for, yet to be fitted."""
    if fit.file is None:
        return None
    if CATALOGUE.keys() >= set(fit.file.split(",")):
        raise UsageError(f"--fit {fit.file}: give the file for the calibration, as in --fit FILE --by {fit.file}")
    check_target(fit.file, force=target.force)
    return CalibrationFit(fit.file, fit, options.seed)


def _say_left_out(results: Results, runs: Sequence[Columns]) -> None:
    if not results.overall.records:
        raise TokurError("; ".join([_UNLABELLED, *left_out(results)]))
    for line in (*left_out(results), *reasons(results)):
        say(COMMAND, line)
    without = sum(name is None for run in runs for name in run.group)
    if without:
        lacking = results.options.group_by or f"{results.options.difficulty} labelled samples of their question"
        say(COMMAND, f"not in a group: {without:,} record{'s' * (without != 1)} without {lacking}")


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
    else:
        text = "".join(encode_value(row).decode("utf-8") + "\n" for row in as_rows(results))
    with writing_whole(target.path or STDIN) as file:
        file.write(text)
