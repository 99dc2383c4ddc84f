"""The options of ``tokur evaluate --fit``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options import panels
from tokur_cli.commands.options.completion import score_names, several_of
from tokur_cli.commands.options.files import Writes
from tokur_cli.commands.options.relations import Needs
from tokur_cli.records.streams import STDIN

_OF_FIT = "{option} is about a calibration: say where it goes with --fit FILE"


@dataclass(frozen=True)
class FitOptions:
    """What a calibration is fitted of, and where it goes."""

    panel: ClassVar[str] = panels.CALIBRATION

    file: Annotated[
        str | None,
        Writes(),
        Option(
            "--fit",
            metavar="FILE",
            help="Fit the probability of being right to these records and write what score --calibration takes. The "
            "results are those of probabilities for questions that were left out.",
        ),
        Needs("--output", when=STDIN, why="--fit - would mix the calibration and the results: give one of them a file"),
    ] = None
    by: Annotated[
        str | None,
        Option(
            metavar="SCORES",
            autocompletion=several_of(score_names),
            help="Comma-separated scores that it is made of (default: eu,ll_sum,neg_length), or the one that --certify "
            "goes by (default: eu).",
        ),
        Needs(
            "--fit",
            "--certify",
            why="{option} is about a calibration or a certificate: give --fit FILE or --certify 5%",
        ),
    ] = None
    method: Annotated[
        Literal["platt", "isotonic", "logistic"] | None,
        Option(
            "--fit-method",
            metavar="METHOD",
            help="platt or isotonic: of one score; logistic: of several. Default: platt for one, else logistic.",
        ),
        Needs("--fit", why=_OF_FIT),
    ] = None
