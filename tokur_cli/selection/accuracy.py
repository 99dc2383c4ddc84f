"""How good the choices are, beside what can be had without them: Pass@1, plain majority and the oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence

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

    Attributes:
        unlabelled: questions left out because a response of theirs has no label.
    """

    def __init__(self, *, abstains: bool = False) -> None:
        self.unlabelled = 0
        self._abstains = abstains
        self._answered: list[bool] = []
        self._figures: dict[str, list[float]] = {name: [] for name in ("chosen", "majority", "pass@1", "pass@n")}
        self._sizes: set[int] = set()
        self._has_answers = False

    def add(
        self, correct: Sequence[bool | None], labels: Sequence[int | None], chosen: int | None, *, answers: bool = True
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
            self.unlabelled += 1
            return
        self._answered.append(answers)
        self._figures["chosen"].append(known[chosen] if answers and chosen is not None else 0.0)
        self._figures["majority"].append(majority_accuracy(labels, known))
        self._figures["pass@1"].append(math.fsum(known) / len(known))
        self._figures["pass@n"].append(max(known))
        self._sizes.add(len(known))
        self._has_answers |= any(label is not None for label in labels)

    def summary(self) -> str | None:
        """Return the accuracies in a line; None where no question has labels, the choice's alone where N is 1."""
        count, answered = len(self._answered), sum(self._answered)
        if not count:
            return None
        mean = {name: f"{math.fsum(values) / count:.2%}" for name, values in self._figures.items()}
        left_out = f", {self.unlabelled:,} without labels left out" if self.unlabelled else ""
        questions = f"({count:,} question{'s' if count > 1 else ''}{left_out})"
        accuracy = f"accuracy {mean['chosen']}"
        if self._abstains:
            given = f"{math.fsum(self._figures['chosen']) / answered:.2%}" if answered else "unknown"
            accuracy = f"coverage {answered / count:.2%}, accuracy of what is answered {given}"
        if self._sizes == {1}:
            return f"{accuracy} {questions}" + ("" if self._abstains else ": one response each, nothing to choose from")
        size = str(next(iter(self._sizes))) if len(self._sizes) == 1 else "N"
        majority = f", majority {mean['majority']}" if self._has_answers else ""
        return f"{accuracy}{majority}, Pass@1 {mean['pass@1']}, Pass@{size} {mean['pass@n']} {questions}"
