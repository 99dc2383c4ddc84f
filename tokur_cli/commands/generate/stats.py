"""How generation went: what a user is told of guided responses, and of votes that were settled early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tokur_cli.commands.generate.settling import Polled
from tokur_cli.commands.shared.errors import say
from tokur_cli.engine.generation.particles import Lineage

_HARDLY_DIFFER = 0.95  # effective particles of one, on average, from which on resampling is almost blind


@dataclass
class GuidanceStats:
    """How guided generation went, over all questions."""

    questions: int = 0
    particles: int = 0
    lineages: int = 0
    shares: list[float] = field(default_factory=list)  # effective particles of one, of each resampling

    def add(self, lineages: Sequence[Lineage]) -> None:
        """Count the particles of a question."""
        self.questions += 1
        self.particles += len(lineages)
        self.lineages += len({lineage.root for lineage in lineages})
        self.shares += [size / len(lineages) for size in lineages[0].ess]

    def report(self, command: str) -> None:
        """Say on standard error how much the weights differed and how many lineages are left."""
        if self.questions and not self.shares:
            say(command, "all responses ended in their first step: give fewer --set step_tokens, or another step_end")
        if not self.shares:
            return
        share = sum(self.shares) / len(self.shares)
        left, of = self.lineages / self.questions, self.particles / self.questions
        say(
            command,
            f"{len(self.shares):,} resamplings: effective sample size {share:.1%} of the particles on average; "
            f"{left:.1f} of {of:g} lineages are left at the end",
        )
        if share >= _HARDLY_DIFFER:
            say(
                command,
                "the weights hardly differ, so chance decides what is copied: --guide-temperature auto sets rewards "
                "apart, --set resample=systematic loses fewer lineages by chance",
            )


@dataclass
class SamplingStats:
    """How much was drawn to questions whose votes were open."""

    questions: int = 0
    settled: int = 0
    drawn: int = 0
    asked: int = 0

    def add(self, polled: Polled) -> None:
        """Count what was drawn to a question."""
        if polled.drawn:
            self.questions += 1
            self.settled += polled.settled
            self.drawn += polled.drawn
            self.asked += polled.asked

    def report(self, command: str) -> None:
        """Say on standard error how many votes were settled, and what that saved."""
        if self.questions:
            settled = f"{self.settled:,} of {self.questions:,} questions settled"
            say(command, f"{settled}; drew {self.drawn:,} of {self.asked:,} samples")
