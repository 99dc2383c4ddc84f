"""``tokur score``."""

from __future__ import annotations

from dataclasses import replace

from tokur_cli.app.inputs import Responses, input_path
from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, LoggedOptions, PosteriorOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions


def score(
    *,
    responses: Responses = None,
    model: ModelOptions,
    posterior: PosteriorOptions,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    workers: WorkerOptions,
    target: ResumableOutput,
    prompts: PromptOptions,
    source: InputOptions,
    logged: LoggedOptions,
) -> None:
    """Score responses: token-level total, aleatoric and epistemic uncertainty, and scores of whole responses."""
    source = replace(source, path=input_path(responses))
    if logged.from_logprobs:
        from tokur_cli.commands.score.logged import score_logged

        score_logged(source, scoring, target, [model, posterior, baselines, workers, prompts])
        return
    scoring, baselines = replace(scoring, posterior=posterior), replace(baselines, seed=posterior.seed or 0)
    if baselines.show_prompts:
        from tokur_cli.commands.baselines.show_prompts import show_prompts

        show_prompts(source, model, scoring, baselines)
        return
    from tokur_cli.commands.score.command import score as run

    run(source, model, prompts, scoring, baselines, workers, target)
