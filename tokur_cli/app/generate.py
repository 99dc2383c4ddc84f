"""``tokur generate``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from tokur_cli.app.groups import Without
from tokur_cli.app.inputs import Questions, input_path
from tokur_cli.commands.options import panels
from tokur_cli.commands.options.given import given_options
from tokur_cli.commands.options.guided import GuidedOptions
from tokur_cli.commands.options.model import DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, PosteriorOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.records.errors import UsageError


def generate(
    *,
    questions: Questions = None,
    model: ModelOptions,
    decoding: DecodingOptions,
    guided: GuidedOptions,
    score: Annotated[
        bool,
        typer.Option(
            "--score", metavar="", help="Score the responses in the same run.", rich_help_panel=panels.POSTERIOR
        ),
    ] = False,
    posterior: PosteriorOptions,
    scoring: ScoringOptions,
    baselines: Annotated[BaselineOptions, Without("show_prompts")],
    workers: WorkerOptions,
    target: ResumableOutput,
    prompts: PromptOptions,
    source: Annotated[InputOptions, Without("response_field", "requests")],
) -> None:
    """Generate N responses to each question, with the mean weights, as records that score takes as they are.

    A response depends on the seed, the question's id and its sample number alone, not on the batch, the order of the
    questions or N, up to rounding, which in bfloat16 changes many sampled responses with the batch. With --guide it
    depends on N and the options of the panel Guided, too.
    """
    source = replace(source, path=input_path(questions))
    refuse_unused(guided, posterior, scoring, baselines, score=score)
    decoding, scoring, baselines = together(decoding, guided, posterior, scoring, baselines)
    from tokur_cli.commands.generate.command import generate as run

    run(source, model, prompts, decoding, scoring, baselines, workers, target, score=score)


def together(
    decoding: DecodingOptions,
    guided: GuidedOptions,
    posterior: PosteriorOptions,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
) -> tuple[DecodingOptions, ScoringOptions, BaselineOptions]:
    """Return the groups with what others say for them: how a response is guided, the posterior, the seed."""
    seed = posterior.seed or 0
    if posterior.folder is not None:  # it has its own seed; the one given here is for the samples
        posterior = replace(posterior, seed=None)
    decoding = replace(decoding, seed=seed, guidance=guided.guidance)
    return decoding, replace(scoring, posterior=posterior), replace(baselines, seed=seed)


def refuse_unused(
    guided: GuidedOptions,
    posterior: PosteriorOptions,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    *,
    score: bool,
) -> None:
    """Refuse options of scoring where nothing is scored, except those that say how a guide's rewards are computed.

    Raises:
        UsageError: there is one.
    """
    if score:
        return
    for field, option in (pair for group in (posterior, scoring, baselines) for pair in given_options(group)):
        if field in ("seed", "batch_tokens"):  # which generating has, too
            continue
        of_rewards = hasattr(posterior, field) or field in ("estimator", "sampling")
        if not (of_rewards and guided.guide):
            or_guide = " or --guide" if of_rewards else ""
            raise UsageError(f"{option} says how responses are scored: give --score{or_guide} too")
