"""The options of generation guided by uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.marks import Excludes, Rare, number
from tokur_cli.records.errors import UsageError, there_are
from tokur_cli.scores.quantities import GUIDES
from tokur_cli.scores.steps import Over

Scheme = Literal["multinomial", "systematic"]


@dataclass(frozen=True)
class GuidedOptions:
    """How the particles of guided generation are judged and resampled; without ``guide`` nothing is guided."""

    panel: ClassVar[str] = "Guided"

    guide: Annotated[
        str | None,
        Option(
            metavar="SCORE",
            help=f"Let the N responses to a question grow together; after each step those of which the model is surer "
            f"are copied in place of others. SCORE is one of {', '.join(GUIDES)}.",
        ),
        Excludes("--temperature=0", "--samples=1", "--backend=vllm"),
    ] = None
    guide_over: Annotated[
        Over, Option(metavar="WHAT", help="The tokens so far: mean, sum, top5 (least certain); or the last step.")
    ] = "mean"
    guide_temperature: Annotated[
        str, Option(metavar="T|auto", help="T in softmax(reward / T); auto: the deviation of a round.")
    ] = "1"
    step_end: Annotated[
        list[str], Rare(), Option(metavar="TEXT", help="Text that ends a step; repeatable. Default: a blank line.")
    ] = field(default_factory=list)
    step_tokens: Annotated[int, Rare(), Option(min=1, metavar="N", help="Tokens of a step, at most.")] = 1024
    resample: Annotated[
        Scheme, Rare(), Option(metavar="HOW", help="Or systematic: only where the effective number is below N/2.")
    ] = "multinomial"

    def __post_init__(self) -> None:
        if self.guide is not None and self.guide not in GUIDES:
            raise UsageError(f"--guide {self.guide}: nothing is guided by that{there_are(GUIDES, self.guide)}")
        if "" in self.step_end:
            raise UsageError("--set step_end= ends every step before it begins: give a text")
        _ = self.temperature

    @property
    def ends(self) -> tuple[str, ...]:
        """The texts that end a step."""
        return tuple(self.step_end) or ("\n\n",)

    @property
    def temperature(self) -> float | None:
        """T, above 0; None for auto."""
        if (text := self.guide_temperature) == "auto":
            return None
        if not 0 < (temperature := number(text)) < math.inf:
            raise UsageError(f'--guide-temperature has "{text}"; it must be a number above 0, or auto')
        return temperature
