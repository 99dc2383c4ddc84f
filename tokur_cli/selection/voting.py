"""From the responses to one question to the choice: rank them, keep the top P %, let them vote.

1. Responses are ranked by confidence, equals by their sample.
2. The top ⌈P · N⌉ are kept, N being the responses that have the score.
3. ``maj``: every kept response has weight 1. ``wbon``: see ``weights``. ``bon``: the most confident one that gives an
   answer, if any does, has weight 1, the others 0.
4. The class of equal answers with the largest sum of weights wins; of classes with equal sums the one whose most
   confident response ranks first. No answer is a class of its own, which never wins while another is there.
5. The winner's most confident response carries the answer.

A response without the score is kept only where neither filter nor method needs one (``maj`` of 100 %); it ranks last.
Source: the paper, "Response Aggregation with Uncertainties".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tokur_cli.records.errors import UsageError
from tokur_cli.selection.weights import Weight, weigh

Method = Literal["maj", "wbon", "bon"]

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class Rule:
    """How a choice is made.

    Attributes:
        method: how the kept responses vote.
        keep: the part that is kept, in (0, 1].
        weight: the weights of ``wbon``.
        doubt: for ``score`` weights, see ``weights.measures_doubt``.
    """

    method: Method
    keep: Fraction = Fraction(1)
    weight: Weight = "exp"
    doubt: bool = False

    @property
    def needs_score(self) -> bool:
        """Whether responses without the score cannot be kept."""
        return self.method != "maj" or self.keep < 1


MAJORITY = Rule("maj")
"""Plain majority: all responses vote alike."""


@dataclass(frozen=True, slots=True)
class ClassVotes:
    """What one class of equal answers got.

    Attributes:
        label: the class; None for no answer.
        votes: kept responses in it.
        weight: the sum of their weights.
        best: its most confident response.
    """

    label: int | None
    votes: int
    weight: float
    best: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome for one question; responses are given by their index.

    Attributes:
        ranking: the responses that have the score, most confident first.
        weights: the kept responses, in the order of the ranking, and their weights.
        classes: the classes among the kept responses, the winner first.
    """

    ranking: list[int]
    weights: dict[int, float]
    classes: list[ClassVotes]

    @property
    def chosen(self) -> int:
        """The response that carries the chosen answer."""
        return self.classes[0].best

    @property
    def share(self) -> float:
        """The chosen answer's share of the vote."""
        return self.classes[0].weight / math.fsum(one.weight for one in self.classes)


def parse_keep(text: str) -> Fraction:
    """Return the part that a percentage such as ``10%`` stands for, exactly."""
    match = _PERCENT.fullmatch(text.strip())
    share = Fraction(match[1]) / 100 if match else Fraction(0)
    if not 0 < share <= 1:
        meant = _PERCENT.fullmatch(f"{text.strip()}%")
        such_as = f"{text.strip()}%" if meant and 1 <= Fraction(meant[1]) <= 100 else "10%"
        raise UsageError(f"--keep {text}: give a percentage above 0% and up to 100%, such as {such_as}")
    return share


def choose(confidences: Sequence[float | None], labels: Sequence[int | None], rule: Rule) -> Choice | None:
    """Choose among the responses to one question.

    Args:
        confidences: one per response, higher is better; None where the score is missing. Of equally confident responses
            the one that comes first here ranks first.
        labels: the class of each response's answer; None for no answer.
        rule: how the choice is made.

    Returns:
        The choice; None where no response can be kept.
    """
    scored = [(confidence, index) for index, confidence in enumerate(confidences) if confidence is not None]
    scored.sort(key=lambda pair: -pair[0])
    ranking = [index for _, index in scored]
    if rule.needs_score:
        kept = ranking[: math.ceil(rule.keep * len(ranking))]
    else:
        kept = ranking + [index for index, confidence in enumerate(confidences) if confidence is None]
    if not kept:
        return None
    weights = _weights(kept, [confidence for confidence, _ in scored[: len(kept)]], labels, rule)
    members: dict[int | None, list[int]] = {}
    for index in kept:
        members.setdefault(labels[index], []).append(index)
    # fsum rounds once; what sum does depends on Python's version
    classes = [
        ClassVotes(label, len(those), math.fsum(weights[index] for index in those), those[0])
        for label, those in members.items()
    ]
    classes.sort(key=lambda one: (one.label is None, -one.weight))  # stable: equals stay in the order of the ranking
    return Choice(ranking, weights, classes)


def _weights(
    kept: Sequence[int], confidences: Sequence[float], labels: Sequence[int | None], rule: Rule
) -> dict[int, float]:
    """Return the weights of the kept responses, given in the order of the ranking."""
    if rule.method == "wbon":
        return dict(zip(kept, weigh(confidences, rule.weight, doubt=rule.doubt), strict=True))
    if rule.method == "bon":
        best = next((index for index in kept if labels[index] is not None), kept[0])
        return {index: float(index == best) for index in kept}
    return dict.fromkeys(kept, 1.0)
