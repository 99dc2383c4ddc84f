"""Options that need or exclude others: every mark names options of its command, and every broken one is refused."""

import inspect
import re
from collections.abc import Iterator
from typing import Literal, get_args, get_origin

import pytest

from tests.commands.score.test_score import write_lines
from tokur_cli import Tokur
from tokur_cli.app.commands import evaluate, generate, heatmap, perturb, score, select
from tokur_cli.app.groups import Groups
from tokur_cli.commands.options.files import Writes
from tokur_cli.commands.options.relations import Excludes, Needs, Relation, names_of, relations_of
from tokur_cli.records.errors import UsageError

COMMANDS = {command.__name__: Groups(command) for command in (perturb, generate, score, select, evaluate, heatmap)}
NAMED = {
    command: {name: parameter for parameter in groups.parameters for name in names_of(parameter)}
    for command, groups in COMMANDS.items()
}


def relations() -> Iterator[tuple[str, inspect.Parameter, Relation]]:
    for command, groups in COMMANDS.items():
        for parameter in groups.parameters:
            for mark in relations_of(parameter):
                yield command, parameter, mark


def cases() -> Iterator[tuple[str, inspect.Parameter, Relation, tuple[str, ...]]]:
    """Yield each relation with conditions that break it: all that are needed missing, or one excluded given."""
    for command, parameter, mark in relations():
        if isinstance(mark, Needs):
            yield command, parameter, mark, ()
        else:
            for other in mark.others:
                yield command, parameter, mark, (other,)


def name_of_case(value: object) -> str:
    if isinstance(value, inspect.Parameter):
        return names_of(value)[0]
    if isinstance(value, Relation):
        return type(value).__name__ + "".join(value.others if isinstance(value, Needs) else ())
    return "".join(value) if isinstance(value, tuple | str) else repr(value)


def value_for(parameter: inspect.Parameter, tmp_path) -> str | None:
    """Return a value that the command line takes; None for a flag."""
    if any(isinstance(mark, Writes) for mark in parameter.annotation.__metadata__):
        return str(tmp_path / parameter.name)
    declared = parameter.annotation.__origin__
    types = [one for one in get_args(declared) or (declared,) if one is not type(None)]
    if types == [bool]:
        return None
    if parameter.name == "scores":  # which are checked as soon as they are read
        return "eu"
    choices = [text for one in (declared, *types) if get_origin(one) is Literal for text in get_args(one)]
    return choices[0] if choices else "0.5" if types == [float] else "50"


def line_for(command: str, given: dict[str, str], tmp_path) -> list[str]:
    """Return the command line that gives these options, with a value for those that take one and have none."""
    words = []
    for name, wanted in given.items():
        value = wanted or value_for(NAMED[command][name], tmp_path)
        words += ([name] if name.startswith("-") else []) + ([] if value is None else [value])
    return words


def complete(command: str, given: dict[str, str], mark: Relation) -> None:
    """Give what the other options need, so that nothing but the one relation is broken."""
    for name in list(given):
        for needed in relations_of(NAMED[command][name]):
            if isinstance(needed, Needs) and needed is not mark and needed.when in (None, given[name]):
                wanted = [other.partition("=") for other in needed.others]
                if not any(option in given for option, _, _ in wanted):
                    given[wanted[0][0]] = wanted[0][2]


@pytest.mark.parametrize(("command", "parameter", "mark"), list(relations()), ids=name_of_case)
def test_a_relation_names_options_of_its_command(command, parameter, mark):
    assert {condition.partition("=")[0] for condition in mark.conditions} <= NAMED[command].keys()
    mark.why.format(option="--this", others="--that", value="that")


@pytest.mark.parametrize(("command", "parameter", "mark", "others"), list(cases()), ids=name_of_case)
def test_a_broken_relation_is_refused(command, parameter, mark, others, run_tokur, tmp_path):
    option = names_of(parameter)[0]
    given = {option: mark.when or ""} | {name: value for name, _, value in (other.partition("=") for other in others)}
    complete(command, given, mark)
    code, out, err = run_tokur(command, *line_for(command, given, tmp_path))
    assert (code, out) == (2, "")
    # What it needs itself may be refused before it, for the same reason, or with it
    said = {"option": f"({'|'.join(map(re.escape, given))})", "others": "(--[a-z-]+|and| )*", "value": ".*"}
    pattern = re.sub(r"\\\{(\w+)\\\}", lambda found: said[found[1]], re.escape(mark.why))
    assert re.fullmatch(f"tokur {command}: {pattern}\n", err), err


def test_there_are_the_relations_that_the_help_speaks_of():
    assert sum(isinstance(mark, Needs) for _, _, mark in relations()) > 50
    assert sum(isinstance(mark, Excludes) for _, _, mark in relations()) > 50


@pytest.mark.parametrize("attempts", [10, 11])
def test_an_option_at_its_default_is_given_as_any_other(attempts, run_tokur, tmp_path):
    questions = write_lines(tmp_path / "questions.jsonl", [{"question": "Who?"}])
    code, _, err = run_tokur("generate", questions, "--attempts", attempts)
    assert (code, err) == (2, "tokur generate: --attempts says how responses are scored: give --score too\n")
    with pytest.raises(UsageError, match="--attempts says how responses are scored: give --score too"):
        Tokur().generate([], attempts=attempts)


def test_a_flag_that_is_false_in_python_says_nothing():
    assert list(Tokur().generate([], steps=False, score=False)) == []


def test_options_of_tokur_that_generate_has_no_use_for_are_left_out(tmp_path):
    tokur = Tokur(attempts=10, draws=3, steps=True)
    assert list(tokur.generate([])) == []
    with pytest.raises(UsageError, match="--draws says how responses are scored: give --score or --guide too"):
        tokur.generate([], draws=3)
