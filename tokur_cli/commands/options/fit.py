"""The options of ``tokur evaluate --fit`` and ``--certify``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.files import Writes
from tokur_cli.commands.options.relations import Excludes, Needs, Rare
from tokur_cli.commands.options.shares import share
from tokur_cli.records.errors import UsageError

_NOT_CERTIFIED = (
    *("--scores", "--level", "--bootstrap", "--versus", "--group-by", "--difficulty", "--scaling", "--seed"),
    *("--fit", "--as=latex", "--plot"),
)


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
            help="Fit the probability of being correct to these records and write what score --calibration takes. The "
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
    fit_method: Annotated[
        Literal["platt", "isotonic", "logistic"] | None,
        Rare(),
        Option(help="platt or isotonic: of one score; logistic: of several. Default: platt for one, else logistic."),
    ] = None


@dataclass(frozen=True)
class CertifyOptions:
    """What is guaranteed, and how surely."""

    panel: ClassVar[str] = "Certificate"

    risk: Annotated[
        float | None,
        Option(
            "--certify",
            parser=share,
            metavar="SHARE",
            help="Find the threshold of a score (--by) above which at most this share of the answers given is "
            "incorrect, and write what select --certificate takes. 5% takes 59 labelled questions, more with errors.",
        ),
        Excludes(*_NOT_CERTIFIED),
    ] = None
    confidence: Annotated[
        float,
        Option(parser=share, metavar="SHARE", help="How surely this holds, over the labelled questions."),
        Needs("--certify"),
    ] = 0.95

    def __post_init__(self) -> None:
        for option, value in (("--certify", self.risk), ("--confidence", self.confidence)):
            if value in (0, 1):
                raise UsageError(f"{option} {value:g}: give a share between 0% and 100%")

    @property
    def most_wrong(self) -> float | None:
        """The fraction of the answers given that may be wrong, in (0, 1); None where nothing is certified."""
        return self.risk

    @property
    def doubt(self) -> float:
        """The probability that it does not hold, in (0, 1)."""
        return round(1 - self.confidence, 12)
