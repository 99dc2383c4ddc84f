"""The command line: the commands with their options, help and examples.

The work is in ``tokur_cli.commands``, imported when it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tokur_cli import __version__
from tokur_cli.app.commands import evaluate, generate, heatmap, perturb, score, select
from tokur_cli.app.groups import with_groups
from tokur_cli.app.help import SETTINGS, Brief, Command, Group
from tokur_cli.commands.shared.errors import claim_standard_streams, reporting, say
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming

app = typer.Typer(
    name="tokur",
    cls=Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    epilog="tokur COMMAND -h shows examples and the options that most people need, tokur COMMAND --help all of them.",
)


def _print_version(context: typer.Context, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        print(f"tokur {__version__}")
        raise typer.Exit


@app.callback()
def tokur(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Where in this answer is the model unsure, and which of these answers should I trust?

    Every command reads records as JSON lines, adds to them and writes them.
    """


def _register(command: Callable[..., None], short_help: str, *examples: str) -> None:
    """Make a function a command; ``short_help`` names the options that its short help has."""
    brief = Brief(examples, [f"--{name}" for name in short_help.split()])
    run, groups = with_groups(command)
    app.command(cls=type("Command", (Command,), {"brief": brief, "words": staticmethod(groups.words)}))(run)


_register(
    perturb,
    "model output calibrate sweep limit sigma rank draws targets layers seed",
    "tokur perturb --calibrate samples/responses.jsonl --limit 16 -o posterior",
    "tokur perturb --sweep 0.03,0.1,0.3 samples/responses.jsonl --limit 16",
)
_register(
    generate,
    "question model samples temperature top-p max-new-tokens stop stop-at seed template score guide workers output "
    "resume",
    'tokur generate --question "What is 7 × 8?" --score | tokur heatmap',
    "head -n 8 samples/questions.jsonl | tokur generate -n 4 --temperature 0.8 > responses.jsonl",
)
_register(
    score,
    "model scores draws sigma posterior estimator steps alternatives no-tokens calibration dtype output resume",
    "tokur score samples/responses.jsonl > scored.jsonl",
    "head -n 8 samples/responses.jsonl | tokur score --scores eu,ll_sum,p_true",
)
_register(
    select,
    "by keep method weight abstain certificate label-field answer records output skip-invalid",
    "tokur select scored.jsonl > selected.jsonl",
    "tokur select scored.jsonl --by ll_sum --method wbon > selected.jsonl",
)
_register(
    evaluate,
    "scores versus group-by level scaling label-field answer fit certify plot as output",
    "tokur evaluate scored.jsonl",
    "tokur evaluate scored.jsonl --scores eu,ll_sum,neg_length --versus ll_sum",
)
_register(
    heatmap,
    "score range id sample only by limit compare html svg theme detail",
    "tokur heatmap scored.jsonl --limit 3",
    "tokur heatmap scored.jsonl --score eu,au --html page.html",
)


def main() -> None:
    """Run the command line."""
    claim_standard_streams()
    with reporting(""), naming(STANDARD_OUTPUT):  # for help: the commands report their own errors
        try:
            code = app(prog_name="tokur", standalone_mode=False)
        except Exception as error:
            context = vars(error).get("ctx")
            say(context.info_name if context and context.parent else "", usage_message(error))
            code = vars(error).get("exit_code", UsageError.exit_code)
        sys.exit(code)


def usage_message(error: Any) -> str:
    """Return what an error of click's says about a command line, in one line: of an option's value, after its name.

    Any other error is raised.
    """
    if not hasattr(error, "format_message"):  # click's errors about usage, of which typer has its own copy
        raise error
    if getattr(error, "param", None) is not None and error.message:
        return f"{max(error.param.opts, key=len)}: {error.message.rstrip('.').removeprefix('Value error, ')}"
    message: str = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:]
