"""A certificate in a line, in a table and as a plot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from tokur_cli.commands.evaluate.certify.questions import LabelledQuestions
from tokur_cli.commands.evaluate.report.tables import figure
from tokur_cli.metrics.certification import Target, in_order, upper_bound
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.scores.certificate import Certificate
from tokur_cli.views.tables import MISSING
from tokur_cli.views.visible import picture

if TYPE_CHECKING:
    from rich.console import Console


def summary(certificate: Certificate) -> str:
    """Return what is promised, by which rule, and what it gives on the labelled questions."""
    return (
        f"{_promise(certificate)}: {certificate.rule}, {certificate.answered:,} of {certificate.questions:,} questions "
        f"({certificate.answered / certificate.questions:.2%}), {certificate.errors:,} of these wrong"
    )


def _promise(certificate: Certificate) -> str:
    risk, confidence = 100 * certificate.risk, 100 * certificate.confidence
    return f"at most {risk:.4g} % of the answers given are wrong, with {confidence:.4g} % confidence"


def print_certificate(certificate: Certificate, responses: str, console: Console) -> None:
    """Print what is certified, and of what.

    Args:
        certificate: what is certified.
        responses: which response of a question counts, in words.
        console: where to.
    """
    from rich.table import Table
    from rich.text import Text

    given = certificate.coverage
    coverage = figure(Estimate(given["value"], given["low"], given["high"]))
    part, made = certificate.errors / certificate.answered, certificate.settings
    rows = {
        "answers given": certificate.rule,
        "coverage": f"{coverage.text} % {coverage.aside}, {certificate.answered:,} of {certificate.questions:,}",
        "wrong of these": f"{100 * part:.2f} %, {certificate.errors:,} of {certificate.answered:,}; upper bound "
        f"{100 * certificate.bound:.2f} %",
        "responses": responses,
        "made with": ", ".join(f"{name} {value}" for name, value in made.items() if value is not None) or MISSING,
        "data": certificate.data,
        "assumption": certificate.assumption,
    }
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in rows.items():
        grid.add_row(name, Text(picture(text)))
    console.print(Text(_promise(certificate).capitalize(), style="bold"), soft_wrap=True)
    console.print(grid)


def draw(certificate: Certificate, questions: LabelledQuestions, target: Target, folder: str) -> None:
    """Draw the risk and its bound at each coverage, and what is certified."""
    from tokur_cli.commands.evaluate.report.plots import thinned
    from tokur_cli.views import plots

    scored = questions.scored()
    errors = np.cumsum(scored.wrong[in_order(scored.confidences, scored.lots)])
    size = np.arange(1, len(errors) + 1)
    coverage = size / certificate.questions
    bound = upper_bound(errors, size, target.doubt)
    point = np.array([certificate.answered / certificate.questions])
    risk = np.array([certificate.errors / certificate.answered])
    plots.lines(
        os.path.join(folder, "certificate"),
        [
            plots.Curve(f"{certificate.score}: wrong among these labels", *thinned(coverage, errors / size)),
            plots.Curve("upper bound, of each coverage alone", *thinned(coverage, bound)),
            plots.Curve(f"certified: {certificate.rule}", point, risk),
        ],
        plots.Curve(f"at most {certificate.risk:.3g}", np.array([0.0, 1.0]), np.full(2, certificate.risk)),
        plots.Plane(
            f"Risk and coverage, {100 * certificate.confidence:g} % confidence",
            "coverage: part answered, the most confident first",
            "risk: part of these that is wrong",
        ),
    )
