"""Commands that take groups of options: dataclasses whose fields, annotated with ``typer.Option``, are the options."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, get_type_hints

import typer
import typer.main
from typer.models import OptionInfo

from tokur_cli.commands.options.files import check_parameters
from tokur_cli.commands.options.relations import Alone, Rare, Relation, check_relations
from tokur_cli.commands.shared.errors import reporting


@dataclasses.dataclass(frozen=True)
class Without:
    """Marks a parameter ``Annotated[Group, Without("field", …)]``: the command lacks these options of the group."""

    fields: tuple[str, ...]

    def __init__(self, *fields: str) -> None:
        object.__setattr__(self, "fields", fields)


SET = "--set"
"""With a name and a value, what a rare option is given by; with the name, its flag for the parser."""
RARE = "Rare, each by --set NAME=VALUE"
"""The title of rare options in the help."""


class Groups:
    """The groups of options that a command takes, and the parameters that Typer makes options of.

    Attributes:
        parameters: one for each option, and the command's others.
    """

    def __init__(self, command: Callable[..., None]) -> None:
        self.parameters: list[inspect.Parameter] = []
        self._groups: dict[str, tuple[Any, list[str]]] = {}
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            group = getattr(parameter.annotation, "__origin__", parameter.annotation)
            if dataclasses.is_dataclass(group):
                options = list(_options(group, getattr(parameter.annotation, "__metadata__", ())))
                self._groups[name] = group, [option.name for option in options]
                self.parameters += options
            else:
                self.parameters.append(parameter)

    def words(self, args: Sequence[str]) -> list[str]:
        """Return a command line for click: each ``--set NAME=VALUE`` as one word, and no option without its value."""
        alone = {f"--{one.name}": mark for one in self.parameters for mark in _marks(one) if isinstance(mark, Alone)}
        found, words = [], list(args)
        while words:
            word = words.pop(0)
            if mark := alone.get(word):
                is_value = words and re.fullmatch(mark.values, words[0])
                found.append(f"{word}={words.pop(0) if is_value else mark.value}")
            elif word == SET or word.startswith(f"{SET}="):
                setting = (words.pop(0) if words else "") if word == SET else word.removeprefix(f"{SET}=")
                name, _, value = setting.partition("=")
                if value.lower() != "false":
                    found.append(f"{SET} {name}" if value.lower() == "true" else f"{SET} {setting}")
            else:
                found.append(word)
        return found

    def fill(self, values: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
        """Return the filled groups by name, and the values that belong to none.

        A group with a field ``given`` has the names of its options there that the user gave.
        """
        check_relations(self.parameters, values, given)
        filled = {}
        for name, (group, options) in self._groups.items():
            own = {option: values[option] for option in options}
            if any(field.name == "given" for field in dataclasses.fields(group)):
                own["given"] = frozenset(options) & frozenset(given)
            filled[name] = group(**own)
        grouped = {option for _, options in self._groups.values() for option in options}
        return {**{name: value for name, value in values.items() if name not in grouped}, **filled}


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer with a parameter for each option; it passes the filled groups to ``command``.

    A group's class attribute ``panel`` is the panel of its options in the help, unless an option names its own. Fields
    without an option keep their default. The files that the parameters name are checked first, then which options go
    together. Errors of that, of the groups and of the command are reported, not raised.
    """
    groups = Groups(command)

    @functools.wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        with reporting(command.__name__):
            check_parameters(groups.parameters, values)
            command(**groups.fill(values, given_in(context)))

    # Lines break where the terminal's do, not where the docstring's do
    run.__doc__ = "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(command) or "").split("\n\n"))
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *groups.parameters]
    vars(run)["words"] = groups.words
    vars(run)["__signature__"] = inspect.signature(command, eval_str=True).replace(parameters=parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def parser_of(command: Callable[..., None]) -> Any:
    """Return click's command, which knows the options and converts their values, of one command alone."""
    alone = typer.Typer(add_completion=False)
    alone.command(command.__name__)(with_groups(command))
    return typer.main.get_command(alone)


def given_in(context: typer.Context) -> set[str]:
    """Return the names of the parameters that the user gave, whatever their values."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


def _marks(parameter: inspect.Parameter) -> tuple[Any, ...]:
    return getattr(parameter.annotation, "__metadata__", ())


def _options(group: Any, marks: tuple[Any, ...]) -> Iterator[inspect.Parameter]:
    left_out = {field for mark in marks if isinstance(mark, Without) for field in mark.fields}
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        hint = hints[field.name]
        declared = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, OptionInfo)]
        if not declared or field.name in left_out:
            continue
        option = copy.copy(declared[0])
        if any(isinstance(mark, Rare) for mark in hint.__metadata__):
            option.param_decls, option.rich_help_panel = (f"{SET} {field.name}",), RARE
        option.rich_help_panel = option.rich_help_panel or group.panel
        if hint.__origin__ is bool:
            option.metavar = ""  # a flag takes no value
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        others = [mark for mark in hint.__metadata__ if not isinstance(mark, OptionInfo)]
        others += [mark for mark in marks if isinstance(mark, Relation) and field.name not in mark.but]
        annotation = operator.getitem(Annotated, (hint.__origin__, option, *others))
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
