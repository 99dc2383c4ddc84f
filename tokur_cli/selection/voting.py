"""The one vote: from the responses to one question to the choice. Rank them, keep the top P %, let them vote.

1. Responses are ranked by confidence, equals as they are given: the lower sample first.
2. The top ⌈P · N⌉ are kept, N being the responses that have the score, but never fewer than L, if there are so many.
   The paper's rule is P = 10 % alone, which of 16 responses leaves two. By default L is 16, so that up to 16 responses
   all vote: of answers with 60 and 20 % of the responses the first wins 74 % of votes of two, 97 % of votes of 16.
3. ``maj``: every kept response has weight 1. ``wbon``: see below. ``bon``: the most confident one that gives an answer,
   if any does, has weight 1, the others 0.
4. The class of equal answers with the largest sum of weights wins; of classes with equal sums the one whose most
   confident response ranks first. No answer is a class of its own, which never wins while another is there.
5. The winner's most confident response carries the answer.

A response without the score ranks last. It is kept only by ``maj``, of 100 %, or where fewer than L have the score but
one has. Source: the paper, "Response Aggregation with Uncertainties".

The paper says only that WBoN weighs candidates "according to their scores". With c₁ ≥ … ≥ c_K the confidences of the
kept responses (the score, negated where it is an uncertainty):

- ``exp``: e^(c − c₁), the likelihood relative to the best response's. It is defined for every score and changes with no
  constant added to it; for ``ll`` it is the likelihood itself. The default, because it fits the paper's table: with
  scores per token the weights of the top 10 % are nearly equal, with summed ones the best response decides alone.
- ``rank``: K for the best response, K − 1 for the next, … 1 for the last; equals share the mean of their ranks. The
  Borda count of Kang et al. 2025 (Self-Certainty) with exponent 1.

Neither rises as confidence falls, so up to two kept responses choose as Maj@N does.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

Method = Literal["maj", "wbon", "bon"]
Weight = Literal["exp", "rank"]


class Keep(NamedTuple):
    """How many of the most confident responses are kept."""

    fraction: Fraction = Fraction(1)  # of all, in (0, 1], rounded up
    minimum: int = 1  # how many are kept in any case, where there are so many

    def of(self, count: int) -> int:
        """Return how many of so many are kept."""
        return min(count, max(math.ceil(self.fraction * count), self.minimum))


class Rule(NamedTuple):
    """How a choice is made."""

    method: Method  # how the kept responses vote
    keep: Keep = Keep()  # how many are kept
    weight: Weight = "exp"  # the weights of ``wbon``

    @property
    def needs_score(self) -> bool:
        """Whether nothing can be chosen where no response has the score."""
        return self.method != "maj" or self.keep.fraction < 1


class ClassVotes(NamedTuple):
    """What one class of equal answers got."""

    label: Hashable  # the class; None for no answer
    votes: int  # kept responses in it
    weight: float  # the sum of their weights
    best: int  # its most confident response


class Choice(NamedTuple):
    """The outcome for one question; responses are given by their index."""

    ranking: list[int]  # the responses that have the score, most confident first
    weights: dict[int, float]  # the kept responses, in the order of the ranking, and their weights
    classes: list[ClassVotes]  # the classes among the kept responses, the winner first

    @property
    def chosen(self) -> int:
        """The response that carries the chosen answer."""
        return self.classes[0].best

    @property
    def share(self) -> float:
        """The chosen answer's share of the vote."""
        return self.classes[0].weight / math.fsum(one.weight for one in self.classes)


def choose(confidences: Sequence[float | None], labels: Sequence[Hashable], rule: Rule) -> Choice | None:
    """Choose among the responses to one question.

    Args:
        confidences: one per response, higher is better; None where the score is missing. Of equally confident responses
            the one that comes first here ranks first.
        labels: the class of each response's answer; None for no answer.
        rule: how the choice is made.

    Returns:
        The choice; None where no response can be kept.
    """
    scored = {index: confidence for index, confidence in enumerate(confidences) if confidence is not None}
    ranking = sorted(scored, key=scored.__getitem__, reverse=True)  # stable all the same
    kept = ranking[: rule.keep.of(len(ranking))]
    if rule.method == "maj" and (kept or not rule.needs_score):
        unscored = [index for index in range(len(confidences)) if index not in scored]
        kept += unscored if not rule.needs_score else unscored[: max(0, rule.keep.minimum - len(kept))]
    if not kept:
        return None
    weights = _weights(kept, scored, labels, rule)
    members: dict[Hashable, list[int]] = {}
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
    kept: Sequence[int], scored: Mapping[int, float], labels: Sequence[Hashable], rule: Rule
) -> dict[int, float]:
    """Return the weights of the kept responses, given in the order of the ranking."""
    if rule.method == "maj":
        return dict.fromkeys(kept, 1.0)
    if rule.method == "bon":
        best = next((index for index in kept if labels[index] is not None), kept[0])
        return {index: float(index == best) for index in kept}
    if rule.weight == "exp":
        return {index: math.exp(scored[index] - scored[kept[0]]) for index in kept}
    rising = sorted(scored[index] for index in kept)
    return {index: (bisect_left(rising, scored[index]) + 1 + bisect_right(rising, scored[index])) / 2 for index in kept}


def majority_accuracy(labels: Sequence[Hashable], correct: Sequence[float]) -> float:
    """Return the accuracy of the plain majority of N ≥ 1 responses, without any score.

    A tie counts at its expectation: k correct of m tied classes are k/m. A missing answer has no vote; where no
    response has an answer, each is as likely.

    Args:
        labels: the class of each response's answer; None for no answer.
        correct: 1 or 0 of each response.
    """
    votes = Counter(label for label in labels if label is not None)
    most = max(votes.values(), default=0)  # a missing answer has 0
    those = [value for label, value in zip(labels, correct, strict=True) if votes[label] == most]
    return math.fsum(those) / len(those)
