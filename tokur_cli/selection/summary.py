"""What is said of a selection: how good the choices are, and what is odd about the input."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from tokur_cli.records.errors import count_of
from tokur_cli.selection.gathering import Candidate
from tokur_cli.selection.voting import Choice, majority_accuracy


class SelectionAccuracy:
    """Accuracies over the questions whose responses all have labels, beside what can be had without a choice.

    - the choice: whether the chosen response is correct; a question without a choice counts as incorrect, one that is
      not answered does not count where the choice may abstain;
    - Pass@1: the fraction of the N responses that is correct;
    - majority: see ``majority_accuracy``; left out where no response has an answer, as code has none;
    - Pass@N: whether any of the N is correct.

    Args:
        abstains: whether a choice may be too uncertain.
    """

    def __init__(self, *, abstains: bool = False) -> None:
        self._abstains = abstains
        self._unlabelled = 0
        self._figures: list[tuple[float, ...]] = []  # the choice, majority, Pass@1, Pass@N, whether it is answered
        self._sizes: set[int] = set()
        self._has_answers = False

    def add(
        self, correct: Sequence[bool | None], labels: Sequence[Hashable], chosen: int | None, *, answers: bool = True
    ) -> None:
        """Count a question.

        Args:
            correct: whether each of its N ≥ 1 responses is correct; None where that is not known.
            labels: the class of each response's answer; None for no answer.
            chosen: the index of the chosen response; None where there is none.
            answers: whether the choice is an answer, and certain enough to be given.
        """
        if None in correct:
            self._unlabelled += 1
            return
        known = [float(each) for each in correct if each is not None]
        of_choice = known[chosen] if answers and chosen is not None else 0.0
        first = math.fsum(known) / len(known)
        self._figures.append((of_choice, majority_accuracy(labels, known), first, max(known), answers))
        self._sizes.add(len(known))
        self._has_answers |= any(label is not None for label in labels)

    def summary(self) -> str | None:
        """Return the accuracies in a line; None where no question has labels, the choice's alone where N is 1."""
        if not (count := len(self._figures)):
            return None
        sums = [math.fsum(column) for column in zip(*self._figures, strict=True)]
        of_choice, majority, first, oracle, coverage = (f"{total / count:.2%}" for total in sums)
        left_out = f", {self._unlabelled:,} without labels left out" if self._unlabelled else ""
        questions = f"({count_of(count, 'question')}{left_out})"
        accuracy = f"accuracy {of_choice}"
        if self._abstains:
            given = f"{sums[0] / sums[-1]:.2%}" if sums[-1] else "unknown"
            accuracy = f"coverage {coverage}, accuracy of what is answered {given}"
        if self._sizes == {1}:
            return f"{accuracy} {questions}" + ("" if self._abstains else ": one response each, nothing to choose from")
        size = str(max(self._sizes)) if len(self._sizes) == 1 else "N"
        votes = f", majority {majority}" if self._has_answers else ""
        return f"{accuracy}{votes}, Pass@1 {first}, Pass@{size} {oracle} {questions}"


class InputWarnings:
    """Counts records without an id, duplicates, responses without the score, and questions with fewer responses."""

    def __init__(self, by: str, *, needs_score: bool) -> None:
        self._by, self._needs_score = by, needs_score
        self._without_id = self._duplicates = 0
        self._unscored: Counter[str] = Counter()  # responses, by what becomes of them
        self._sizes: Counter[int] = Counter()
        self._example = ""

    def look_at(
        self, question: str, responses: Sequence[Candidate], duplicates: Sequence[Candidate], choice: Choice | None
    ) -> None:
        """Take note of a question by its name, its responses, those left out as duplicates, and the choice."""
        self._sizes[len(responses)] += 1
        self._without_id += sum(response.id is None for response in [*responses, *duplicates])
        kept = choice.weights if choice else {}
        unscored = [index for index, response in enumerate(responses) if response.confidence is None]
        self._unscored.update("rank last" if index in kept else "cannot be kept" for index in unscored)
        if duplicates and not self._duplicates:
            self._example = f"{question}: sample {duplicates[0].sample}"
        self._duplicates += len(duplicates)

    def lines(self) -> Iterator[str]:
        """Yield what was found, a line each."""
        if count := self._without_id:
            yield f"{count_of(count, 'record')} without an id: grouped by prompt"
        if count := self._duplicates:
            yield (
                f"{count_of(count, 'duplicate')} of (id, sample) left out (first {self._example}): records of several "
                "runs need different ids or samples"
            )
        if len(self._sizes) > 1:
            usual, count = max(self._sizes.items(), key=lambda pair: (pair[1], pair[0]))
            yield (
                f"{count_of(count, 'question')} with {count_of(usual, 'response')}, "
                f"{self._sizes.total() - count:,} with another number ({min(self._sizes)} to {max(self._sizes)})"
            )
        responses = sum(size * count for size, count in self._sizes.items())
        # A plain majority over records that were never scored needs no score
        if self._needs_score or self._unscored.total() < responses:
            for outcome, count in self._unscored.items():
                yield f"{count:,} of {count_of(responses, 'response')} without a finite {self._by}: they {outcome}"
