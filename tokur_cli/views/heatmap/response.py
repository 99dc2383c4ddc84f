"""What a heat map is drawn from: one response with its per-token quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tokur_cli.records.errors import RecordError
from tokur_cli.records.token_arrays import check_token_arrays


@dataclass(frozen=True, slots=True)
class HeatmapResponse:
    """One response to paint.

    Args:
        id: the question's id.
        response: the model's text, exactly as it was written.
        spans: code points ``[start, end)`` of ``response``, one pair per token. Starts and ends never decrease. A token
            without text has an empty span; the tokens of one character share its span; text between spans is allowed.
        values: per-token quantities by name, each as long as ``spans``; None where a token has no value.
        sample: which of the question's N responses this is.
        question: the question's text.
        scores: response-level scores by name; None where a score could not be computed.
        correct: whether the answer is right, None if that is not known.
        answer: the answer extracted from the response.
        reference: the gold answer.
        steps: the reasoning steps, which join to the whole text: code points ``(start, end)`` and the tokens of each.

    Raises:
        RecordError: lengths differ, a span lies outside the text or out of order, or a value is not finite.
    """

    id: str
    response: str
    spans: Sequence[tuple[int, int]]
    values: Mapping[str, Sequence[float | None]]
    sample: int | None = None
    question: str | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    correct: bool | None = None
    answer: str | None = None
    reference: str | None = None
    steps: Sequence[tuple[tuple[int, int], range]] = ()

    def __post_init__(self) -> None:
        check_token_arrays(self.response, self.spans, self.values)

    def token_values(self, name: str) -> Sequence[float | None]:
        """Return the token values of one quantity.

        Raises:
            RecordError: the response has none of that name.
        """
        if name not in self.values:
            known = ", ".join(self.values) or "none"
            raise RecordError(f'no token values named "{name}" (there are: {known}); score the responses with it first')
        return self.values[name]
