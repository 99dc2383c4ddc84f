"""``tokur evaluate``."""

from __future__ import annotations

from tokur_cli.app.inputs import ScoredFiles, input_path
from tokur_cli.commands.options.evaluate import EvaluationOptions, EvaluationOutput
from tokur_cli.commands.options.fit import FitOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions


def evaluate(
    *,
    scored: ScoredFiles = None,
    options: EvaluationOptions,
    labels: LabelOptions,
    fit: FitOptions,
    target: EvaluationOutput,
    source: InputOptions,
) -> None:
    """Evaluate scores: how well does each tell right from wrong, and how much does voting by it gain?

    A record's label is its field "correct" (true, false) or "quality" (0 to 1),
    else what the program that wrote the log says (Inspect, lm-eval), else its
    final answer against "reference". Figures are percentages in tables
    and fractions of 1 in JSON and CSV.

    AUROC, AUPRC: right ranked above wrong. ACC*: accuracy of the more confident
    half. AURC, PRR: answering only when confident. Brier, ECE: the confidence as
    a probability, calibrated on other questions. All but ECE with bootstrap
    intervals. Samples of one question (one id, else one prompt) stay together.

    With --level step, spans of responses are evaluated: the sum, the mean, the
    least sure token and the mean of the five least sure of every quantity.
    Within: a wrong span less sure than a right one of its response. hit@K: the
    first wrong span among the K least sure of its response. Length, position
    and chance stand beside them.
    """
    paths = list(scored) if scored else [input_path(None)]
    from tokur_cli.commands.evaluate.command import evaluate as run

    run(paths, source, options, labels, fit, target)
