"""Commands that take groups of options: dataclasses whose fields, annotated with ``typer.Option``, are the options."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, get_type_hints

from typer.models import OptionInfo

from tokur_cli.commands.options.marks import Alone, Rare, Relation, check_parameters, check_relations, marks_of

SET = "--set"  # with a name and a value, what a rare option is given by; with the name, its flag for the parser
RARE = "Rare, each by --set NAME=VALUE"  # their title in the help


@dataclasses.dataclass(frozen=True)
class Without:
    """Marks a parameter ``Annotated[Group, Without(("field", …))]``: the command lacks these options of the group."""

    fields: tuple[str, ...]


class Groups:
    """The groups of options that a command takes.

    A group's class attribute ``panel`` is the panel of its options in the help, unless an option names its own. Fields
    without an option keep their default.

    Attributes:
        parameters: one for each option, of which Typer makes options, and the command's others.
    """

    def __init__(self, command: Callable[..., None]) -> None:
        self.parameters: list[inspect.Parameter] = []
        self._groups: dict[str, tuple[Any, list[str]]] = {}
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            group = getattr(parameter.annotation, "__origin__", parameter.annotation)
            options = list(_options(group, parameter)) if dataclasses.is_dataclass(group) else [parameter]
            self.parameters += options
            if options != [parameter]:
                self._groups[parameter.name] = group, [option.name for option in options]

    def words(self, args: Sequence[str]) -> list[str]:
        """Return a command line for click: each ``--set NAME=VALUE`` as one word, and no option without its value."""
        alone = {f"--{one.name}": mark for one in self.parameters for mark in marks_of(one, Alone)}
        found, words = [], list(args)
        while words:
            word = words.pop(0)
            if mark := alone.get(word):
                is_value = words and re.fullmatch(mark.values, words[0])
                found.append(f"{word}={words.pop(0) if is_value else mark.value}")
            elif word == SET or word.startswith(f"{SET}="):
                setting = (words.pop(0) if words else "") if word == SET else word.removeprefix(f"{SET}=")
                found.append(f"{SET} {setting}")
            else:
                found.append(word)
        return found

    def fill(self, context: Any) -> dict[str, Any]:
        """Return what the command takes, of click's context: its groups, filled, and values that belong to none.

        A group with a field ``given`` has the names of its options there that the user gave.

        Raises:
            UsageError: options do not go together, or a value or file is refused.
        """
        values = dict(context.params)
        sources = {name: context.get_parameter_source(name) for name in values}
        given = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
        check_parameters(self.parameters, values)
        check_relations(self.parameters, values, given)
        for name, (group, options) in self._groups.items():
            own = {option: values.pop(option) for option in options}
            if any(field.name == "given" for field in dataclasses.fields(group)):
                own["given"] = frozenset(options) & given
            values[name] = group(**own)
        return values


def _options(group: Any, parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    left_out = {field for mark in marks_of(parameter, Without) for field in mark.fields}
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        hint = hints[field.name]
        marks = getattr(hint, "__metadata__", ())
        declared = [mark for mark in marks if isinstance(mark, OptionInfo)]
        others = [mark for mark in marks if not isinstance(mark, OptionInfo)]
        if not declared or field.name in left_out:
            continue
        option = copy.copy(declared[0])
        if any(isinstance(mark, Rare) for mark in others):
            option.param_decls, option.rich_help_panel = (f"{SET} {field.name}",), RARE
        elif not option.param_decls and option.default is ...:  # Typer 0.27 would spell the flag as its metavar
            option.param_decls = (f"--{field.name.replace('_', '-')}",)
        option.rich_help_panel = option.rich_help_panel or group.panel
        if hint.__origin__ is bool:
            option.metavar = ""  # a flag takes no value
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        others += [mark for mark in marks_of(parameter, Relation) if field.name not in mark.but]
        annotation = operator.getitem(Annotated, (hint.__origin__, option, *others))
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
