"""The command line: options, help, examples. The work is in ``tokur_cli.commands``, imported when it is asked for."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer

from tokur_cli import __version__
from tokur_cli.commands.reporting import reporting
from tokur_cli.records.errors import UsageError

app = typer.Typer(
    name="tokur",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class SamplingChoice(str, Enum):
    """How draws and decoding steps go together."""

    stepwise = "stepwise"
    shared = "shared"
    joint = "joint"


class DtypeChoice(str, Enum):
    """Numbers the model computes with."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


# Options that mean the same in every command that has them. One without a default shows none.

_MODEL, _POSTERIOR, _INPUT, _OUTPUT = "Model", "Posterior", "Input", "Output"

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Hub id, folder or GGUF file. Default: the model that the records name, then TOKUR_MODEL, then the "
        "embedded smollm2-135m-instruct.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
Revision = Annotated[
    str | None, typer.Option(help="Branch, tag or commit on the hub.", rich_help_panel=_MODEL, show_default=False)
]
Dtype = Annotated[
    DtypeChoice, typer.Option(help="auto: bfloat16 where the hardware multiplies it fast.", rich_help_panel=_MODEL)
]
DeviceMap = Annotated[
    str, typer.Option(help="accelerate's device map: auto, cpu, cuda:0, balanced …", rich_help_panel=_MODEL)
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.", rich_help_panel=_MODEL)
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Positions in a batch, all draws counted; halved when memory does not suffice. Default: by device.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
DrawCount = Annotated[int, typer.Option(min=1, help="M, draws from the posterior.", rich_help_panel=_POSTERIOR)]
Rank = Annotated[int, typer.Option(min=1, help="r', rank of the noise.", rich_help_panel=_POSTERIOR)]
Sigma = Annotated[float, typer.Option(min=0.0, help="σ_q, perturbation strength.", rich_help_panel=_POSTERIOR)]
Sampling = Annotated[
    SamplingChoice,
    typer.Option(
        help="stepwise: a fresh draw a token (the paper); shared: one a response; joint: shared, weighted by the "
        "response's probability.",
        rich_help_panel=_POSTERIOR,
    ),
]
Targets = Annotated[
    str,
    typer.Option(
        help="Projections to perturb: comma-separated ends of names, or globs. Fused weights have such parts too.",
        rich_help_panel=_POSTERIOR,
    ),
]
Template = Annotated[
    str,
    typer.Option(
        help="How a question became the prompt: chat (the model's template), raw, math (the paper's), or a Jinja file "
        "over the record's fields. Prompts given as text, messages or ids stay as they are.",
        rich_help_panel=_INPUT,
    ),
]
System = Annotated[
    str | None, typer.Option(help="System turn for the chat template.", rich_help_panel=_INPUT, show_default=False)
]
Format = Annotated[
    str, typer.Option(help="Input format; auto recognises it from the first record.", rich_help_panel=_INPUT)
]
QuestionField = Annotated[
    str | None,
    typer.Option(help="Field of the question (dots reach inward).", rich_help_panel=_INPUT, show_default=False),
]
ResponseField = Annotated[
    str | None, typer.Option(help="Field of the response.", rich_help_panel=_INPUT, show_default=False)
]
ReferenceField = Annotated[
    str | None, typer.Option(help="Field of the gold answer.", rich_help_panel=_INPUT, show_default=False)
]
IdField = Annotated[str | None, typer.Option(help="Field of the id.", rich_help_panel=_INPUT, show_default=False)]
Requests = Annotated[
    str | None,
    typer.Option(
        help="Input file of the batch whose output is read: it has the prompts.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", help="Count bad records, go on, exit with 3.", rich_help_panel=_INPUT)
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", help="Write a file, not standard output.", rich_help_panel=_OUTPUT, show_default=False
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the -o file of a run that was cut off.", rich_help_panel=_OUTPUT)
]


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
    model: Model = None,
    draws: DrawCount = 2,
    rank: Rank = 8,
    sigma: Sigma = 0.1,
    sampling: Sampling = SamplingChoice.stepwise,
    targets: Targets = "q_proj,k_proj",
    seed: Annotated[int, typer.Option(help="Seed of the noise.", rich_help_panel=_POSTERIOR)] = 0,
    scores: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated scores to compute. Default: all.", rich_help_panel=_OUTPUT, show_default=False
        ),
    ] = None,
    no_tokens: Annotated[
        bool, typer.Option("--no-tokens", help="Leave the per-token arrays out.", rich_help_panel=_OUTPUT)
    ] = False,
    output: Output = None,
    resume: Resume = False,
    template: Template = "chat",
    system: System = None,
    format: Format = "auto",
    question_field: QuestionField = None,
    response_field: ResponseField = None,
    reference_field: ReferenceField = None,
    id_field: IdField = None,
    requests: Requests = None,
    skip_invalid: SkipInvalid = False,
    dtype: Dtype = DtypeChoice.auto,
    device_map: DeviceMap = "auto",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    batch_tokens: BatchTokens = None,
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
