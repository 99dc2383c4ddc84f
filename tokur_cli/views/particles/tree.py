"""The tree of a question's particles, as both pictures show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tokur_cli.records.quantity import Quantity
from tokur_cli.views.heatmap.scale import Scale


@dataclass(frozen=True)
class Ending:
    """What a slot holds at the end.

    Args:
        text: the response.
        tokens: its number of tokens.
        reason: why it ended.
        correct: whether it is right; None if nobody said.
    """

    text: str
    tokens: int
    reason: str
    correct: bool | None

    @property
    def note(self) -> str:
        """The verdict, the length and the reason in words."""
        verdict = "" if self.correct is None else "right · " if self.correct else "wrong · "
        return f"{verdict}{self.tokens} tokens · {self.reason}"


@dataclass(frozen=True)
class ParticleTree:
    """N slots over R rounds.

    Args:
        question: its id.
        guide: what the particles were judged by, and how it was taken over their tokens.
        scores: (R, N) of what each slot held after each round's growth.
        ancestors: (R − 1, N) the slot that each was filled from after each round but the last.
        ess: (R − 1) effective sample size at each resampling.
        endings: (N,).
    """

    question: str
    guide: Quantity
    scores: Sequence[Sequence[float]]
    ancestors: Sequence[Sequence[int]]
    ess: Sequence[float]
    endings: Sequence[Ending]

    @property
    def scale(self) -> Scale:
        """From the surest score to the least sure one."""
        every = [score for scores in self.scores for score in scores]
        low, high = min(every), max(every)
        sure, unsure = (low, high) if self.guide.orientation == "uncertainty" else (high, low)
        return Scale(self.guide, sure, unsure, "")

    @cached_property
    def lasting(self) -> list[set[int]]:
        """For each round, the slots whose particles are in a response at the end."""
        lasting = [set(range(len(self.endings)))]
        for ancestors in reversed(self.ancestors):
            lasting.insert(0, {ancestors[slot] for slot in lasting[0]})
        return lasting

    def copies(self, round_: int, slot: int) -> int:
        """Return how many slots went on from this one after a round."""
        return list(self.ancestors[round_]).count(slot)

    @property
    def heading(self) -> str:
        """What is shown, in words."""
        count, rounds = len(self.endings), len(self.scores)
        return (
            f"{self.question}: {count} particles guided by {self.guide.name} in {rounds} round{'s' * (rounds > 1)}; "
            f"the responses go back to {len(self.lasting[0])} of them"
        )
