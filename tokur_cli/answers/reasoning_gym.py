"""Reasoning Gym's own rules: a number from 0 to 1 for an answer, 1 for one that is right."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tokur_cli.answers.extract import TAGGED, Extraction, extract_answer, wanted_of
from tokur_cli.records.errors import UsageError
from tokur_cli.records.record import Record

EVALUATING = frozenset(
    "advanced_geometry binary_matrix bitwise_arithmetic codeio countdown intermediate_integration n_queens "
    "number_sorting polynomial_equations polynomial_multiplication puzzle24 simple_integration spiral_matrix "
    "string_insertion".split()
)
"""The tasks of version 0.1.25 whose rules may evaluate the answer as Python, or give it to SymPy, which does."""

_CHANGED_BY_JSON = frozenset({"arc_agi", "rearc"})  # their rules compare tuples, which JSON has as lists


def task_of(record: Record) -> str | None:
    """Return the task that a row is of, None where it is not Reasoning Gym's."""
    metadata = record.get("metadata")
    if not isinstance(metadata, dict) or "source_index" not in metadata or "answer" not in record.fields:
        return None
    name = metadata.get("source_dataset")
    return name if isinstance(name, str) else None


def answer_to(record: Record) -> Extraction | None:
    """Return a response's answer: between the tags that Reasoning Gym asks for, else as in any other response."""
    if tagged := TAGGED.match(record.response):
        return Extraction(tagged[1].strip(), "tagged")
    return extract_answer(record.response, wanted=wanted_of(record.references))


def quality_of(record: Record, answer: str | None, *, may_run_code: bool = False) -> float:
    """Return what the task's ``score_answer`` gives for an answer, from 0 to 1.

    Rules that may run the answer as code are used only with ``may_run_code``.

    Raises:
        UsageError: the library is missing.
        RecordError: there is no such task, or its rule cannot be used.
    """
    task = task_of(record)
    if task in _CHANGED_BY_JSON:
        raise record.error(f'the rule of {task} does not fit its rows once they are JSON: give it a label "correct"')
    if task in EVALUATING and not may_run_code:
        raise record.error(f'the rule of {task} may run the answer: give --unsafe-code-execution, or a label "correct"')
    if (rule := _rule(task)) is None:
        raise record.error(f'Reasoning Gym has no task {task}: give it a label "correct"')
    try:
        return min(1.0, max(0.0, float(rule(answer, record.fields))))
    except Exception as error:  # whatever a rule makes of an answer or of a row that was changed
        raise record.error(f"the rule of {task} failed: {type(error).__name__}: {error}") from None


@cache
def _rule(task: str | None) -> Callable[[str | None, dict[str, Any]], float] | None:
    try:
        from reasoning_gym.factory import DATASETS, get_score_answer_fn
    except ImportError:
        raise UsageError(
            f"rows of {task} are graded by Reasoning Gym's own rule, which needs its library: pip install 'tokur[gym]'"
        ) from None
    return get_score_answer_fn(task) if task in DATASETS else None
