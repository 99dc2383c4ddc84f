"""What is wrong with a command line, in the words of the other messages."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from tokur_cli.app.help import flags_of

_SURELY = 5  # letters of what may be the beginning of an option's name, with its dashes


def usage_message(error: Any) -> str:
    """Return what an error of click's says about a command line, in one line.

    Args:
        error: of click or of typer, which has its own copy: their classes differ, so it goes by their attributes.
    """
    if hasattr(error, "possibilities"):
        return f"there is no option {error.option_name}; {_advice(error.option_name, error.ctx)}"
    if getattr(error, "param", None) is not None and error.message:
        name = max(error.param.opts, key=len)
        what = error.message.rstrip(".").removeprefix("Value error, ").partition(", unable to parse")[0]
        if not what.startswith("Input should be "):
            return f"{name}: {what}"
        found = getattr(error.__cause__, "errors", None)  # of pydantic's, which knows the value
        given = f' has "{found()[0]["input"]}"; it' if found else ""
        return f"{name}{given} must be {what[16:]}"
    message = error.format_message().rstrip(".")
    if extra := re.fullmatch(r"Got unexpected extra argument\S* \((.*)\)", message):
        return f"there is one input: leave out {extra[1]}"
    message = re.sub(r"^Option '(\S+)'", r"\1", message)
    return message if message.startswith("-") else message[:1].lower() + message[1:]


def _advice(name: str, ctx: Any) -> str:
    """Return what may have been meant by an option that a command does not have, else where the options are told."""
    flags = list(flags_of(ctx.command, ctx))
    begun = [flag for flag in flags if len(name) >= _SURELY and flag.startswith(name)]
    commands = getattr(ctx.find_root().command, "commands", {})
    having = [command.name for command in commands.values() if name in flags_of(command, ctx)]
    meant = begun or ([] if having else get_close_matches(name, flags, n=1, cutoff=0.7))
    if meant:
        return f"did you mean {' or '.join(sorted(meant, key=len)[:3])}?"
    if having:
        return f"it is an option of tokur {', '.join(having)}"
    return f"{ctx.command_path} --help lists all"
