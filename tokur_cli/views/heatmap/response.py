"""What a heat map is drawn from: one response with its per-token quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tokur_cli.views.heatmap.alternatives import Alternatives
from tokur_cli.views.visible import picture


@dataclass(frozen=True, slots=True)
class HeatmapResponse:
    """One response to paint.

    Args:
        id: the question's id.
        response: the model's text, exactly as it was written.
        spans: code points ``[start, end)`` of ``response``, one pair per token, as ``scored_tokens`` allows them.
        values: per-token quantities by name, each as long as ``spans``; None where a token has no value.
        group: what the responses to one question have in common.
        sample: which of the question's N responses this is.
        question: the question's text.
        scores: response-level scores by name; None where a score could not be computed.
        correct: whether the answer is right, None if that is not known.
        answer: the answer extracted from the response.
        reference: the gold answer.
        steps: the reasoning steps, which join to the whole text: code points ``(start, end)`` and the tokens of each.
        alternatives: what else might have been written at tokens, by their indices; empty where that is not known.
    """

    id: str
    response: str
    spans: Sequence[tuple[int, int]]
    values: Mapping[str, Sequence[float | None]]
    group: str = ""
    sample: int | None = None
    question: str | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    correct: bool | None = None
    answer: str | None = None
    reference: str | None = None
    steps: Sequence[tuple[tuple[int, int], range]] = ()
    alternatives: Mapping[int, Alternatives] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Which response it is, as it is drawn."""
        return picture(self.id) + (f" · sample {self.sample}" if self.sample is not None else "")

    @property
    def verdict(self) -> str:
        """Whether it is right, in words with a sign; empty if that is not known."""
        return "" if self.correct is None else "✓ right" if self.correct else "✗ wrong"
