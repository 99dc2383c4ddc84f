"""Test-time scaling from offline records: the accuracy of the answer chosen from N sampled responses per question.

For each N, N responses of every question are drawn without replacement, all scores see one draw, and ``choose`` votes
among them: ``maj`` and ``wbon`` by each score. Beside them stand ``pass@1`` (a response at random), ``pass@n`` (any
correct response among the N) and ``majority`` (all N, without a score). Source: the paper's test-time scaling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import Floats, Indices
from tokur_cli.selection.voting import Keep, Rule, choose, majority_accuracy


class Scaling:
    """The accuracy of each way to choose from N responses per question, in one run or over several.

    Args:
        sizes: the values of N.
        repeats: how often N responses are drawn.
        keep: how many of the N are kept by their confidence.
        seed: of the draws; they do not depend on the scores.

    Attributes:
        accuracies: one per repeat and run; by score (None for the methods that need none) and method (``maj``,
            ``wbon``, ``majority``, ``pass@1`` or ``pass@n``), then by N. A score that no drawn response has chooses
            nothing.
        questions: how many questions count, summed over runs.
        unlabelled: questions left out because a response has no label.
        fewest: the smallest number of responses that a question has; a question with fewer than N gives all it has.
    """

    def __init__(self, sizes: Sequence[int], *, repeats: int = 10, keep: Keep, seed: int = 0) -> None:
        self._sizes, self._repeats, self._seed = sizes, repeats, seed
        self._rules = Rule("maj", keep), Rule("wbon", keep)
        self.accuracies: dict[tuple[str | None, str], dict[int, list[float]]] = {}
        self.questions = self.unlabelled = self.fewest = 0

    def add(
        self, samples: Sequence[Indices], classes: Sequence[Hashable], correct: Floats, scores: Mapping[str, Floats]
    ) -> None:
        """Take in a run of R responses.

        Args:
            samples: of each question the places of its responses among all R, in order of their sample.
            classes: (R,) the answer's class among those of its question; None for no answer.
            correct: (R,) 1 or 0, NaN where that is not known.
            scores: for each (R,) confidences, not finite where a response has none.
        """
        rows = [row for row in samples if not np.isnan(correct[row]).any()]
        self.questions, self.unlabelled = self.questions + len(rows), self.unlabelled + len(samples) - len(rows)
        width, fewest = max(map(len, samples)), min(map(len, rows))
        self.fewest = min(self.fewest or fewest, fewest)
        confidences = {
            name: [value if math.isfinite(value) else None for value in values.tolist()]
            for name, values in scores.items()
        }
        for size, repeat in itertools.product(self._sizes, range(self._repeats)):
            chances = np.random.default_rng((self._seed, size, repeat)).random((len(rows), width))
            of_draw: dict[tuple[str | None, str], list[float | None]] = {}
            for row, chance in zip(rows, chances, strict=True):
                places = row[np.sort(np.argsort(chance[: len(row)])[:size])].tolist()
                labels, those = [classes[place] for place in places], correct[places].tolist()
                of_draw.setdefault((None, "pass@1"), []).append(math.fsum(those) / len(those))
                of_draw.setdefault((None, "pass@n"), []).append(max(those))
                of_draw.setdefault((None, "majority"), []).append(majority_accuracy(labels, those))
                for (name, values), rule in itertools.product(confidences.items(), self._rules):
                    choice = choose([values[place] for place in places], labels, rule)
                    of_draw.setdefault((name, rule.method), []).append(None if choice is None else those[choice.chosen])
            for way, found in of_draw.items():
                if any(accuracy is not None for accuracy in found):
                    accuracy = math.fsum(accuracy or 0.0 for accuracy in found) / len(rows)
                    self.accuracies.setdefault(way, {}).setdefault(size, []).append(accuracy)

    def point(self, score: str | None, method: str, size: int) -> Estimate:
        """Return the mean accuracy among N = ``size`` responses, undefined where nothing was chosen."""
        return Estimate.mean(self.accuracies.get((score, method), {}).get(size, ()))
