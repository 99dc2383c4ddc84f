"""What is computed of responses: the posterior, the scores, and the baselines that take more than the draws."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer
from typer import Option

from tokur_cli.commands.options.marks import Alone, Excludes, Rare, Reads, number
from tokur_cli.commands.options.model import BackendOptions, NamedModel
from tokur_cli.commands.shared.errors import reporting
from tokur_cli.engine.posterior.settings import (
    AUTO,
    MOST_DRAWS,
    MOST_KL,
    MOST_SIGMA,
    SETTINGS,
    PosteriorDescription,
    PosteriorSettings,
    layer_slice,
    read_description,
)
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming
from tokur_cli.scores.calibration import Calibration, scores_to_compute
from tokur_cli.scores.steps import STEP_RULES

if TYPE_CHECKING:
    from tokur_cli.scores.catalogue import Score


def parse_sigma(text: str, option: str = "--sigma", *, or_auto: bool = False) -> float:
    """Return a strength as the user typed it; for auto, where that may be, the paper's: what suits is found later."""
    if or_auto and text == AUTO:
        return PosteriorSettings.sigma
    if not 0 <= (sigma := number(text)) <= MOST_SIGMA:
        raise UsageError(f'{option} has "{text}"; it must be a number from 0 to {MOST_SIGMA:g}{", or auto" * or_auto}')
    return sigma


@dataclass(frozen=True)
class PosteriorOptions:
    """A kept posterior, or what one is made of. A setting of the posterior is a field of ``PosteriorSettings``, too."""

    panel: ClassVar[str] = "Posterior"

    folder: Annotated[
        str | None, Reads(), Option("--posterior", metavar="DIR", help="A folder that perturb -o wrote.")
    ] = None
    draws: Annotated[
        int, Option(min=1, max=MOST_DRAWS, metavar="M", help="M, number of draws; with 1 the paper's eu is 0.")
    ] = 2
    rank: Annotated[int, Option(min=1, metavar="N", help="r', rank of the noise.")] = PosteriorSettings.rank
    sigma: Annotated[
        str,
        Option(
            metavar="NUMBER|auto",
            help="σ_q, perturbation strength. auto: 0.1, the paper's, or less where that moves the model's predictions "
            f"by more than {MOST_KL:g} nats a token.",
        ),
    ] = AUTO
    targets: Annotated[
        str, Option(metavar="NAMES", help="Projections to perturb, by the ends of their names or globs.")
    ] = PosteriorSettings.targets
    layers: Annotated[
        str | None, Option(metavar="FIRST:END", help="Layers, as a slice such as 15: (and above). Default: all.")
    ] = PosteriorSettings.layers
    seed: Annotated[int, Option(metavar="N", help="Seed of all random numbers.")] = PosteriorSettings.seed
    given: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        parse_sigma(self.sigma, or_auto=True)
        if self.layers is not None:
            layer_slice(self.layers)

    @cached_property
    def kept(self) -> PosteriorDescription | None:
        """What the kept posterior says of itself; None without one."""
        return None if self.folder is None else read_description(self.folder)

    @property
    def chooses_sigma(self) -> bool:
        """Whether the strength is the one that suits the model, known once it is there."""
        return self.folder is None and self.sigma == AUTO

    @property
    def settings(self) -> PosteriorSettings:
        """What the posterior is made of: the kept one's settings, else the options."""
        if self.kept is not None:
            return PosteriorSettings(**self.kept.settings)
        own = {name: getattr(self, name) for name in SETTINGS}
        return PosteriorSettings(**own | {"sigma": parse_sigma(self.sigma, or_auto=True)})

    @property
    def members(self) -> int:
        """M: what was asked for, else as many as were kept, else the default."""
        return self.draws if self.kept is None or "draws" in self.given else self.kept.draws

    @property
    def model(self) -> NamedModel | None:
        """The model that a kept posterior is of; None without one."""
        return None if self.kept is None else NamedModel(self.kept.model, self.kept.base)


def default_batch_tokens(device: str) -> int:
    """Return how many positions, all draws counted, a batch has on a kind of device."""
    return 4096 if device == "cpu" else 65536


@dataclass(frozen=True)
class SamplingOptions:
    """How draws and decoding steps go together, and how many positions are computed at once."""

    panel: ClassVar[str] = "Posterior"

    sampling: Annotated[
        Literal["stepwise", "shared", "joint"],
        Option(
            metavar="HOW",
            help="A fresh draw per token (stepwise, the paper), one per response (shared), or one weighted by the "
            "response's probability (joint).",
        ),
    ] = "stepwise"
    batch_tokens: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Positions in a batch. Default: by device.", rich_help_panel="Model"),
    ] = None


def explain_scores(context: typer.Context, names: str | None) -> str | None:
    """Print the catalogue and stop where it is asked for, and not by a shell that completes what follows."""
    if names == "help" and not context.resilient_parsing:
        from tokur_cli.commands.shared.score_list import print_catalogue

        with reporting(""), naming(STANDARD_OUTPUT):
            print_catalogue()
        raise typer.Exit
    return names


@dataclass(frozen=True)
class ScoringOptions(SamplingOptions):
    """The posterior, what is computed under its draws, and what is kept of it."""

    posterior: PosteriorOptions = field(default_factory=PosteriorOptions)
    baselines: BaselineOptions = field(default_factory=lambda: BaselineOptions())
    engine: BackendOptions = field(default_factory=BackendOptions)
    fitted: Calibration | None = None  # what the file of ``calibration`` holds, read once for all workers

    estimator: Annotated[
        Literal["paper", "kl", "fisher"], Option(metavar="HOW", help="How eu is made: paper, kl or fisher.")
    ] = "paper"
    scores: Annotated[
        str | None,
        Option(
            metavar="SCORES",
            help="Comma-separated scores; default, all, or help, which prints a table.",
            callback=explain_scores,
            is_eager=True,
            rich_help_panel="Output",
        ),
    ] = None
    calibration: Annotated[
        str | None,
        Reads(),
        Option(metavar="FILE", help="A file that evaluate --fit wrote: adds p_correct.", rich_help_panel="Output"),
    ] = None
    no_tokens: Annotated[bool, Option("--no-tokens", help="Leave token arrays out.", rich_help_panel="Output")] = False
    alternatives: Annotated[
        int | None,
        Option(min=1, metavar="K", help="Keep the K likeliest tokens of uncertain places.", rich_help_panel="Output"),
        Excludes("--no-tokens"),
    ] = None
    steps: Annotated[
        str | None,
        Alone("auto", "|".join(STEP_RULES)),
        Option(
            metavar="[HOW]",
            help="Add steps, cut by HOW: auto (headings, else numbers, else sentences; also --steps alone), lines, "
            "sentences, or --steps=REGEX.",
            rich_help_panel="Output",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps not in STEP_RULES:
            try:
                if not re.compile(self.steps).pattern:
                    raise UsageError("--steps is empty: give a regular expression")
            except re.error as error:
                raise UsageError(f"--steps {self.steps}: this is no regular expression: {error}") from None

    @property
    def chosen(self) -> list[Score]:
        """The scores to compute, ``p_correct`` among them where there is a calibration."""
        return scores_to_compute(self.scores, self.fitted)

    @property
    def needs(self) -> set[str]:
        """What the scores to compute need of a response."""
        return {need for score in self.chosen for need in score.needs}


@dataclass(frozen=True)
class BaselineOptions:
    """How the scores that take more than the draws are computed."""

    panel: ClassVar[str] = "Baselines"

    llm_check_layer: Annotated[
        int | None, Rare(), Option(min=1, metavar="N", help="Of llm_check_…, from 1. Default: the middle one.")
    ] = None
    over: Annotated[
        Literal["attempts", "samples"],
        Option(
            metavar="WHAT",
            help="What inside, semantic_entropy, sar, u_ecc and u_deg compare: attempts to verify a response, or the "
            "samples of a question, which stand together.",
        ),
    ] = "attempts"
    attempts: Annotated[int, Option(min=2, metavar="K", help="K, attempts to verify a response.")] = 10
    attempt_temperature: Annotated[
        float, Rare(), Option(min=0.01, metavar="NUMBER", help="Of the attempts; at 0 all would be the same.")
    ] = 0.5
    attempt_tokens: Annotated[int, Rare(), Option(min=1, metavar="N", help="Of an attempt, at most.")] = 64
    entailment: Annotated[
        Literal["nli", "judge"],
        Option(metavar="HOW", help="When two texts mean the same: nli, or judge (the model itself)."),
    ] = "nli"
    nli_model: Annotated[
        str | None, Rare(), Reads(), Option(metavar="MODEL", help="Default: microsoft/deberta-large-mnli.")
    ] = None
    similarity: Annotated[
        Literal["embedding", "nli", "jaccard"],
        Option(metavar="HOW", help="How text similarity is measured: embedding, nli or jaccard (words)."),
    ] = "embedding"
    similarity_model: Annotated[
        str | None, Rare(), Reads(), Option(metavar="MODEL", help="Default: all-minilm-l6-v2, embedded.")
    ] = None
    given: frozenset[str] = frozenset()
