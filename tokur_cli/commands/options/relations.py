"""Which options go together: marks that an option's annotation carries, and the one check that goes by them.

A mark names other options as conditions: ``--sweep`` holds where the user gave it, even at its default, and
``--method=bon`` where it was given with that value.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typer.models import OptionInfo

from tokur_cli.records.errors import UsageError


@dataclass(frozen=True, init=False)
class Relation:
    """Marks an option, ``Annotated[…, Option(…), Needs("--other", why="…")]``, or a group of them.

    Args:
        others: the conditions that it is about.
        why: what the user is told where the relation is broken: what, why and what to do. ``{option}`` is the marked
            option, ``{others}`` those of the conditions that hold, ``{value}`` the value of the first of them
            (of the first condition's option where none holds).
        when: the value of the marked option that the relation is about; None for all.
        but: of a group, the fields that it is not about.
    """

    others: tuple[str, ...]
    why: str
    when: str | None
    but: tuple[str, ...]

    def __init__(self, *others: str, why: str, when: str | None = None, but: Collection[str] = ()) -> None:
        vars(self).update(others=others, why=why, when=when, but=tuple(but))

    @property
    def conditions(self) -> tuple[str, ...]:
        """All conditions that it names."""
        return self.others

    def is_broken(self, call: Call) -> bool:
        """Return whether a call that gives the marked option breaks the relation."""
        raise NotImplementedError


class Needs(Relation):
    """Marks an option that says nothing unless one of the conditions holds."""

    def is_broken(self, call: Call) -> bool:
        """Return whether none of them holds."""
        return not any(map(call.holds, self.others))


@dataclass(frozen=True, init=False)
class Excludes(Relation):
    """Marks an option that contradicts each of the conditions.

    Args:
        others, why, when, but: as for ``Relation``.
        unless: a condition under which it goes with them.
    """

    unless: str | None

    def __init__(self, *others: str, why: str, unless: str | None = None, **more: Any) -> None:
        super().__init__(*others, why=why, **more)
        vars(self).update(unless=unless)

    @property
    def conditions(self) -> tuple[str, ...]:
        """All conditions that it names."""
        return (*self.others, *([] if self.unless is None else [self.unless]))

    def is_broken(self, call: Call) -> bool:
        """Return whether one of them holds."""
        return any(map(call.holds, self.others)) and not (self.unless is not None and call.holds(self.unless))


class Call:
    """What a command is given: its parameters, all their values, and the names of those that the user gave."""

    def __init__(
        self, parameters: Iterable[inspect.Parameter], values: Mapping[str, Any], given: Collection[str]
    ) -> None:
        # Options first: what is wrong with one says more than that the file beside it is not read
        self._parameters = sorted(parameters, key=lambda parameter: not names_of(parameter)[0].startswith("-"))
        self._named = {name: parameter for parameter in self._parameters for name in names_of(parameter)}
        self._values = values
        # From Python a flag may be given as False, which says as much as to leave it out
        self._given = {name for name in given if values[name] is not None and values[name] is not False}

    def holds(self, condition: str) -> bool:
        """Return whether an option is given and, where the condition has a value, has it."""
        option, has_value, wanted = condition.partition("=")
        parameter = self._named[option]
        return parameter.name in self._given and (not has_value or self._text(parameter) == wanted)

    def broken(self) -> Iterator[tuple[inspect.Parameter, Relation]]:
        """Yield the relations that are broken, with the parameters that bear them."""
        for parameter in self._parameters:
            if parameter.name in self._given:
                for mark in relations_of(parameter):
                    if mark.when in (None, self._text(parameter)) and mark.is_broken(self):
                        yield parameter, mark

    def check(self) -> None:
        """Refuse options that do not go together."""
        for parameter, mark in self.broken():
            others = [condition.partition("=")[0] for condition in mark.others]
            held = [option for option, condition in zip(others, mark.others, strict=True) if self.holds(condition)]
            value = self._text(self._named[(held or others)[0]])
            option = names_of(parameter)[0]
            raise UsageError(mark.why.format(option=option, others=" and ".join(held), value=value))

    def lacking(self) -> set[str]:
        """Return the names of given parameters that say nothing here, for want of another option."""
        return {parameter.name for parameter, mark in self.broken() if isinstance(mark, Needs)}

    def _text(self, parameter: inspect.Parameter) -> str:
        """Return a parameter's value as it would be typed."""
        value = self._values[parameter.name]
        return f"{value:g}" if isinstance(value, float) else str(value)


def names_of(parameter: inspect.Parameter) -> list[str]:
    """Return what a parameter is called on the command line: an option's names, the first of which messages use."""
    for mark in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(mark, OptionInfo):
            # Typer keeps the first name that an annotation gives an option as its default
            declared = [name for name in (mark.default, *(mark.param_decls or ())) if isinstance(name, str)]
            return declared or [f"--{parameter.name.replace('_', '-')}"]
    return [parameter.name]


def relations_of(parameter: inspect.Parameter) -> list[Relation]:
    """Return the relations that a parameter bears."""
    return [mark for mark in getattr(parameter.annotation, "__metadata__", ()) if isinstance(mark, Relation)]
