"""What is odd about the input of a selection, counted and said once."""

from __future__ import annotations

from collections import Counter

from tokur_cli.selection.gathering import Candidate, Question
from tokur_cli.selection.voting import Rule

_EXAMPLES = 3


class _Finding:
    """A count over questions, with the first few as examples."""

    def __init__(self) -> None:
        self.responses = self.questions = 0
        self._examples: list[str] = []

    def add(self, example: str, responses: int = 1) -> None:
        self.responses += responses
        self.questions += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(example)

    @property
    def examples(self) -> str:
        more = ", …" if self.questions > len(self._examples) else ""
        return f"({', '.join(self._examples)}{more})"


class Notes:
    """Counts what the user should know of."""

    def __init__(self, by: str, rule: Rule, count: int | None) -> None:
        self._by, self._rule, self._count = by, rule, count
        self._responses = 0
        self._sizes: Counter[int] = Counter()
        self._names: dict[int, _Finding] = {}
        self._without_id, self._without_number = _Finding(), _Finding()
        self._missing, self._duplicates = _Finding(), _Finding()
        self._few, self._without_score = _Finding(), _Finding()

    def look_at(
        self, question: Question, responses: list[Candidate], duplicates: list[Candidate], drawn: list[Candidate]
    ) -> None:
        """Take note of a question."""
        name, size = question.name, len(responses)
        self._responses += len(drawn)
        self._sizes[size] += 1
        self._names.setdefault(size, _Finding()).add(f"{name}: {size}")
        if question.key.startswith("prompt "):
            self._without_id.add(name, len(question.responses))
        if duplicates:
            self._duplicates.add(f"{name}: sample {duplicates[0].sample}", len(duplicates))
        numbers = [response.sample for response in responses if response.sample is not None]
        if 0 < len(numbers) < size:
            self._without_number.add(name, size - len(numbers))
        if numbers and len(numbers) <= numbers[-1]:
            gap = next((index for index, number in enumerate(numbers) if index != number), len(numbers))
            self._missing.add(f"{name}: sample {gap}", numbers[-1] + 1 - len(numbers))
        if self._count is not None and size < self._count:
            self._few.add(f"{name}: {size}")
        without = sum(response.confidence is None for response in drawn)
        if without:
            self._without_score.add(f"{name}: {without}", without)

    def lines(self) -> list[str]:
        """Return what was found, a line each."""
        return [line for line in (*self._identity_lines(), *self._size_lines(), self._score_line()) if line]

    def _identity_lines(self) -> list[str]:
        lines = []
        if found := self._without_id.responses:
            lines.append(f"{_count(found, 'record')} without an id: grouped by prompt")
        if found := self._duplicates.responses:
            lines.append(
                f"{_count(found, 'duplicate')} of (id, sample) left out {self._duplicates.examples}; "
                "records of several runs need different ids or samples"
            )
        if found := self._without_number.responses:
            lines.append(
                f"{_count(found, 'response')} without a sample number beside numbered ones "
                f"{self._without_number.examples}: taken as different from them"
            )
        return lines

    def _size_lines(self) -> list[str]:
        lines = []
        if found := self._missing.responses:
            lines.append(f"{_count(found, 'sample')} missing {self._missing.examples}")
        if len(self._sizes) > 1:
            usual = max(self._sizes, key=lambda size: (self._sizes[size], size))
            others = [self._names[size] for size in sorted(self._sizes) if size != usual]
            rest = self._sizes.total() - self._sizes[usual]
            shown = ", ".join(finding.examples[1:-1] for finding in others[:_EXAMPLES])
            lines.append(
                f"{_count(self._sizes[usual], 'question')} {_have(self._sizes[usual])} {_count(usual, 'response')}, "
                f"{rest:,} {_have(rest)} another number ({shown}{', …' if len(others) > _EXAMPLES else ''})"
            )
        if found := self._few.questions:
            lines.append(
                f"{_count(found, 'question')} with fewer than {self._count} responses, all taken {self._few.examples}"
            )
        return lines

    def _score_line(self) -> str | None:
        found = self._without_score.responses
        if not found or (not self._rule.needs_score and found == self._responses):
            return None  # plain majority over records that were never scored
        outcome = "so that they rank last" if self._rule.takes_unscored else "so that they cannot be kept"
        return (
            f"{found:,} of {_count(self._responses, 'response')} without a finite {self._by}, {outcome} "
            f"{self._without_score.examples}"
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"
