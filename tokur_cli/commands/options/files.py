"""Which options and arguments name files: what the one check of inputs and outputs goes by."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokur_cli.commands.options.relations import names_of
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import check_files, check_writable
from tokur_cli.records.published import file_behind
from tokur_cli.records.streams import STDIN

Names = Callable[[Any], Iterable[str | None]]


@dataclass(frozen=True)
class Reads:
    """Marks a parameter, ``Annotated[str | None, …, Reads()]``, that names what is read.

    Args:
        names: returns the names from the parameter's value; by default the value is a name, None for nothing. (Not a
            lambda within the annotation, which would not find its module's names.)
    """

    names: Names = lambda value: [value]


@dataclass(frozen=True)
class Writes:
    """Marks a parameter that names what is written, as ``Reads`` does; a folder is made as a whole."""

    names: Names = lambda value: [value]
    folder: bool = False


def check_parameters(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Check all files that a command is given."""
    of_files = [
        (parameter, mark)
        for parameter in parameters
        for mark in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(mark, Reads | Writes)
    ]
    for parameter, _ in of_files:
        value = values[parameter.name]
        if "" in (value if isinstance(value, Sequence) and not isinstance(value, str) else [value]):
            raise UsageError(f"{names_of(parameter)[0]}: the name is empty: a variable of the shell may be unset")
    marked = [
        (mark, [name for name in mark.names(values[parameter.name]) if name is not None])
        for parameter, mark in of_files
    ]
    read = (file_behind(name) for mark, names in marked if isinstance(mark, Reads) for name in names)
    inputs = [file for file in read if file is not None]
    outputs = [name for mark, names in marked if isinstance(mark, Writes) for name in names]
    if sys.__stdout__ is None and all(name == STDIN for name in outputs):
        raise UsageError("standard output is closed: give a file to write to")
    for mark, names in marked:
        if isinstance(mark, Writes):
            for name in names:
                if name != STDIN:
                    check_writable(name, folder=mark.folder)
    check_files(inputs, outputs)
