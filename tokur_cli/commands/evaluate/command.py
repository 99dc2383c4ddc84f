"""``tokur evaluate``: scored records in, how well each score tells right from wrong out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tokur_cli.commands.evaluate.certify import LabelledQuestions, summary
from tokur_cli.commands.evaluate.choice import shown_scores, wanted_scores
from tokur_cli.commands.evaluate.fitting import CalibrationFit
from tokur_cli.commands.evaluate.plots import require_matplotlib, write_plots
from tokur_cli.commands.evaluate.questions import by_question, group_by_difficulty
from tokur_cli.commands.evaluate.reading import Columns, Wanted, check_runs, read_runs
from tokur_cli.commands.evaluate.results import Results, as_rows, evaluate_runs
from tokur_cli.commands.evaluate.tables import heading, left_out, reasons, tables
from tokur_cli.commands.options.evaluate import EvaluationOptions, EvaluationOutput, FitOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import TokurError, UsageError, count_of
from tokur_cli.records.outputs import check_target, writing_whole
from tokur_cli.records.streams import STDIN, display_name, file_id
from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.catalogue import CATALOGUE, score_named
from tokur_cli.views.tables import latex, print_table, table_console

COMMAND = "evaluate"
_UNLABELLED = "no record has a label: --label-field and --reference-field name the fields that have one"


def evaluate(
    paths: Sequence[str],
    source: InputOptions,
    options: EvaluationOptions,
    labels: LabelOptions,
    fit: FitOptions,
    target: EvaluationOutput,
) -> None:
    """Evaluate the scores of one or several files, or fit a calibration to them and evaluate its probabilities.

    Or certify a threshold (``--certify``).
    """
    if len({file_id(path) or path for path in paths}) < len(paths):
        raise UsageError("a file is given twice: each is a run of its own")
    if options.versus is not None and options.level != "step":
        options = replace(options, versus=score_named(options.versus, "--versus").name)
    fitting = _fitting(options, fit, target)
    questions = None if fit.risk is None else LabelledQuestions(fit.by)
    learner = fitting or questions
    wanted = Wanted(learner.orientations, group_by=options.group_by) if learner else wanted_scores(options)
    if target.plots is not None:
        require_matplotlib()
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    collect = learner.add if learner else None
    runs = read_runs(paths, source, wanted, labels, invalid, collect, target.graded)
    if not runs:
        invalid.finish(none_of=", ".join(map(display_name, paths)))
        return
    if learner and len(runs) > 1:
        option = "--fit" if fitting else "--certify"
        raise TokurError(f"{option} takes one run: put its files together, or leave out the records of other seeds")
    if questions:
        _write_certificate(questions, fit, target)
    else:
        if options.level == "question":
            runs = by_question(runs)
        if options.difficulty is not None:
            telling = options.difficulty_from
            others = None if telling is None else read_runs([telling], source, Wanted({}), labels, invalid)
            if others is not None and len(others) > 1:
                raise TokurError(f"--difficulty-from {telling}: was scored under several seeds: leave the others out")
            group_by_difficulty(runs, options.difficulty, others)
        _evaluate(runs, options, fitting, fit.file, target)
    invalid.finish()


def _fitting(options: EvaluationOptions, fit: FitOptions, target: EvaluationOutput) -> CalibrationFit | None:
    """Return the calibration that is asked for, yet to be fitted."""
    if fit.file is None:
        return None
    if CATALOGUE.keys() >= set(fit.file.split(",")):
        raise UsageError(f"--fit {fit.file}: give the file for the calibration, as in --fit FILE --by {fit.file}")
    check_target(fit.file, force=target.force)
    return CalibrationFit(fit, options.seed)


def _write_certificate(questions: LabelledQuestions, options: FitOptions, target: EvaluationOutput) -> None:
    """Write what the labels certify; what cannot be certified ends in an error."""
    assert options.risk is not None
    for line in questions.notes():
        say(COMMAND, line)
    certificate = questions.certificate(options.risk, options.confidence)
    with writing_whole(target.path or STDIN) as file:
        file.write(summary(certificate) + "\n" if target.is_table else certificate.as_json())
    if not target.is_table:
        say(COMMAND, summary(certificate))


def _evaluate(
    runs: list[Columns],
    options: EvaluationOptions,
    fitting: CalibrationFit | None,
    file: str | None,
    target: EvaluationOutput,
) -> None:
    """Evaluate runs, write the calibration into its file, and show the results."""
    aside = None
    if fitting is not None:
        runs, names = [fitting.hold_out(runs[0])], list(fitting.methods)
        options = replace(options, versus=P_CORRECT if len(names) > 1 else None)  # each score's beside it
    else:
        if apart := check_runs(runs):
            say(COMMAND, f"not in all {len(runs)} runs, whose figures are averaged: {count_of(apart, 'question')}")
        names, aside = shown_scores(runs, options)
    if not names and target.graded is None:
        raise TokurError("no record has a score: run tokur score first, or give --graded FILE to label the records")
    with Progress(COMMAND) as progress:
        progress.say("computing metrics and intervals")
        results = evaluate_runs(runs, names, options, {} if fitting is None else fitting.methods)
    if fitting is not None and file is not None:
        with writing_whole(file) as output:
            output.write(fitting.calibration(results).as_json())
        for line in fitting.notes(results):
            say(COMMAND, f"{file}: {line}")
    if not names:  # grading may have been all that was wanted
        for line in (f"no record has a score; graded {heading(results)}", *left_out(results)):
            say(COMMAND, line)
        return
    _say_left_out(results, runs)
    if aside:
        say(COMMAND, aside)
    _write(results, target)
    if target.plots is not None:
        write_plots(runs, results, target.plots)


def _say_left_out(results: Results, runs: Sequence[Columns]) -> None:
    if not results.overall.records:
        raise TokurError("; ".join([_UNLABELLED, *left_out(results)]))
    for line in (*left_out(results), *reasons(results)):
        say(COMMAND, line)
    without = sum(name is None for run in runs for name in run.group)
    if without:
        lacking = results.options.group_by or f"{results.options.difficulty} labelled samples of their question"
        say(COMMAND, f"not in a group: {count_of(without, 'record')} without {lacking}")


def _write(results: Results, target: EvaluationOutput) -> None:
    with writing_whole(target.path or STDIN) as file:
        if target.is_table:
            with table_console(file) as console:
                console.print(heading(results))
                console.print()
                for table in tables(results):
                    print_table(table, console)
        elif target.form == "latex":
            file.write(f"% {heading(results)}\n" + "\n".join(map(latex, tables(results))))
        else:
            file.writelines(encode_value(row).decode("utf-8") + "\n" for row in as_rows(results))
