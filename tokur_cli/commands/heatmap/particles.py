"""``tokur heatmap --particles``: the records of a guided question as the tree of its particles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast, get_args

from tokur_cli.answers.judging import LabelRule
from tokur_cli.commands.options.guided import Over
from tokur_cli.records.errors import TokurError
from tokur_cli.records.quantity import Quantity
from tokur_cli.records.record import Record
from tokur_cli.scores.guides import GuideScore
from tokur_cli.scores.quantities import GUIDES
from tokur_cli.views.particles.tree import Ending, ParticleTree

_OVER = {
    "mean": "mean over the tokens so far",
    "sum": "sum over the tokens so far",
    "top5": "mean of the five least sure tokens so far",
    "step": "mean over the last step",
}
_FIELDS = {"slot_scores": float, "ancestors": int, "ess": float}


def particle_tree(records: Sequence[Record], question: str, label_field: str | None) -> ParticleTree:
    """Return the tree of a question's records, of which none may be missing.

    Args:
        records: the particles.
        question: the question's id.
        label_field: the field that says which are right; None for the labels that they bring along.

    Raises:
        TokurError: a record is no particle, or they do not belong together.
    """
    if not records:
        raise TokurError(f"--particles {question}: no record has this id")
    particles = {record.sample: _particle(record) for record in records}
    score, count = _guide(records[0])
    if sorted(particles) != list(range(count)) or len(records) != count:
        raise TokurError(f"--particles {question}: the input has {len(records)} records of {count} particles")
    rule = LabelRule(label_field)
    slots = [particles[slot] for slot in range(count)]
    rounds = {len(slot["slot_scores"]) for slot in slots} | {len(slot["ancestors"]) + 1 for slot in slots}
    if len(rounds) > 1 or any(not 0 <= ancestor < count for slot in slots for ancestor in slot["ancestors"]):
        raise TokurError(f"--particles {question}: the records are not of one run")
    sure = "more" if score.quantity.sign > 0 else "less"
    return ParticleTree(
        question,
        Quantity(score.name, f"{score.name}, {_OVER[score.over]}: {sure} is surer", score.quantity.orientation),
        list(zip(*(slot["slot_scores"] for slot in slots), strict=True)),
        list(zip(*(slot["ancestors"] for slot in slots), strict=True)),
        slots[0]["ess"],
        [_ending(record, rule) for record in sorted(records, key=lambda record: record.sample)],
    )


def _guide(record: Record) -> tuple[GuideScore, int]:
    """Return what particles were judged by, and how many there are."""
    settings = record.computed("generation")
    if isinstance(settings, dict):
        by, over, count = settings.get("guide"), settings.get("guide_over"), settings.get("particles")
        if by in GUIDES and over in get_args(Over) and isinstance(by, str) and type(count) is int:
            return GuideScore(by, cast(Over, over)), count
    raise record.error('"tokur.generation" does not tell how the particle was guided')


def _particle(record: Record) -> dict[str, list[float]]:
    particle = record.computed("particle")
    if not isinstance(particle, dict):
        raise record.error('is no particle ("tokur.particle" is missing): tokur generate --guide makes them')
    for name, kind in _FIELDS.items():
        values = particle.get(name)
        if not isinstance(values, list) or not all(type(v) in (int, kind) and math.isfinite(v) for v in values):
            raise record.error(f'"tokur.particle.{name}" is not a list of numbers')
    return particle


def _ending(record: Record, rule: LabelRule) -> Ending:
    brought = rule.brought(record)
    correct = None if brought is None else brought.correct
    return Ending(record.response, len(record.token_ids or ()), record.finish_reason or "", correct)
