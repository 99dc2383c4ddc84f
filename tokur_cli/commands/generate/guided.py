"""Guided generation for the command: what generates, what its records say, and how it went."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tokur_cli.commands.options.guided import Guidance
from tokur_cli.commands.shared.errors import say
from tokur_cli.engine.generation.decoder import Decoder
from tokur_cli.engine.generation.particles import Guide, Lineage, ParticleFilter
from tokur_cli.engine.generation.resampling import Resampling
from tokur_cli.engine.scoring.scorer import Scorer
from tokur_cli.scores.guides import GuideScore

_HARDLY_DIFFER = 0.95  # effective particles of one, on average, from which on resampling is almost blind


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


class GuidanceStats:
    """How guided generation went, over all questions."""

    def __init__(self) -> None:
        self._questions = self._particles = self._lineages = 0
        self._shares: list[float] = []  # effective particles of one, of each resampling

    def add(self, lineages: Collection[Lineage]) -> None:
        """Count the particles of a question."""
        self._questions += 1
        self._particles += len(lineages)
        self._lineages += len({lineage.root for lineage in lineages})
        self._shares += [size / len(lineages) for size in next(iter(lineages)).ess]

    def report(self, command: str) -> None:
        """Say on standard error how much the weights differed and how many lineages are left."""
        if not self._questions:
            return
        if not self._shares:
            say(command, "all responses ended in their first step: give fewer --set step_tokens, or another step_end")
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
