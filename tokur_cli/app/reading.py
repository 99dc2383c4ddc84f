"""The options of the commands that read scored records: select, evaluate and heatmap."""

from __future__ import annotations

from typing import Annotated

import typer

from tokur_cli.app import options as opt
from tokur_cli.app.inputs import input_path
from tokur_cli.commands.reporting import reporting
from tokur_cli.records.errors import UsageError


def select(
    scored: Annotated[
        str | None,
        typer.Argument(
            help="JSONL of scored responses, plain, gzip or zstd; - or nothing for standard input.", show_default=False
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="SCORE",
            help="Score that ranks the responses. Names mean what they mean in the records: eu_mean is per token, as "
            "in the paper's selection; eu is the sum, which favours short responses.",
            rich_help_panel=opt.SELECTION,
        ),
    ] = "eu_mean",
    keep: opt.Keep = "10%",
    method: Annotated[
        opt.MethodChoice,
        typer.Option(
            help="maj: the answer that most kept responses give; wbon: weighted votes; bon: the single best response. "
            "Plain majority is --keep 100% --method maj and needs no score.",
            rich_help_panel=opt.SELECTION,
        ),
    ] = opt.MethodChoice.maj,
    weight: Annotated[
        opt.WeightChoice | None,
        typer.Option(
            help="Weights of wbon. exp: e^(c - c_best), c the score, negated where lower is better; score: c / c_best, "
            "or c_best / c for uncertainties, log-likelihoods and lengths; rank: K, K-1, … 1. Default: exp.",
            rich_help_panel=opt.SELECTION,
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--n",
            "-n",
            min=1,
            help="Select from N responses a question, drawn without replacement. Default: all.",
            rich_help_panel=opt.SELECTION,
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the draw; it goes with the id and the sample.", rich_help_panel=opt.SELECTION)
    ] = 0,
    grouped: Annotated[
        bool,
        typer.Option(
            "--grouped",
            help="A question's responses stand together: choose as soon as they end.",
            rich_help_panel=opt.INPUT,
        ),
    ] = False,
    records: Annotated[
        bool,
        typer.Option("--records", help="Write all responses back, with tokur.select.", rich_help_panel=opt.OUTPUT),
    ] = False,
    output: opt.Output = None,
    format: opt.Format = "auto",
    question_field: opt.QuestionField = None,
    response_field: opt.ResponseField = None,
    reference_field: opt.ReferenceField = None,
    id_field: opt.IdField = None,
    requests: opt.Requests = None,
    skip_invalid: opt.SkipInvalid = False,
) -> None:
    """Choose the best of N answers: keep the most confident responses, let them vote.

    Responses of a question have its id, or without ids the same prompt. Equal
    answers (1/2, 0.5) vote together; no answer never wins while another is there.
    Ties go to the more confident response, then to the lower sample: the order of
    the input changes nothing. A response without the score is never kept where a
    score is needed. Where there are references, accuracies follow on standard
    error: of the choice, Pass@1, plain majority and oracle Pass@N.
    """
    with reporting("select"):
        source = input_path(scored)
        from tokur_cli.commands import arguments
        from tokur_cli.commands.select import SelectOptions
        from tokur_cli.commands.select import select as run
        from tokur_cli.records.mapping import FieldMapping

        mapping = FieldMapping(question_field, response_field, reference_field, id_field)
        run(
            arguments.InputOptions(source, format, mapping, requests, skip_invalid),
            SelectOptions(
                by=by,
                keep=keep,
                method=method.value,
                weight=weight.value if weight else None,
                count=count,
                seed=seed,
                grouped=grouped,
                records=records,
            ),
            arguments.OutputOptions(output),
        )


def evaluate(
    scored: Annotated[
        list[str] | None,
        typer.Argument(
            help="JSONL of scored records, plain, gzip or zstd; - or nothing for standard input. Several files are "
            "several runs: mean ± standard deviation over them.",
            show_default=False,
        ),
    ] = None,
    scores: opt.EvaluatedScores = None,
    label_field: opt.LabelField = None,
    allow_code_execution: opt.AllowCodeExecution = False,
    bootstrap: Annotated[
        int,
        typer.Option(
            min=0, help="Resamples for 95 % intervals and comparisons; 0 for none.", rich_help_panel=opt.EVALUATION
        ),
    ] = 1000,
    versus: Annotated[
        str | None,
        typer.Option(
            help="Score that the others are compared with, on records that have both; for sums a sum: ll_sum.",
            rich_help_panel=opt.EVALUATION,
            show_default=False,
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            help="Field (dots reach inward) by whose value records are evaluated apart, too.",
            rich_help_panel=opt.EVALUATION,
            show_default=False,
        ),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="Accuracy of votes among N of the responses to each question.",
            rich_help_panel=opt.EVALUATION,
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="With --scaling: draws for each N.", rich_help_panel=opt.EVALUATION)
    ] = 10,
    keep: Annotated[
        str,
        typer.Option(
            metavar="PERCENT",
            help="With --scaling: the most confident part of the N, which votes; rounded up.",
            rich_help_panel=opt.EVALUATION,
        ),
    ] = "10%",
    seed: Annotated[int, typer.Option(help="Seed of resamples and draws.", rich_help_panel=opt.EVALUATION)] = 0,
    output: opt.Output = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="JSONL, one line a score, as in a pipe.", rich_help_panel=opt.OUTPUT),
    ] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Tables for booktabs.", rich_help_panel=opt.OUTPUT)] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="CSV, a row a score and group.", rich_help_panel=opt.OUTPUT)
    ] = False,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write plots there, as PNG and SVG; needs the extra tokur\\[plot].",
            rich_help_panel=opt.OUTPUT,
            show_default=False,
        ),
    ] = None,
    graded: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='Write the records with "correct" and "tokur.answer".',
            rich_help_panel=opt.OUTPUT,
            show_default=False,
        ),
    ] = None,
    format: opt.Format = "auto",
    response_field: opt.ResponseField = None,
    reference_field: opt.ReferenceField = None,
    id_field: opt.IdField = None,
    skip_invalid: opt.SkipInvalid = False,
) -> None:
    """Evaluate scores: how well does each tell right from wrong, and how much does voting by it gain?

    A record's label is its field "correct" (true, false) or "quality" (0 to 1),
    else its final answer against "reference". Figures are percentages in tables
    and parts of 1 in JSON and CSV.

    AUROC, AUPRC: right ranked above wrong. ACC*: accuracy of the more confident
    half. AURC, PRR: answering only when confident. Brier, ECE: the confidence as
    a probability, calibrated on other questions. All but ECE with bootstrap
    intervals. Samples of one question (one id, else one prompt) stay together.
    """
    with reporting("evaluate"):
        if json + latex + csv > 1:
            raise UsageError("--json, --latex and --csv cannot go together: give one of them")
        sources = list(scored) if scored else [input_path(None)]
        from tokur_cli.commands import evaluate as command
        from tokur_cli.records.mapping import FieldMapping

        command.evaluate(
            sources,
            format,
            FieldMapping(None, response_field, reference_field, id_field),
            skip_invalid,
            command.EvaluationOptions(
                scores=scores,
                label_field=label_field,
                allow_code_execution=allow_code_execution,
                bootstrap=bootstrap,
                versus=versus,
                group_by=group_by,
                scaling=scaling,
                repeats=repeats,
                keep=keep,
                seed=seed,
            ),
            command.EvaluationOutput(
                output, "json" if json else "latex" if latex else "csv" if csv else None, plot, graded
            ),
        )


def heatmap(
    scored: Annotated[
        str | None,
        typer.Argument(
            help="JSONL of scored responses, plain, gzip or zstd; - or nothing for standard input.", show_default=False
        ),
    ] = None,
    score: Annotated[
        str,
        typer.Option(
            help="Comma-separated quantities of single tokens: eu, au, tu, entropy, logprob, self_certainty, deepconf.",
            rich_help_panel=opt.SCALE,
        ),
    ] = "eu",
    vmin: Annotated[
        float | None,
        typer.Option(
            help="Lowest value of the scale. Default: the lowest in the input.",
            rich_help_panel=opt.SCALE,
            show_default=False,
        ),
    ] = None,
    vmax: Annotated[
        float | None,
        typer.Option(
            help="Highest value of the scale. Default: 99 % of the input's tokens are not beyond it.",
            rich_help_panel=opt.SCALE,
            show_default=False,
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(
            help="Only responses to this question; may be given several times.",
            rich_help_panel=opt.CHOICE,
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        list[int] | None,
        typer.Option(
            help="Only this sample of a question; may be given several times.",
            rich_help_panel=opt.CHOICE,
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        opt.VerdictChoice | None,
        typer.Option(
            help="Only right or only wrong ones, as the records' field correct (or a quality of 1 or 0) says.",
            rich_help_panel=opt.CHOICE,
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="The least sure response first, by this score of whole responses. Default: as in the input.",
            rich_help_panel=opt.CHOICE,
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="So many responses, or pairs, at most.", rich_help_panel=opt.CHOICE, show_default=False
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Two responses of each question side by side: a right and a wrong one if it has both.",
            rich_help_panel=opt.CHOICE,
        ),
    ] = False,
    html: Annotated[
        str | None,
        typer.Option(
            help="Write a page for the browser: one file, no network.", rich_help_panel=opt.PICTURE, show_default=False
        ),
    ] = None,
    svg: Annotated[
        str | None,
        typer.Option(help="Write a figure for a paper.", rich_help_panel=opt.PICTURE, show_default=False),
    ] = None,
    color: Annotated[
        opt.ColourChoice,
        typer.Option(help="auto: on a terminal, unless NO_COLOR is set.", rich_help_panel=opt.PICTURE),
    ] = opt.ColourChoice.auto,
    theme: Annotated[
        opt.ThemeChoice,
        typer.Option(
            help="The background. auto: what the terminal says in COLORFGBG, else dark; light in a figure.",
            rich_help_panel=opt.PICTURE,
        ),
    ] = opt.ThemeChoice.auto,
    marks: Annotated[
        opt.MarksChoice,
        typer.Option(
            help="Beside colour: bars under the text, or token[0.83]. auto: bars with fewer than 256 colours.",
            rich_help_panel=opt.PICTURE,
        ),
    ] = opt.MarksChoice.auto,
    width: Annotated[
        int | None,
        typer.Option(
            min=40,
            help="Columns. Default: the terminal's; 72 for each text in a figure.",
            rich_help_panel=opt.PICTURE,
            show_default=False,
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Least sure tokens to list.", rich_help_panel=opt.PICTURE)] = 5,
    steps: Annotated[
        int, typer.Option(min=0, help="Reasoning steps to list, the least sure ones.", rich_help_panel=opt.PICTURE)
    ] = 12,
    no_pager: Annotated[
        bool,
        typer.Option("--no-pager", help="Do not page what is longer than the terminal.", rich_help_panel=opt.PICTURE),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Pass the records on, unchanged, to this file; with - the picture goes to standard error.",
            rich_help_panel=opt.OUTPUT,
            show_default=False,
        ),
    ] = None,
    passthrough: Annotated[
        bool, typer.Option("--passthrough", help="The same as -o -.", rich_help_panel=opt.OUTPUT)
    ] = False,
    skip_invalid: opt.SkipInvalid = False,
) -> None:
    """Paint the tokens of scored responses by their uncertainty: in the terminal, as a page or as a figure.

    One scale holds for all responses of the input, whichever of them are shown.
    """
    with reporting("heatmap"):
        source = input_path(scored)
        from tokur_cli.commands import heatmap as command
        from tokur_cli.commands.arguments import InputOptions
        from tokur_cli.commands.gallery import ChoiceOptions

        command.heatmap(
            InputOptions(source, skip_invalid=skip_invalid),
            command.ScaleOptions(score, vmin, vmax),
            ChoiceOptions(tuple(id or ()), tuple(sample or ()), only.value if only else None, sort, limit, compare),
            command.PictureOptions(
                html, svg, color.value, theme.value, marks.value, width, top, steps, pager=not no_pager
            ),
            output or ("-" if passthrough else None),
        )
