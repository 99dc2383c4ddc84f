"""Options that need or exclude others, and options that few vary: what the marks of the command line's fields do."""

import inspect
from collections.abc import Iterator

import pytest

from tests.helpers import write_lines
from tokur_cli import Tokur
from tokur_cli.app.commands import evaluate, generate, heatmap, perturb, score, select
from tokur_cli.app.groups import Groups
from tokur_cli.commands.options.relations import Relation, names_of, relations_of
from tokur_cli.records.errors import UsageError

COMMANDS = {command.__name__: Groups(command) for command in (perturb, generate, score, select, evaluate, heatmap)}


def relations() -> Iterator[tuple[str, inspect.Parameter, Relation]]:
    for command, groups in COMMANDS.items():
        for parameter in groups.parameters:
            for mark in relations_of(parameter):
                yield command, parameter, mark


def test_relations_name_options_of_their_commands():
    for command, _, mark in relations():
        named = {name for parameter in COMMANDS[command].parameters for name in names_of(parameter)}
        assert {condition.partition("=")[0] for condition in mark.others} <= named, mark


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("perturb --sweep 1 --calibrate", "--sweep contradicts --calibrate"),
        ("perturb --sweep 1 --sigma 1", "--sweep contradicts --sigma"),
        ("perturb in.jsonl", "responses needs --sweep or --calibrate"),
        ("generate in.jsonl --question Why?", "--question contradicts questions"),
        ("generate --guide eu --samples 1", "--guide contradicts --samples 1"),
        ("generate --guide eu --alternatives 3 --score", "--alternatives contradicts --guide"),
        ("generate --over samples --resume -o x", "--resume contradicts --over samples"),
        ("score --rank 4 --posterior x", "--rank contradicts --posterior"),
        ("score --draws 4 --from-logprobs", "--draws contradicts --from-logprobs"),
        ("score --from-logprobs --set offload_dir=x", "--set offload_dir contradicts --from-logprobs"),
        ("score --backend vllm --quantize 4bit", "--quantize contradicts --backend vllm"),
        ("score --system x --template raw", "--system contradicts --template raw"),
        ("score --resume", "--resume needs --output"),
    ],
)
def test_broken_relation_is_refused(run_tokur, line, said):
    code, out, err = run_tokur(*line.split())
    assert (code, out) == (2, "")
    command = line.split()[0]
    assert err in (f"tokur {command}: {said}\n", f"tokur {command}: {said}: leave one of them out\n")


def test_option_at_its_default_is_given_as_any_other(run_tokur):
    assert run_tokur("score", "--draws", "2", "--from-logprobs")[0] == 2
    with pytest.raises(UsageError, match="--alternatives contradicts --no-tokens"):
        Tokur(no_tokens=True, alternatives=2)
    assert list(Tokur().generate([], steps=False, score=False)) == []


@pytest.mark.parametrize("words", [["--set", "max_line=9"], ["--set=max_line=9"]])
def test_set_takes_a_rare_option(run_tokur, tmp_path, words):
    path = write_lines(tmp_path / "in.jsonl", [{"response": "a"}])
    assert "is longer than 9 bytes" in run_tokur("select", path, *words)[2]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("attempt_tokens=0", "--set attempt_tokens: Input should be greater than or equal to 1"),
        ("attempt_tokns=3", "no such option: --set attempt_tokns"),
        ("attempt_temperature=0", "--set attempt_temperature must be above 0"),
    ],
)
def test_set_is_checked_as_any_option(run_tokur, setting, said):
    code, _, err = run_tokur("score", "--set", setting)
    assert code == 2
    assert err.startswith(f"tokur score: {said}")
    name, _, value = setting.partition("=")
    with pytest.raises(UsageError, match="attempt_"):
        Tokur(**{name: int(value)})


def test_python_takes_a_text_as_a_list_of_one(tiny_folder):
    """It failed obscurely, or counted each letter."""
    (response,) = Tokur(str(tiny_folder)).generate("Why?", max_new_tokens=4, stop="zz")
    assert response["tokur"]["generation"]["stop"] == ["zz"]
