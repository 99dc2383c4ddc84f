"""The command line: the commands with their options, help and examples.

The work is in ``tokur_cli.commands``, imported when it is asked for.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tokur_cli import __version__
from tokur_cli.app.commands import evaluate, generate, heatmap, perturb, score, select
from tokur_cli.app.groups import with_groups
from tokur_cli.commands.shared.errors import claim_standard_streams, harmless, reporting
from tokur_cli.commands.workers.launcher import refuse_launchers
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming

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
        bool,
        typer.Option(
            "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Where in this answer is the model unsure, and which of these answers should I trust?

    Streams JSONL: every command reads records, adds to them and writes them.
    """
    with reporting(context.invoked_subcommand or ""):
        refuse_launchers()


for command, example in (
    (perturb, "tokur perturb -m Qwen/Qwen2.5-3B-Instruct -o posterior --calibrate responses.jsonl"),
    (generate, "tokur generate questions.jsonl -n 16 --temperature 0.8 > responses.jsonl"),
    (score, "tokur score responses.jsonl -m Qwen/Qwen2.5-3B-Instruct > scored.jsonl"),
    (select, "tokur select scored.jsonl --by eu_mean --keep 10% --method wbon > selected.jsonl"),
    (evaluate, "tokur evaluate scored.jsonl --versus ll_sum --group-by level --plot plots"),
    (heatmap, "tokur heatmap scored.jsonl --score eu,au --only incorrect --limit 3"),
):
    app.command(epilog=f"Example: {example}")(with_groups(command))


def main() -> None:
    """Run the command line."""
    claim_standard_streams()
    with reporting(""), naming(STANDARD_OUTPUT):  # for help: the commands report their own errors
        try:
            code = app(standalone_mode=False)
        except Exception as error:
            if not hasattr(error, "format_message"):  # click's errors about usage, of which typer has its own copy
                raise
            code = _refuse(error)
        sys.exit(code)


def _refuse(error: Any) -> int:
    """Show an error of click's, in which what was typed is harmless, and return the exit code."""
    from typer import rich_utils

    message = harmless(error.format_message().replace(": Value error, ", ": "))
    error.format_message = lambda: message
    rich_utils.rich_format_error(error)
    return int(error.exit_code)
