"""The options of ``tokur evaluate --fit`` and ``--certify``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.files import Writes
from tokur_cli.commands.options.relations import Excludes, Needs
from tokur_cli.records.errors import UsageError

_NOT_CERTIFIED = (
    *("--scores", "--level", "--bootstrap", "--versus", "--group-by", "--difficulty", "--scaling", "--seed"),
    *("--fit", "--as=latex"),
)
_OF_FIT = "{option} is about a calibration: say where it goes with --fit FILE"


@dataclass(frozen=True)
class FitOptions:
    """What a calibration is fitted of, and where it goes."""

    panel: ClassVar[str] = "Calibration"

    file: Annotated[
        str | None,
        Writes(),
        Option(
            "--fit",
            metavar="FILE",
            help="Fit the probability of being right to these records and write what score --calibration takes. The "
            "results are those of probabilities for questions that were left out.",
        ),
        Excludes("--level=step", "--level=question"),
    ] = None
    by: Annotated[
        str | None,
        Option(
            metavar="SCORES",
            help="Comma-separated scores that it is made of (default: eu,ll_sum,neg_length), or the one that --certify "
            "goes by (default: eu).",
        ),
        Needs("--fit", "--certify"),
    ] = None
    method: Annotated[
        Literal["platt", "isotonic", "logistic"] | None,
        Option(
            "--fit-method",
            metavar="METHOD",
            help="platt or isotonic: of one score; logistic: of several. Default: platt for one, else logistic.",
        ),
        Needs("--fit"),
    ] = None


@dataclass(frozen=True)
class CertifyOptions:
    """What is guaranteed, and how surely."""

    panel: ClassVar[str] = "Certificate"

    risk: Annotated[
        str | None,
        Option(
            "--certify",
            metavar="PERCENT",
            help="Find the threshold of a score (--by) above which at most so many of the answers given are wrong, and "
            "write what select --certificate takes. For 5% it takes 59 labelled questions, or more with errors.",
        ),
        Excludes(*_NOT_CERTIFIED),
    ] = None
    confidence: Annotated[
        str,
        Option(metavar="PERCENT", help="How surely this holds, over the labelled questions."),
        Needs("--certify"),
    ] = "95%"

    def __post_init__(self) -> None:
        _ = self.most_wrong, self.doubt

    @property
    def most_wrong(self) -> float | None:
        """The part of the answers given that may be wrong, in (0, 1); None where nothing is certified."""
        return None if self.risk is None else _part(self.risk, "--certify", "5%")

    @property
    def doubt(self) -> float:
        """The probability that it does not hold, in (0, 1)."""
        return round(1 - _part(self.confidence, "--confidence", "95%"), 12)


def _part(text: str, option: str, such_as: str) -> float:
    """Return what a percentage stands for."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?|\.\d{1,9})\s*(%?)", text.strip(), re.ASCII)
    part = float(match[1]) / 100 if match and match[2] else 0.0
    if not 0 < part < 1:
        meant = float(match[1]) if match and not match[2] else 0.0
        such_as = f"{100 * meant:g}%" if 0 < meant < 1 else f"{meant:g}%" if 1 <= meant < 100 else such_as
        raise UsageError(f"{option} {text}: give a percentage between 0% and 100%, such as {such_as}")
    return part
