"""Reasoning Gym's rows are graded by Reasoning Gym's rules, and none of these runs an answer as code unasked."""

import ast
import inspect

import pytest
import reasoning_gym
from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import DATASETS

from tokur_cli.answers.grading import LabelRule
from tokur_cli.answers.reasoning_gym import EVALUATING, answer_to, quality_of, task_of
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record


def row_of(task, response=""):
    row = reasoning_gym.create_dataset(task, size=1, seed=3)[0]
    return Record.parse({**row, "response": response}, None, None)


@pytest.mark.parametrize("task", ["zebra_puzzles", "leg_counting", "word_sorting"])
def test_quality_of_is_what_the_task_itself_gives(task):
    dataset = reasoning_gym.create_dataset(task, size=1, seed=3)
    row = row_of(task)
    gold = row.get("answer")
    assert task_of(row) == task
    assert quality_of(row, gold) == 1
    for answer in (gold.upper(), f"It is {gold}.", "", "no", None):
        assert quality_of(row, answer) == pytest.approx(dataset.score_answer(answer, dataset[0]))


def test_answer_to_reads_tags_or_any_response():
    gold = row_of("zebra_puzzles").get("answer")
    for response in (
        f"<answer>x</answer> No: <answer>\n{gold} </answer>.",
        f"So the final answer is \\boxed{{{gold}}}.",
        f"The answer is {gold}.",
    ):
        assert answer_to(row_of("zebra_puzzles", response)).text == gold


def test_quality_of_waits_for_leave_to_run_code(tmp_path):
    row = row_of("n_queens")
    mark = tmp_path / "was-here"
    attack = f"open({str(mark)!r}, 'w')"
    with pytest.raises(RecordError, match="rule of n_queens may run the answer: give --unsafe"):
        quality_of(row, attack)
    assert not mark.exists()
    quality_of(row, attack, may_run_code=True)
    assert mark.exists(), "the rule runs no code any more: take it off the list"


def test_evaluating_lists_all_rules_that_may_run_code():
    """Of every other task neither the module nor those of its parents can evaluate a text."""
    evaluating = set()
    for task, (kind, _) in DATASETS.items():
        if kind.score_answer is ProceduralDataset.score_answer:
            continue
        parents = (parent for parent in kind.__mro__ if parent.__module__.startswith("reasoning_gym."))
        nodes = [
            node for parent in parents for node in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(parent))))
        ]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        risky = {"sympy", "subprocess", "pickle", "importlib", "os"} & {module.split(".")[0] for module in modules}
        if {"eval", "exec", "compile", "__import__"} & names or risky:
            evaluating.add(task)
    assert evaluating == EVALUATING


def test_quality_of_refuses_rules_that_json_misleads():
    for task in ("arc_agi", "rearc"):
        row = row_of(task)
        with pytest.raises(RecordError, match='does not fit its rows once they are JSON: give it a label "correct"'):
            quality_of(row, row.get("answer"))


def test_label_rule_says_that_the_label_is_of_the_rule_or_that_it_cannot_be_used():
    gold = row_of("zebra_puzzles").get("answer")
    for response, outcome in ((f"<answer>{gold}</answer>", "correct"), ("<answer>no</answer>", "incorrect")):
        labelled = LabelRule().label(row_of("zebra_puzzles", response))
        assert (labelled.outcome, labelled.source) == (outcome, "rule")
    unjudged = LabelRule(is_strict=False).label(row_of("n_queens", "<answer>1</answer>"))
    assert (unjudged.outcome, unjudged.quality) == ("rule_not_used", None)
