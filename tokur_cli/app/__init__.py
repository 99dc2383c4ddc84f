"""The command line: options, help, examples. The work is in ``tokur_cli.commands``, imported when it is asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from tokur_cli import __version__
from tokur_cli.app import making, perturbing, reading
from tokur_cli.commands.launched import leave_speaking_to_rank_zero, require_sharing
from tokur_cli.commands.reporting import reporting

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
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Where in this answer is the model unsure, and which of these answers should I trust?

    Streams JSONL: every command reads records, adds to them and writes them.
    """
    command = context.invoked_subcommand or ""
    with reporting(command):
        leave_speaking_to_rank_zero()
        require_sharing(command)


app.command(epilog="Example: tokur perturb -m Qwen/Qwen2.5-3B-Instruct -o posterior --calibrate responses.jsonl")(
    perturbing.perturb
)
app.command(epilog="Example: tokur generate questions.jsonl -n 16 --temperature 0.8 > responses.jsonl")(making.generate)
app.command(epilog="Example: tokur score responses.jsonl -m Qwen/Qwen2.5-3B-Instruct > scored.jsonl")(making.score)
app.command(epilog="Example: tokur select scored.jsonl --by eu_mean --keep 10% --method wbon > selected.jsonl")(
    reading.select
)
app.command(epilog="Example: tokur evaluate scored.jsonl --versus ll_sum --group-by level --plot plots")(
    reading.evaluate
)
app.command(epilog="Example: tokur heatmap scored.jsonl --score eu,au --only incorrect --limit 3")(reading.heatmap)


def main() -> None:
    """Run the command line."""
    app()
