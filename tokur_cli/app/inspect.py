"""tokur as a scorer of Inspect AI: ``inspect score log.eval --scorer tokur/uncertainty``."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from tokur_cli.app.python import Tokur
from tokur_cli.commands.shared.reading import BUSY
from tokur_cli.records.errors import RecordError

DEFAULT_SCORES = "eu,ll_sum"


class _Desk:
    """Where threads hand in rows for one model: whoever finds no model at work scores all that wait, in one batch."""

    def __init__(self, tokur: Tokur) -> None:
        self._tokur = tokur
        self._waiting: list[tuple[Mapping[str, Any], Future[dict[str, Any]]]] = []  # whoever holds BUSY takes away

    def score(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scored record."""
        scored: Future[dict[str, Any]] = Future()
        self._waiting.append((row, scored))
        with BUSY:
            while not scored.done():
                try:
                    for record in self._tokur.score([row for row, _ in self._waiting]):
                        self._waiting.pop(0)[1].set_result(record)
                except Exception as error:
                    for _ in range(1 if isinstance(error, RecordError) else len(self._waiting)):
                        self._waiting.pop(0)[1].set_exception(error)
        return scored.result()


# By the model and what was asked for: a process loads a model once, whatever number of logs it scores
_DESKS: dict[str, _Desk] = {}


def uncertainty(model: str | None = None, scores: str = DEFAULT_SCORES, **options: Any) -> Scorer:
    """Score responses by the uncertainty of a model that reads them, as ``tokur score`` does.

    Args:
        model: hub id, folder or GGUF file; by default the one that wrote the responses, by its name in the log.
        scores: comma-separated scores of tokur.
        options: of ``tokur score``, by their names: ``draws=5``, ``dtype="float32"``.
    """
    make = partial(Tokur, model, scores=scores, no_tokens=True, **options)
    chosen = make().model  # which also says at once what is wrong with the options

    def desk_of(state: TaskState) -> _Desk:
        # A process may score the logs of several models, even at once, and each by its own
        key = repr((chosen or state.output.model, scores, sorted(options.items())))
        if key not in _DESKS:
            _DESKS[key] = _Desk(make())
        return _DESKS[key]

    async def score(state: TaskState, target: Target) -> Score:
        try:
            record = await asyncio.to_thread(desk_of(state).score, _row(state))
        except RecordError as error:
            return Score.unscored(reason="scoring_failed", explanation=error.message)
        values = record["tokur"]["scores"]
        return Score(
            value={name: math.nan if value is None else value for name, value in values.items()},
            metadata={"tokur": record["tokur"]["run"]},
        )

    return score


def _row(state: TaskState) -> dict[str, Any]:
    """Return a sample as a log has it, with the conversation that the model saw."""
    return {
        "id": state.sample_id,
        "epoch": state.epoch,
        "input": state.input_text,
        "target": [],
        "messages": [message.model_dump(exclude_none=True) for message in state.messages],
        "output": state.output.model_dump(exclude_none=True),
    }


# Inspect puts the name of the package in front, tokur_cli where it is installed as a wheel, and nothing where it is
# edited in place; of a function of no package it takes the name as it is
uncertainty.__module__ = "tokur"
uncertainty = scorer(metrics={"*": [mean()]}, name="tokur/uncertainty")(uncertainty)
