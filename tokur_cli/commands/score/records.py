"""What scoring is given and gives, and how a scored record was made.

A resumed run compares that, and by it scores of an earlier run stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.shared.prompts import is_of
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import SCHEMA, Record, differences

if TYPE_CHECKING:
    from tokur_cli.scores.catalogue import Score

_SCORED = ("scores", "run", "tokens", "steps", "step_by", "alternatives", "withheld", "certificate")
_OF_WHAT_IS_KEPT = ("scores", "tokens", "step_by", "alternatives")


class ScoringTask(NamedTuple):
    """Records that are scored together, which of them are wanted, and whether to go on after a bad one."""

    window: list[Record | RecordError]
    wanted: list[bool]
    skip_invalid: bool


class ScoredLine(NamedTuple):
    """A record with its results, as it will be written."""

    line: bytes
    tokens: int  # how many its response has
    tu: float = math.nan  # the sum of their total uncertainties; NaN where there was no draw
    entropy: float = math.nan  # the sum of the model's own entropies


def settings_to_write(run: Mapping[str, Any], scores: Sequence[Score], options: ScoringOptions) -> dict[str, Any]:
    """Return what a record written by a run can be told by, in the form of ``settings_of``."""
    kept = {"tokens": not options.no_tokens, "step_by": options.steps, "alternatives": options.alternatives}
    return {**run, "scores": [score.name for score in scores], **kept}


def settings_for(settings: Mapping[str, Any], record: Record) -> dict[str, Any]:
    """Return a run's settings as a record will have them, whose own scores may stay."""
    without = {"prompts"} if has_prompt_ids(record, settings["model"]) else set()
    own = {name: value for name, value in settings.items() if name not in without}
    run = {name: value for name, value in own.items() if name not in _OF_WHAT_IS_KEPT}
    return {**own, "scores": list(dict.fromkeys([*earlier_scores(record, run), *own["scores"]]))}


def settings_of(record: Record) -> dict[str, Any]:
    """Return the settings that a scored record was written with."""
    most = record.computed("alternatives").get("most")
    kept = {"tokens": "tokens" in record.tokur, "step_by": record.tokur.get("step_by"), "alternatives": most}
    return {**record.computed("run"), "scores": list(record.computed("scores")), **kept}


def unscored(record: Record) -> dict[str, Any]:
    """Return a copy of a record's ``tokur`` without what an earlier scoring left there."""
    return {"schema": SCHEMA} | {name: value for name, value in record.tokur.items() if name not in _SCORED}


def has_prompt_ids(record: Record, model: str) -> bool:
    """Return whether a record's prompt is the ids that it came with: none was made for it then."""
    return record.tokur.get("prompt_token_ids") is not None and is_of(record, model)


def earlier_scores(record: Record, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's scores of an earlier run that were made in the same way and stay."""
    return {} if any(differences(record.computed("run"), run)) else dict(record.computed("scores"))
