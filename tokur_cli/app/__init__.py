"""The command line: the commands with their options, help and examples; ``tokur_cli.commands`` does the work."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from inspect import Parameter, Signature, getdoc
from typing import Annotated, Any

import typer

from tokur_cli import __version__
from tokur_cli.app.commands import evaluate, generate, heatmap, perturb, score, select
from tokur_cli.app.groups import Groups
from tokur_cli.app.help import SETTINGS, Command
from tokur_cli.commands.shared.errors import claim_standard_streams, reporting, say
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.streams import STDIN

app = typer.Typer(
    name="tokur",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    epilog="tokur COMMAND -h shows examples and the options that most people need, tokur COMMAND --help all of them.",
)


def _print_version(context: typer.Context, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        print(f"tokur {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def tokur(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Where in this answer is the model unsure, and which of these answers should I trust?

    Every command reads JSON lines; generate, score and select add to them.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(UsageError.exit_code)


def register(commands: typer.Typer, command: Callable[..., None], short_help: str = "", *examples: str) -> None:
    """Make a function a command with an option for each field of its groups; its errors are reported, not raised.

    Args:
        commands: what it joins.
        command: takes the filled groups.
        short_help: the names of the options that its short help has.
        examples: command lines that work as they stand where the repository is checked out.
    """
    groups = Groups(command)

    @functools.wraps(command)
    def run(context: typer.Context, **_: Any) -> None:
        with reporting(command.__name__):
            command(**groups.fill(context))

    # Lines break where the terminal's do, not where the docstring's do
    run.__doc__ = "\n\n".join(" ".join(part.split()) for part in (getdoc(command) or "").split("\n\n"))
    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    vars(run)["__signature__"] = Signature([context, *groups.parameters])
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *groups.parameters)}
    chosen = [f"--{name}" for name in short_help.split()]
    members = {"groups": groups, "chosen": chosen, "examples": examples}
    commands.command(cls=type("Command", (Command,), members), short_help=re.split(r"(?<=[.?]) ", run.__doc__)[0])(run)


register(
    app,
    perturb,
    "model output calibrate sweep limit sigma rank draws targets layers seed",
    "tokur perturb --calibrate samples/responses.jsonl --limit 16 -o posterior",
    "tokur perturb --sweep 0.03,0.1,0.3 samples/responses.jsonl --limit 16",
)
register(
    app,
    generate,
    "question model samples temperature top-p max-new-tokens stop stop-at seed template score guide workers output "
    "resume",
    'tokur generate --question "What is 7 × 8?" --score | tokur heatmap',
    "head -n 8 samples/questions.jsonl | tokur generate -n 4 --temperature 0.8 > responses.jsonl",
)
register(
    app,
    score,
    "model scores draws sigma posterior estimator steps alternatives no-tokens calibration dtype output resume",
    "tokur score samples/responses.jsonl > scored.jsonl",
    "head -n 8 samples/responses.jsonl | tokur score --scores eu,ll_sum,p_true",
)
register(
    app,
    select,
    "by keep method weight abstain certificate label-field answer records output skip-invalid",
    "tokur select scored.jsonl > selected.jsonl",
    "tokur select scored.jsonl --by ll_sum --method wbon > selected.jsonl",
)
register(
    app,
    evaluate,
    "scores versus group-by level scaling label-field answer fit certify plot as output",
    "tokur evaluate scored.jsonl",
    "tokur evaluate scored.jsonl --scores eu,ll_sum,neg_length --versus ll_sum",
)
register(
    app,
    heatmap,
    "score range id sample only by limit compare html svg theme detail",
    "tokur heatmap scored.jsonl --limit 3",
    "tokur heatmap scored.jsonl --score eu,au --html page.html",
)


def main() -> None:
    """Run the command line."""
    claim_standard_streams()
    with reporting(""), writing_whole(STDIN):  # for help: the commands report their own errors
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
