"""How good the choices are, beside what can be had without them: Pass@1, plain majority and the oracle."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from tokur_cli.selection.voting import majority_accuracy


class SelectionAccuracy:
    """Accuracies over the questions whose responses all have labels.

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
        self._answered = self._unlabelled = 0
        self._figures: list[tuple[float, float, float, float]] = []  # the choice, majority, Pass@1, Pass@N
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
        known = [float(each) for each in correct if each is not None]
        if len(known) < len(correct):
            self._unlabelled += 1
            return
        of_choice = known[chosen] if answers and chosen is not None else 0.0
        self._figures.append((of_choice, majority_accuracy(labels, known), math.fsum(known) / len(known), max(known)))
        self._answered += answers
        self._sizes.add(len(known))
        self._has_answers |= any(label is not None for label in labels)

    def summary(self) -> str | None:
        """Return the accuracies in a line; None where no question has labels, the choice's alone where N is 1."""
        if not (count := len(self._figures)):
            return None
        sums = [math.fsum(column) for column in zip(*self._figures, strict=True)]
        of_choice, majority, first, oracle = (f"{total / count:.2%}" for total in sums)
        left_out = f", {self._unlabelled:,} without labels left out" if self._unlabelled else ""
        questions = f"({count:,} question{'s' if count > 1 else ''}{left_out})"
        accuracy = f"accuracy {of_choice}"
        if self._abstains:
            given = f"{sums[0] / self._answered:.2%}" if self._answered else "unknown"
            accuracy = f"coverage {self._answered / count:.2%}, accuracy of what is answered {given}"
        if self._sizes == {1}:
            return f"{accuracy} {questions}" + ("" if self._abstains else ": one response each, nothing to choose from")
        size = str(max(self._sizes)) if len(self._sizes) == 1 else "N"
        votes = f", majority {majority}" if self._has_answers else ""
        return f"{accuracy}{votes}, Pass@1 {first}, Pass@{size} {oracle} {questions}"
