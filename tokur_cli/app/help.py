"""Help in two lengths from the same declarations: ``-h`` fits a screen, ``--help`` is complete."""

from __future__ import annotations

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
    """A command with help in two lengths.

    Attributes:
        brief: what its help has beside the options.
        words: see ``Groups.words``.
    """

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
    """The commands; where none is named, the help, and a usage error's exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line up to the command."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(UsageError.exit_code)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write what the commands do."""
        width = formatter.width
        purposes = [(name, command.get_short_help_str()) for name, command in self.commands.items()]
        lines = [*_head(ctx, width, (self.help or "").replace("\n\n", " "), "COMMAND [OPTIONS] [FILE]")]
        lines += [*_section("Commands", purposes, width), *_section("Options", _records(self.params, ctx), width), ""]
        lines += _wrapped("tokur COMMAND -h shows examples and the options that most people need,", width)
        formatter.write("\n".join([*lines, "tokur COMMAND --help all of them."]))


def _help_of_command(command: Command, ctx: Any, width: int) -> Iterator[str]:
    purpose, *details = command.help.split("\n\n") if command.help else [""]
    arguments = [option for option in command.params if option.param_type_name == "argument"]
    yield from _head(ctx, width, purpose, " ".join(["[OPTIONS]", *map(_placeholder, arguments)]))
    yield from ("", "Examples:")
    for example in command.brief.examples:
        *lines, last = _wrapped(example, width - 2, "  ", "      ")
        yield from (*(f"{line} \\" for line in lines), last)
    if ctx.meta.get(_SHORT):
        flags = {flag: option for option in command.params for flag in option.opts}
        chosen = [*arguments, *(flags[name] for name in command.brief.options)]
        yield from _section("Options", _records(chosen, ctx, short=True), width)
        count = len(command.params) - len(arguments)
        yield from ("", f"{ctx.command_path} --help explains all {count} options.")
        return
    for paragraph in details:
        yield from ("", *_wrapped(_filled(paragraph), width))
    panels: dict[str, list[Any]] = {}
    for option in command.params:
        title = "Arguments" if option in arguments else "Options"
        panels.setdefault(getattr(option, "rich_help_panel", None) or title, []).append(option)
    for title in sorted(panels, key=lambda title: title == RARE):
        yield from _section(title, _records(panels[title], ctx, short=title == RARE), width)
    yield from ("", f"{ctx.command_path} -h prints the short help.")


def _head(ctx: Any, width: int, purpose: str, taken: str) -> Iterator[str]:
    """Yield what a command is for, and how it is called."""
    yield from (*_wrapped(purpose, width), "", f"Usage: {ctx.command_path} {taken}")


def _filled(paragraph: str) -> str:
    """Return a paragraph with what the table of metrics says of them for ``{metrics}`` and ``{span_metrics}``."""
    if "metrics}" not in paragraph:
        return paragraph
    from tokur_cli.metrics.catalogue import explained  # not before it is asked for: it needs numpy

    return paragraph.format(metrics=explained(of_spans=False), span_metrics=explained(of_spans=True))


def _section(title: str, rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield a title and the rows below it: terms with their texts beside them, or below where a term is long."""
    rows = list(rows)
    column = 4 + max((len(term) for term, _ in rows if len(term) <= _BESIDE), default=4)
    yield from ("", f"{title}:")
    for term, text in rows:
        terms, lines = _wrapped(term, width - 2), _wrapped(text, width, " " * column)
        beside = lines.pop(0)[len(term) + 2 :] if lines and len(term) + 4 <= column else ""
        yield from (f"  {line}{beside}" for line in terms)
        yield from lines


def _records(parameters: Iterable[Any], ctx: Any, *, short: bool = False) -> list[tuple[str, str]]:
    """Return how options and arguments are given, and what each does; those with the same text share a row.

    Args:
        parameters: click's.
        ctx: click's.
        short: in a sentence, with the default.
    """
    rows: dict[str, str] = {}
    for parameter in parameters:
        term, found = parameter.get_help_record(ctx)
        text = parameter.help or ""
        extra = found.removeprefix(text).replace("\\[", "[")  # the default and the range; some versions escape it
        extra = re.sub(r"default: \(([^()]*)\)", r"default: \1", extra)  # words in place of a value
        extra = re.sub(r"(?:; )?[\d.e-]*<?=?x[<>]=[\d.e-]+", "", extra).replace("[]", "")
        if short:
            text, *others = _SENTENCE_END.split(text)
            defaults = [other for other in others if other.startswith("Default: ")]
            extra = " ".join([*defaults, *(f"[{default}]" for default in re.findall(r"default: [^;\]]*", extra))])
        text = f"{text} {extra}".strip()
        term = " ".join(term.split()).removeprefix(f"{SET} ")
        if parameter.param_type_name == "argument":
            term = _placeholder(parameter)
        elif text in rows:
            term = f"{rows[text].removesuffix(' ' + term.partition(' ')[2])}, {term}"
        rows[text] = term
    return [(term, text) for text, term in rows.items()]


def _placeholder(argument: Any) -> str:
    return f"[{argument.name.upper()}]" + ("..." if argument.nargs != 1 else "")


def _wrapped(text: str, width: int, first: str = "", others: str | None = None) -> list[str]:
    """Return the lines of a text, in which no option's name is broken."""
    return textwrap.wrap(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=first if others is None else others,
        break_on_hyphens=False,
        break_long_words=False,
    )
