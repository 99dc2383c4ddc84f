"""Help in two lengths from the same declarations: ``-h`` fits a screen, ``--help`` is complete."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from tokur_cli.app.groups import RARE, SET
from tokur_cli.records.errors import UsageError

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Of every command: the names of the help option, and the columns beyond which text is hard to read."""

_SHORT = "tokur: short help"
_SENTENCE_END = re.compile(r"(?<=[.?])\s+")
_BESIDE = 22  # columns of a term that has its text beside it; longer ones have it below


@dataclass(frozen=True)
class Brief:
    """What stands at the top of a command's help, and which options the short one has.

    Args:
        examples: command lines that work as they stand where the repository is checked out.
        options: by their long names, those that most people need; the first are needed most.
    """

    examples: Sequence[str]
    options: Sequence[str] = ()


class Command(TyperCommand):
    """A command with help in two lengths; see ``with_help``. ``words``: see ``Groups.words``."""

    brief: Brief
    words: Callable[[Sequence[str]], list[str]]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, and note which help is asked for, if one is, and whose mistakes are found."""
        ctx.meta[_SHORT] = "--help" not in args
        try:
            return super().parse_args(ctx, self.words(args))
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:  # click does not know where a value is missing
                vars(error)["ctx"] = ctx
            raise

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return what the command does, in a sentence."""
        return _SENTENCE_END.split(self.help or "", maxsplit=1)[0]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the short help or the whole one."""
        formatter.write("\n".join(_help_of_command(self, ctx, formatter.width)))


class Group(TyperGroup):
    """The commands, with help in two lengths; where none is named, the short one, and a usage error's exit code."""

    brief: Brief

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line up to the command, and note which help is asked for, if one is."""
        ctx.meta[_SHORT] = "--help" not in args
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(UsageError.exit_code)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the short help or the whole one."""
        formatter.write("\n".join(_help_of_group(self, ctx, formatter.width)))


def with_help(kind: type[Any], brief: Brief, **more: Any) -> type[Any]:
    """Return ``Command`` or ``Group`` as one with this brief, for Typer to make the command of."""
    return type(kind.__name__, (kind,), {"brief": brief, **more})


def flags_of(command: Any, ctx: Any) -> dict[str, Any]:
    """Return a command's parameters by each of their options' names."""
    return {flag: parameter for parameter in command.get_params(ctx) for flag in parameter.opts if flag[0] == "-"}


def _help_of_command(command: Command, ctx: Any, width: int) -> Iterator[str]:
    purpose, *details = command.help.split("\n\n") if command.help else [""]
    yield from _head(purpose, command, ctx, width)
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter not in arguments]
    if ctx.meta.get(_SHORT):
        flags = flags_of(command, ctx)
        chosen = [*arguments, *(flags[name] for name in command.brief.options)]
        yield from _section("Options", _records(chosen, ctx, short=True), width)
        yield from ("", f"{ctx.command_path} --help explains all {len(options)} options.")
        return
    for paragraph in details:
        yield from ("", *_wrapped(_filled(paragraph), width))
    panels: dict[str, list[Any]] = {"Arguments": arguments} if arguments else {}
    for option in options:
        panels.setdefault(getattr(option, "rich_help_panel", None) or "Options", []).append(option)
    for title in sorted(panels, key=lambda title: title == RARE):
        yield from _section(title, _records(panels[title], ctx, short=title == RARE), width)
    yield from _section("Help", [("-h", "The short help."), ("--help", "This help.")], width)


def _filled(paragraph: str) -> str:
    """Return a paragraph with what the table of metrics says of them for ``{metrics}`` and ``{span_metrics}``."""
    if "metrics}" not in paragraph:
        return paragraph
    from tokur_cli.metrics.catalogue import explained  # not before it is asked for: it needs numpy

    return paragraph.format(metrics=explained(of_spans=False), span_metrics=explained(of_spans=True))


def _help_of_group(group: Group, ctx: Any, width: int) -> Iterator[str]:
    short = ctx.meta.get(_SHORT)
    purposes = [
        (name, command.get_short_help_str() if short else (command.help or "").split("\n\n")[0])
        for name, command in group.commands.items()
    ]
    yield from _head((group.help or "").replace("\n\n", " "), group, ctx, width)
    yield from _section("Commands", purposes, width)
    if not short:
        yield from _section("Options", _records(group.params, ctx), width)
        yield from _section("Help", [("-h", "The short help."), ("--help", "This help.")], width)
    yield from ("", *_wrapped("tokur COMMAND -h shows examples and the options that most people need,", width))
    yield "tokur COMMAND --help all of them."


def _head(purpose: str, command: Any, ctx: Any, width: int) -> Iterator[str]:
    """Yield what the command is for, how it is called, and its examples."""
    yield from _wrapped(purpose, width)
    taken = [_placeholder(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    usage = ["[OPTIONS]", *taken] if isinstance(command, Command) else ["COMMAND", "[OPTIONS]", "[FILE]"]
    yield from ("", " ".join([_heading("Usage"), ctx.command_path, *usage]))
    examples = command.brief.examples
    yield from ("", _heading("Examples" if len(examples) > 1 else "Example"))
    for example in examples:
        yield from _wrapped(example, width - 2, "  ", "      ", end=" \\")


def _section(title: str, rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield a title and the rows below it: terms with their texts beside them, or below where a term is long."""
    rows = list(rows)
    column = 4 + max((len(term) for term, _ in rows if len(term) <= _BESIDE), default=4)
    yield from ("", _heading(title))
    for term, text in rows:
        lines = list(_wrapped(text, width, " " * column))
        head = f"  {_styled(term, fg='cyan')}"
        if lines and len(term) + 4 <= column:
            head += lines.pop(0)[len(term) + 2 :]
        yield from (head, *lines)


def _records(parameters: Iterable[Any], ctx: Any, *, short: bool = False) -> Iterator[tuple[str, str]]:
    """Yield how options and arguments are given, and what each does; ``short``: in a sentence, with the default."""
    for parameter in parameters:
        term, told = parameter.get_help_record(ctx)
        if parameter.param_type_name == "argument":
            term = _placeholder(parameter)
        text = parameter.help or ""
        extra = told.removeprefix(text).replace("\\[", "[")  # the default and the range; some versions escape it
        extra = re.sub(r"default: \(([^()]*)\)", r"default: \1", extra)  # words in place of a value
        extra = re.sub(r"(?:; )?[\d.e-]*<?=?x[<>]=[\d.e-]+", "", extra).replace("[]", "")
        if short:
            text, *others = _SENTENCE_END.split(text)
            defaults = [other for other in others if other.startswith("Default: ")]
            extra = " ".join([*defaults, *(f"[{default}]" for default in re.findall(r"default: [^;\]]*", extra))])
        yield " ".join(term.split()).removeprefix(f"{SET} "), f"{text} {extra}".strip()


def _placeholder(argument: Any) -> str:
    return f"[{argument.name.upper()}]" + ("..." if argument.nargs != 1 else "")


def _wrapped(text: str, width: int, first: str = "", others: str | None = None, end: str = "") -> list[str]:
    """Return the lines of a text, in which no option's name is broken."""
    lines = textwrap.wrap(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=first if others is None else others,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [*(line + end for line in lines[:-1]), *lines[-1:]]


def _heading(title: str) -> str:
    return _styled(f"{title}:", bold=True)


def _styled(text: str, **style: Any) -> str:
    """Return a text in a style, which typer takes off where there is no terminal."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, **style)
