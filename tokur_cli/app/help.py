"""Help in two lengths from the same declarations: ``-h`` fits a screen, ``--help`` is complete."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from typer.core import TyperCommand

from tokur_cli.app.groups import RARE, SET, Groups

# Of every command: the names of the help option, and the columns beyond which text is hard to read
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_SHORT = "tokur: short help"
_SENTENCE_END = re.compile(r"(?<=[.?])\s+")
_BESIDE = 22  # columns of a term that has its text beside it; longer ones have it below
_wrapped = partial(textwrap.wrap, break_on_hyphens=False, break_long_words=False)  # options' names stay whole


class Command(TyperCommand):
    """A command with help in two lengths; ``chosen`` are the options of the short one, those needed most first."""

    groups: Groups
    chosen: Sequence[str]
    examples: Sequence[str]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, and note which help is asked for, if one is, and whose mistakes are found."""
        ctx.meta[_SHORT] = "--help" not in args
        try:
            return super().parse_args(ctx, self.groups.words(args))
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:  # click does not know where a value is missing
                vars(error)["ctx"] = ctx
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the short help or the whole one."""
        formatter.write("\n".join(_lines(self, ctx, formatter.width)))


def _lines(command: Command, ctx: Any, width: int) -> Iterator[str]:
    """Yield the lines of a command's help."""
    purpose, *details = (command.help or "").split("\n\n")
    arguments = [option for option in command.params if option.param_type_name == "argument"]
    usage = " ".join([ctx.command_path, "[OPTIONS]", *map(_placeholder, arguments)])
    yield from (*_wrapped(purpose, width), "", f"Usage: {usage}", "", "Examples:")
    for example in command.examples:
        *lines, last = _wrapped(example, width - 2, initial_indent="  ", subsequent_indent="      ")
        yield from (*(f"{line} \\" for line in lines), last)
    if ctx.meta.get(_SHORT):
        flags = {flag: option for option in command.params for flag in option.opts}
        chosen = [*arguments, *(flags[name] for name in command.chosen)]
        yield from _section("Options", [_row(option, ctx, short=True) for option in chosen], width)
        count = len(command.params) - len(arguments)
        yield from ("", f"{ctx.command_path} --help explains all {count} options.")
        return
    for paragraph in details:
        yield from ("", *_wrapped(_filled(paragraph), width))
    panels: dict[str, list[tuple[str, str]]] = {}
    for option in command.params:
        title = "Arguments" if option in arguments else getattr(option, "rich_help_panel", None) or "Options"
        rows = panels.setdefault(title, [])
        term, text = _row(option, ctx)
        if rows and rows[-1][1] == text:  # options that are explained together
            before, metavar = rows.pop()[0].rsplit(" ", 1)
            term = f"{before}, {term.removesuffix(metavar).strip()} {metavar}"
        rows.append((term, text))
    for title in sorted(panels, key=lambda title: title == RARE):
        yield from _section(title, panels[title], width)
    yield from ("", f"{ctx.command_path} -h prints the short help.")


def _filled(paragraph: str) -> str:
    """Return a paragraph with what the table of metrics says of them for ``{metrics}`` and ``{span_metrics}``."""
    if "metrics}" not in paragraph:
        return paragraph
    from tokur_cli.metrics.catalogue import explained  # not before it is asked for: it needs numpy

    return paragraph.format(metrics=explained(of_spans=False), span_metrics=explained(of_spans=True))


def _section(title: str, rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield a title and the rows below it: terms with their texts beside them, or below where a term is long."""
    column = 4 + max((len(term) for term, _ in rows if len(term) <= _BESIDE), default=4)
    yield from ("", f"{title}:")
    for term, text in rows:
        first = f"  {term}".ljust(column)
        if len(term) + 4 > column:
            yield from _wrapped(term, width, initial_indent="  ", subsequent_indent="  ")
            first = " " * column
        yield from _wrapped(text, width, initial_indent=first, subsequent_indent=" " * column)


def _row(parameter: Any, ctx: Any, *, short: bool = False) -> tuple[str, str]:
    """Return how an option or argument is given, and what it does, with its default; if ``short``, in a sentence."""
    text = parameter.help or ""
    if short:
        first, *others = _SENTENCE_END.split(text)
        text = " ".join([first, *(other for other in others if other.startswith("Default: "))])
    if parameter.param_type_name == "argument":
        return _placeholder(parameter), text
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    if default is not None and default is not False and default != []:
        text = f"{text} [default: {default}]"
    return parameter.get_help_record(ctx)[0].removeprefix(f"{SET} "), text


def _placeholder(argument: Any) -> str:
    return f"[{argument.name.upper()}]" + ("..." if argument.nargs != 1 else "")
