"""The options of perturb."""

from __future__ import annotations

from typing import Annotated

import typer

from tokur_cli.app import options as opt
from tokur_cli.app.inputs import input_path, sigmas_of
from tokur_cli.commands.reporting import reporting
from tokur_cli.commands.starting import model_imports
from tokur_cli.records.errors import UsageError


def perturb(
    responses: Annotated[
        str | None,
        typer.Argument(
            help="JSONL of responses to try strengths on, for --sweep and --calibrate; - for standard input.",
            show_default=False,
        ),
    ] = None,
    model: opt.Model = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder to keep the posterior in, its draws as LoRA adapters.",
            rich_help_panel=opt.OUTPUT,
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a posterior that is there.", rich_help_panel=opt.OUTPUT)
    ] = False,
    draws: opt.DrawCount = None,
    rank: opt.Rank = None,
    sigma: opt.FixedSigma = None,
    targets: opt.Targets = None,
    layers: opt.Layers = None,
    seed: opt.PosteriorSeed = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Strengths to try on the responses, with commas between them: a record each.",
            rich_help_panel=opt.STRENGTH,
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Find the largest strength whose draws stay near the model on the responses.",
            rich_help_panel=opt.STRENGTH,
        ),
    ] = False,
    tolerance: Annotated[
        float,
        typer.Option(
            min=1e-9,
            help="How near: mean KL(p_0 ‖ p_m) of a token, in nats.",
            rich_help_panel=opt.STRENGTH,
        ),
    ] = 0.05,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Responses to try strengths on, at most. Default: 64 for --calibrate, all for --sweep.",
            rich_help_panel=opt.STRENGTH,
            show_default=False,
        ),
    ] = None,
    sampling: opt.Sampling = opt.SamplingChoice.stepwise,
    template: opt.Template = "chat",
    system: opt.System = None,
    few_shot: opt.FewShot = None,
    format: opt.Format = "auto",
    question_field: opt.QuestionField = None,
    response_field: opt.ResponseField = None,
    reference_field: opt.ReferenceField = None,
    id_field: opt.IdField = None,
    requests: opt.Requests = None,
    skip_invalid: opt.SkipInvalid = False,
    dtype: opt.Dtype = opt.DtypeChoice.auto,
    device_map: opt.DeviceMap = "auto",
    revision: opt.Revision = None,
    trust_remote_code: opt.TrustRemoteCode = False,
    batch_tokens: opt.BatchTokens = None,
) -> None:
    """Make the weight posterior: look at it, find its strength, keep it for score, and serve its draws as adapters.

    Writes a record a perturbed matrix; with --sweep or --calibrate a record a strength that was tried.
    """
    with reporting("perturb"):
        sigmas = sigmas_of(sweep)
        _check(responses, output, force, sigmas, sweep, calibrate)
        with model_imports():
            from tokur_cli.commands import arguments
            from tokur_cli.commands.perturb import perturb as run
            from tokur_cli.records.mapping import FieldMapping

        source = None
        if sweep is not None or calibrate:
            mapping = FieldMapping(question_field, response_field, reference_field, id_field)
            source = arguments.InputOptions(input_path(responses), format, mapping, requests, skip_invalid)
        run(
            source,
            arguments.ModelOptions(model, revision, dtype.value, device_map, trust_remote_code),
            arguments.PromptOptions(template, system, few_shot),
            arguments.PosteriorOptions(None, draws, rank, sigma, targets, layers, seed),
            arguments.StrengthOptions(sigmas, calibrate, tolerance, limit, sampling.value, batch_tokens),
            arguments.KeepOptions(output, force),
        )


def _check(
    responses: str | None,
    output: str | None,
    force: bool,
    sigmas: tuple[float, ...],
    sweep: str | None,
    calibrate: bool,
) -> None:
    """Refuse options that cannot go together."""
    if sweep is not None and calibrate:
        raise UsageError("--sweep tries strengths and --calibrate finds one: give one of the two")
    if sweep is not None and output is not None:
        raise UsageError("--sweep tries many strengths and keeps none: leave -o out, then choose one with --sigma")
    if responses is not None and sweep is None and not calibrate:
        raise UsageError("responses are read by --sweep and --calibrate only: give one of the two, or no responses")
    if force and output is None:
        raise UsageError("--force is about the folder of -o DIR: give one")
