"""``tokur perturb``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from tokur_cli.app.groups import Without
from tokur_cli.app.inputs import TrialResponses, input_path
from tokur_cli.commands.options.given import given_options
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.perturb import KeepOptions, StrengthOptions
from tokur_cli.commands.options.scoring import PosteriorOptions, SamplingOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.records.errors import UsageError


def perturb(
    *,
    responses: TrialResponses = None,
    model: ModelOptions,
    keep: KeepOptions,
    posterior: Annotated[PosteriorOptions, Without("folder", "sigma")],
    strength: StrengthOptions,
    sampling: SamplingOptions,
    labels: Annotated[LabelOptions, Without("allow_code_execution", "unsafe_code_execution")],
    workers: WorkerOptions,
    prompts: PromptOptions,
    source: InputOptions,
) -> None:
    """Make the weight posterior: look at it, find its strength, keep it for score, and serve its draws as adapters.

    Writes a record for each perturbed matrix; with --sweep or --calibrate, for each strength that was tried.
    """
    tries = strength.sweep is not None or strength.calibrate
    if strength.sweep is not None and keep.folder is not None:
        raise UsageError("--sweep tries many strengths and keeps none: leave -o out, then choose one with --sigma")
    if strength.sweep is None and not workers.in_process:
        raise UsageError(
            "--workers and --cluster share the strengths of a --sweep; --calibrate chooses each one by those before it"
        )
    if responses is not None and not tries:
        raise UsageError("responses are read by --sweep and --calibrate only: give one of the two, or no responses")
    for _, option in (
        () if tries else (pair for group in (source, prompts, sampling, labels) for pair in given_options(group))
    ):
        raise UsageError(f"{option} is about the responses that --sweep and --calibrate read: leave it out")
    from tokur_cli.commands.perturb.command import perturb as run

    sigma = None if strength.sigma is None else str(strength.sigma)
    run(
        replace(source, path=input_path(responses)) if tries else None,
        model,
        prompts,
        replace(posterior, sigma=sigma),
        strength,
        sampling,
        labels,
        workers,
        keep,
    )
