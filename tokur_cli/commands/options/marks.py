"""Marks of options, ``Annotated[…, Option(…), MARK]``: which go together, which name files, which are rare.

A relation names other options as conditions: ``--sweep`` holds where the user gave it, even at its default, and
``--method=bon`` where it was given with that value.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from typer import BadParameter
from typer.models import OptionInfo

from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import check_files
from tokur_cli.records.streams import STDIN

T = TypeVar("T")
_SHARE = re.compile(r"((?:\d+(?:\.\d+)?|\.\d+)(?:e-\d+)?)\s*(%?)")


class Relation:
    """Marks an option, or those of a group but for some fields, with conditions on other options."""

    def __init__(self, *others: str, but: Collection[str] = ()) -> None:
        self.others, self.but = others, but


class Needs(Relation):
    """Marks an option that does nothing unless one of the conditions holds."""


class Excludes(Relation):
    """Marks an option that contradicts each of the conditions."""


class Rare:
    """Marks an option that few vary: ``--set NAME=VALUE`` in place of a flag of its own."""


@dataclass(frozen=True)
class Alone:
    """Marks an option whose value may be left out."""

    value: str  # the value that it has alone
    values: str  # a regular expression of what may follow it as a value; any other one is given after ``=``


@dataclass(frozen=True)
class Reads:
    """Marks a parameter that names what is read."""

    # Returns the names from the parameter's value; by default the value is a name, None for nothing. (Not a lambda
    # within the annotation, which would not find its module's names.)
    names: Callable[[Any], Iterable[str | None]] = lambda value: [value]


@dataclass(frozen=True)
class Writes(Reads):
    """Marks a parameter that names what is written, as ``Reads`` does; a folder is made as a whole."""

    folder: bool = False


def marks_of(parameter: inspect.Parameter, kind: type[T]) -> list[T]:
    """Return a parameter's marks of a kind."""
    return [mark for mark in getattr(parameter.annotation, "__metadata__", ()) if isinstance(mark, kind)]


def names_of(parameter: inspect.Parameter) -> list[str]:
    """Return what a parameter is called on the command line: an option's names, the first of which messages use."""
    for option in marks_of(parameter, OptionInfo):
        # Typer keeps the first name that an annotation gives an option as its default
        declared = [name for name in (option.default, *(option.param_decls or ())) if isinstance(name, str)]
        return declared or [f"--{parameter.name.replace('_', '-')}"]
    return [parameter.name]


def check_relations(parameters: Sequence[inspect.Parameter], values: Mapping[str, Any], given: Collection[str]) -> None:
    """Refuse options of a command that do not go together; ``given`` are the names of those that the user gave."""
    called = {name: parameter.name for parameter in parameters for name in names_of(parameter)}

    def holds(condition: str) -> bool:
        option, has_value, wanted = condition.partition("=")
        value = values[called[option]]
        typed = f"{value:g}" if isinstance(value, float) else str(value)
        return called[option] in given and (not has_value or typed == wanted)

    for parameter in parameters:
        for mark in marks_of(parameter, Relation) if parameter.name in given else ():
            option = names_of(parameter)[0]
            held = [condition.replace("=", " ") for condition in mark.others if holds(condition)]
            if isinstance(mark, Excludes) and held:
                raise UsageError(f"{option} contradicts {held[0]}: leave one of them out")
            if isinstance(mark, Needs) and not held:
                raise UsageError(f"{option} needs {' or '.join(mark.others).replace('=', ' ')}")


def check_parameters(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Check all files that a command is given."""
    inputs: list[str] = []
    outputs: list[tuple[str, bool]] = []
    for parameter in parameters:
        for mark in marks_of(parameter, Reads):
            value = values[parameter.name]
            if "" in (value if isinstance(value, list | tuple) else [value]):
                raise UsageError(f"{names_of(parameter)[0]}: the name is empty: a variable of the shell may be unset")
            names = [name for name in mark.names(value) if name is not None]
            if isinstance(mark, Writes):
                outputs += [(name, mark.folder) for name in names]
            else:
                inputs += names
    if sys.__stdout__ is None and sys.stdout and all(name == STDIN for name, _ in outputs):
        raise UsageError("standard output is closed: give a file to write to")
    if inputs.count(STDIN) > 1:
        raise UsageError("standard input is given twice: give a file in place of one -")
    check_files(inputs, outputs)


def exact_share(text: str) -> Fraction | None:
    """Return what a share such as ``10%`` or ``0.1`` stands for, from 0 to 1; None where the text is none."""
    match = _SHARE.fullmatch(text.strip())
    found = Fraction(match[1]) / (100 if match[2] else 1) if match else None
    return found if found is not None and found <= 1 else None


def number(text: str) -> float:
    """Return the number that a text is; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def share(text: str) -> float:
    """Return a share as a number, for an option whose ``parser`` this is."""
    if (found := exact_share(str(text))) is None:
        raise BadParameter(f"{text}: give a share from 0% to 100%, such as 10% or 0.1")
    return float(found)
