"""What is odd about the input of a selection, counted and said once."""

from __future__ import annotations

from collections import Counter

from tokur_cli.selection.gathering import Candidate
from tokur_cli.selection.voting import Rule


class InputWarnings:
    """Counts records without an id, duplicates, responses without the score, and questions with fewer responses."""

    def __init__(self, by: str, rule: Rule) -> None:
        self._by, self._rule = by, rule
        self._responses = self._without_id = self._duplicates = self._without_score = 0
        self._sizes: Counter[int] = Counter()
        self._example = ""

    def look_at(self, question: str, responses: list[Candidate], duplicates: list[Candidate]) -> None:
        """Take note of a question by its name, of its responses, and of those left out as duplicates."""
        self._responses += len(responses)
        self._sizes[len(responses)] += 1
        self._without_id += sum(response.id is None for response in [*responses, *duplicates])
        self._without_score += sum(response.confidence is None for response in responses)
        if duplicates and not self._duplicates:
            self._example = f"{question}: sample {duplicates[0].sample}"
        self._duplicates += len(duplicates)

    def lines(self) -> list[str]:
        """Return what was found, a line each."""
        lines = []
        if count := self._without_id:
            lines.append(f"{_count(count, 'record')} without an id: grouped by prompt")
        if count := self._duplicates:
            lines.append(
                f"{_count(count, 'duplicate')} of (id, sample) left out (first {self._example}): records of several "
                "runs need different ids or samples"
            )
        if len(self._sizes) > 1:
            usual, count = max(self._sizes.items(), key=lambda pair: (pair[1], pair[0]))
            others = self._sizes.total() - count
            lines.append(
                f"{_count(count, 'question')} with {_count(usual, 'response')}, {others:,} with another number "
                f"({min(self._sizes)} to {max(self._sizes)})"
            )
        # A plain majority over records that were never scored needs no score
        if (count := self._without_score) and (self._rule.needs_score or count < self._responses):
            outcome = "rank last" if self._rule.takes_unscored else "cannot be kept"
            lines.append(
                f"{count:,} of {_count(self._responses, 'response')} without a finite {self._by}: they {outcome}"
            )
        return lines


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
