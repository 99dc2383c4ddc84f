"""Which options go together: marks that an option's annotation carries, and the one check that goes by them.

A mark names other options as conditions: ``--sweep`` holds where the user gave it, even at its default, and
``--method=bon`` where it was given with that value.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from typer.models import OptionInfo

from tokur_cli.records.errors import UsageError


@dataclass(frozen=True, init=False)
class Relation:
    """Marks an option, ``Annotated[…, Option(…), Needs("--other")]``, or a group of them.

    Args:
        others: the conditions that it is about.
        but: of a group, the fields that it is not about.
    """

    others: tuple[str, ...]
    but: tuple[str, ...]

    def __init__(self, *others: str, but: Collection[str] = ()) -> None:
        vars(self).update(others=others, but=tuple(but))


class Needs(Relation):
    """Marks an option that does nothing unless one of the conditions holds."""


class Excludes(Relation):
    """Marks an option that contradicts each of the conditions."""


class Rare:
    """Marks an option that few vary: ``--set NAME=VALUE`` in place of a flag of its own."""


@dataclass(frozen=True)
class Alone:
    """Marks an option whose value may be left out.

    Args:
        value: the value that it has alone.
        values: a regular expression of what may follow it as a value; any other one is given after ``=``.
    """

    value: str
    values: str


def check_relations(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any], given: Collection[str]) -> None:
    """Refuse options that do not go together.

    Args:
        parameters: of a command.
        values: of all of them, by name.
        given: the names of those that the user gave.
    """
    parameters = list(parameters)
    named = {name: parameter for parameter in parameters for name in names_of(parameter)}
    # From Python a flag may be given as False, which says as much as to leave it out
    given = {name for name in given if values[name] is not None and values[name] is not False}

    def holds(condition: str) -> bool:
        option, has_value, wanted = condition.partition("=")
        name = named[option].name
        return name in given and (not has_value or _typed(values[name]) == wanted)

    for parameter in parameters:
        for mark in relations_of(parameter) if parameter.name in given else ():
            option = names_of(parameter)[0]
            held = [condition.replace("=", " ") for condition in mark.others if holds(condition)]
            if isinstance(mark, Excludes) and held:
                raise UsageError(f"{option} contradicts {held[0]}: leave one of them out")
            if isinstance(mark, Needs) and not held:
                raise UsageError(f"{option} needs {' or '.join(mark.others).replace('=', ' ')}")


def _typed(value: Any) -> str:
    """Return a value as it would be typed."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def names_of(parameter: inspect.Parameter) -> list[str]:
    """Return what a parameter is called on the command line: an option's names, the first of which messages use."""
    for mark in _marks(parameter):
        if isinstance(mark, OptionInfo):
            # Typer keeps the first name that an annotation gives an option as its default
            declared = [name for name in (mark.default, *(mark.param_decls or ())) if isinstance(name, str)]
            return declared or [f"--{parameter.name.replace('_', '-')}"]
    return [parameter.name]


def relations_of(parameter: inspect.Parameter) -> list[Relation]:
    """Return the relations that a parameter bears."""
    return [mark for mark in _marks(parameter) if isinstance(mark, Relation)]


def _marks(parameter: inspect.Parameter) -> Iterable[Any]:
    return getattr(parameter.annotation, "__metadata__", ())
