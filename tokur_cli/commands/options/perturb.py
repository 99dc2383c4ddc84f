"""The options of ``tokur perturb`` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from tokur_cli.commands.options import panels
from tokur_cli.commands.options.files import Writes
from tokur_cli.commands.options.scoring import parse_sigma
from tokur_cli.records.errors import UsageError


@dataclass(frozen=True)
class StrengthOptions:
    """Which strengths of the perturbation are tried, and on how many responses.

    Raises:
        UsageError: options that cannot go together, or a strength that is not a number from 0.
    """

    panel: ClassVar[str] = panels.STRENGTH

    sigma: Annotated[
        float | None,
        Option(
            min=0.0,
            metavar="NUMBER",
            help="σ_q, perturbation strength. Default: 0.1.",
            rich_help_panel=panels.POSTERIOR,
        ),
    ] = None
    sweep: Annotated[
        str | None,
        Option(metavar="NUMBERS", help="Strengths to try on the responses, with commas between them: a record each."),
    ] = None
    calibrate: Annotated[
        bool,
        Option(
            "--calibrate",
            help="Find the largest strength whose draws stay near the model on the responses, in one process.",
        ),
    ] = False
    tolerance: Annotated[
        float | None,
        Option(min=1e-9, metavar="NUMBER", help="How near: mean KL(p_0 ‖ p_m) of a token, in nats. Default: 0.05."),
    ] = None
    limit: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help="Responses to try strengths on, at most. Default: 64 for --calibrate, all for --sweep.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.sweep is not None and self.calibrate:
            raise UsageError("--sweep tries strengths and --calibrate finds one: give one of the two")
        if self.sweep is not None and self.sigma is not None:
            raise UsageError("--sweep tries the strengths that it is given: leave --sigma out")
        if self.tolerance is not None and not self.calibrate:
            raise UsageError("--tolerance is for --calibrate: leave it out")
        if self.limit is not None and self.sweep is None and not self.calibrate:
            raise UsageError("--limit is for --sweep and --calibrate, which try strengths on responses: leave it out")
        if self.sigma is not None:
            parse_sigma(str(self.sigma))  # Typer lets infinity pass
        _ = self.strengths

    @property
    def strengths(self) -> tuple[float, ...]:
        """The strengths of ``--sweep``."""
        return (
            () if self.sweep is None else tuple(parse_sigma(text.strip(), "--sweep") for text in self.sweep.split(","))
        )


@dataclass(frozen=True)
class KeepOptions:
    """Where a posterior is kept; None is nowhere.

    Raises:
        UsageError: something is to be replaced, and nothing to be kept.
    """

    panel: ClassVar[str] = panels.OUTPUT

    folder: Annotated[
        str | None,
        Writes(folder=True),
        Option("--output", "-o", metavar="DIR", help="Folder to keep the posterior in, its draws as LoRA adapters."),
    ] = None
    force: Annotated[bool, Option("--force", help="Replace a posterior that is there.")] = False

    def __post_init__(self) -> None:
        if self.force and self.folder is None:
            raise UsageError("--force is about the folder of -o DIR: give one")
