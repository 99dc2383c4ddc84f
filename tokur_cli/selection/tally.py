"""How good the choices are, beside what can be had without them: Pass@1, plain majority and the oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence


class Tally:
    """Accuracies over the questions whose responses all have labels.

    - the choice: whether the chosen response is right; a question without a choice counts as wrong, one whose choice is
      no answer, or too uncertain for one, does not count where the choice may abstain;
    - Pass@1: the part of the N responses that is right;
    - majority: whether the answer that most of the N responses give is right, without any score; it is left out where
      no response has an answer, as code has none;
    - Pass@N: whether any of the N is right.

    Args:
        abstains: whether a choice may be too uncertain.

    Attributes:
        unlabelled: questions left out because their reference, or a response of theirs, cannot be compared.
    """

    def __init__(self, *, abstains: bool = False) -> None:
        self.unlabelled = 0
        self._abstains = abstains
        self._pass_at_1: list[float] = []
        self._answered = self._chosen = self._voted = self._majority = self._any = 0
        self._sizes: set[int] = set()

    def add(
        self, correct: Sequence[bool | None], chosen: int | None, majority: int | None, *, answers: bool = True
    ) -> None:
        """Count a question.

        Args:
            correct: whether each of its N ≥ 1 responses is right; None where that is not known.
            chosen: the index of the chosen response; None where there is none.
            majority: the index of a response with the answer of the plain majority; None where none has an answer.
            answers: whether the choice is an answer, and certain enough to be given.
        """
        if None in correct:
            self.unlabelled += 1
            return
        self._pass_at_1.append(sum(map(bool, correct)) / len(correct))
        self._answered += answers
        self._chosen += answers and chosen is not None and bool(correct[chosen])
        self._voted += majority is not None
        self._majority += majority is not None and bool(correct[majority])
        self._any += any(correct)
        self._sizes.add(len(correct))

    def summary(self) -> str | None:
        """Return the four accuracies in a line, the majority's beside the choice's; None where no question has labels.

        Where N is 1 they are one.
        """
        count = len(self._pass_at_1)
        if not count:
            return None
        left_out = f", {self.unlabelled:,} without labels left out" if self.unlabelled else ""
        questions = f"({count:,} question{'s' if count > 1 else ''}{left_out})"
        accuracy = f"accuracy {self._chosen / count:.2%}"
        if self._abstains:
            right = f"{self._chosen / self._answered:.2%}" if self._answered else "unknown"
            accuracy = f"coverage {self._answered / count:.2%}, accuracy of what is answered {right}"
        if self._sizes == {1}:
            nothing = "" if self._abstains else ": with one response each there is nothing to choose"
            return f"{accuracy} {questions}{nothing}"
        size = str(self._sizes.copy().pop()) if len(self._sizes) == 1 else "N"
        majority = f"majority {self._majority / count:.2%}, " if self._voted else ""
        return (
            f"{accuracy}, {majority}Pass@1 {math.fsum(self._pass_at_1) / count:.2%}, "
            f"Pass@{size} {self._any / count:.2%} {questions}"
        )
