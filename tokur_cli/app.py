"""The command line: options, help, examples. The work is in ``tokur_cli.commands``, imported when it is asked for."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tokur_cli import __version__
from tokur_cli import options as opt
from tokur_cli.commands.reporting import reporting
from tokur_cli.records.errors import UsageError

app = typer.Typer(
    name="tokur",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"tokur {__version__}")
        raise typer.Exit


@app.callback()
def tokur(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Where in this answer is the model unsure, and which of these answers should I trust?

    Streams JSONL: every command reads records, adds to them and writes them.
    """


@app.command(epilog="Example: tokur score responses.jsonl -m Qwen/Qwen2.5-3B-Instruct > scored.jsonl")
def score(
    responses: Annotated[
        str | None,
        typer.Argument(
            help="JSONL of responses, plain, gzip or zstd; - or nothing for standard input.", show_default=False
        ),
    ] = None,
    model: opt.Model = None,
    draws: opt.DrawCount = 2,
    rank: opt.Rank = 8,
    sigma: opt.Sigma = 0.1,
    sampling: opt.Sampling = opt.SamplingChoice.stepwise,
    targets: opt.Targets = "q_proj,k_proj",
    seed: opt.Seed = 0,
    scores: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated scores to compute. Default: all.", rich_help_panel=opt.OUTPUT, show_default=False
        ),
    ] = None,
    no_tokens: Annotated[
        bool, typer.Option("--no-tokens", help="Leave the per-token arrays out.", rich_help_panel=opt.OUTPUT)
    ] = False,
    output: opt.Output = None,
    resume: opt.Resume = False,
    template: opt.Template = "chat",
    system: opt.System = None,
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
    """Score responses: token-level total, aleatoric and epistemic uncertainty, and scores of whole responses."""
    with reporting("score"):
        path = _input(responses)
        from tokur_cli.commands.score import ScoreOptions
        from tokur_cli.commands.score import score as run
        from tokur_cli.records.mapping import FieldMapping

        run(
            ScoreOptions(
                path=path,
                model=model,
                revision=revision,
                dtype=dtype.value,
                device_map=device_map,
                trust_remote_code=trust_remote_code,
                draws=draws,
                rank=rank,
                sigma=sigma,
                sampling=sampling.value,
                targets=targets,
                seed=seed,
                scores=scores,
                tokens=not no_tokens,
                template=template,
                system=system,
                batch_tokens=batch_tokens,
                output=output,
                resume=resume,
                skip_invalid=skip_invalid,
                format=format,
                mapping=FieldMapping(question_field, response_field, reference_field, id_field),
                requests=requests,
            )
        )


def _input(path: str | None) -> str:
    """Return the input's path; with none, standard input if a pipe is there."""
    if path is not None:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no input: give a file, or - or a pipe for standard input")
    return "-"


def main() -> None:
    """Run the command line."""
    app()
