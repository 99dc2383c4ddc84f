"""Guided generation for the command: its parts put together, what its records say, and how it went."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from tokur_cli.commands.options.guided import Guidance
from tokur_cli.commands.shared.errors import say
from tokur_cli.engine.generation.decoder import Decoder
from tokur_cli.engine.generation.particles import Guide, GuidedResponse, ParticleFilter
from tokur_cli.engine.generation.resampling import Resampling
from tokur_cli.engine.scoring.scorer import Scorer
from tokur_cli.scores.guides import GuideScore
from tokur_cli.scores.quantities import GUIDES

_HARDLY_DIFFER = 0.95  # effective particles of one, on average, from which on resampling is almost blind


def needs_of(guidance: Guidance | None) -> set[str]:
    """Return the per-token quantities that a guidance takes."""
    return {GUIDES[guidance.by].name} if guidance else set()


def particle_filter(decoder: Decoder, scorer: Scorer, guidance: Guidance) -> ParticleFilter:
    """Return what generates by a guidance, with a decoder whose responses come in steps."""
    score = GuideScore(guidance.by, guidance.over)
    resampling = Resampling(guidance.temperature, guidance.scheme)
    guide = Guide(score, score.quantity.sign, resampling, of_step=guidance.over == "step")
    return ParticleFilter(decoder, scorer, guide)


def settings_of(guidance: Guidance, particles: int) -> dict[str, Any]:
    """Return what the records say, under ``tokur.generation``, of how they were guided."""
    return {
        "guide": guidance.by,
        "guide_over": guidance.over,
        "guide_temperature": "auto" if guidance.temperature is None else guidance.temperature,
        "step_end": list(guidance.step_end),
        "step_tokens": guidance.step_tokens,
        "resample": guidance.scheme,
        "particles": particles,  # a sample depends on the others
    }


def fields_of(response: GuidedResponse, score: bool) -> dict[str, Any]:
    """Return what a guided response adds to a record's ``tokur``: its lineage, and for scores its quantities."""
    lineage = {"particle": dataclasses.asdict(response.lineage)}
    return {**lineage, "tokens": response.quantities} if score else lineage


class Course:
    """How guided generation went, over all questions."""

    def __init__(self) -> None:
        self._questions = self._particles = self._lineages = 0
        self._shares: list[float] = []  # effective particles of one, of each resampling

    def add(self, responses: Collection[GuidedResponse]) -> None:
        """Count the responses to a question."""
        self._questions += 1
        self._particles += len(responses)
        self._lineages += len({response.lineage.root for response in responses})
        one = next(iter(responses))
        self._shares += [size / len(responses) for size in one.lineage.ess]

    def tell(self, command: str) -> None:
        """Say on standard error how much the weights differed and how many lineages are left."""
        if not self._shares:
            if self._questions:
                say(
                    command,
                    "all responses ended in their first step, so nothing was resampled: a --set step_end that comes "
                    "sooner, or fewer --set step_tokens, make steps shorter",
                )
            return
        share = sum(self._shares) / len(self._shares)
        left, of = self._lineages / self._questions, self._particles / self._questions
        say(
            command,
            f"{len(self._shares):,} resamplings: effective sample size {share:.1%} of the particles on average; "
            f"{left:.1f} of {of:g} lineages are left at the end",
        )
        if share >= _HARDLY_DIFFER:
            say(
                command,
                "the weights hardly differ, so chance decides what is copied: --guide-temperature auto sets rewards "
                "apart, --set resample=systematic loses fewer lineages by chance",
            )
