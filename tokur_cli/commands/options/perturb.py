"""The options of ``tokur perturb`` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from tokur_cli.commands.options.marks import Alone, Excludes, Writes
from tokur_cli.commands.options.scoring import parse_sigma
from tokur_cli.engine.posterior.settings import MOST_KL

CALIBRATION_RESPONSES = 64  # responses that a strength is calibrated on unless the user gives a limit


@dataclass(frozen=True)
class PerturbOptions:
    """Which strengths of the perturbation are tried, and where a posterior is kept; None is nowhere."""

    panel: ClassVar[str] = "Strength"

    sweep: Annotated[
        str | None,
        Option(metavar="NUMBERS", help="Comma-separated strengths to try on the responses: a record each."),
        Excludes("--calibrate", "--sigma", "--output"),
    ] = None
    calibrate: Annotated[
        float | None,
        Alone(f"{MOST_KL:g}", r"\d*\.?\d+([eE][-+]?\d+)?"),
        Option(
            min=1e-9,
            metavar="[TOLERANCE]",
            help=f"Find the largest strength with at most this KL(p_0 ‖ p_m) a token, in nats, over the first "
            f"{CALIBRATION_RESPONSES} responses or --limit. Alone: {MOST_KL:g}.",
        ),
    ] = None
    folder: Annotated[
        str | None,
        Writes(folder=True),
        Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder to keep the posterior in, its draws as LoRA adapters.",
            rich_help_panel="Output",
        ),
    ] = None

    def __post_init__(self) -> None:
        _ = self.strengths

    @property
    def tries(self) -> bool:
        """Whether strengths are tried on responses."""
        return self.sweep is not None or self.calibrate is not None

    @property
    def strengths(self) -> tuple[float, ...]:
        """The strengths of ``--sweep``."""
        texts = [] if self.sweep is None else self.sweep.split(",")
        return tuple(parse_sigma(text.strip(), "--sweep") for text in texts)
