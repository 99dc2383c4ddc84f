"""Would it pay to end responses of little confidence early? DeepConf's online rule on samples that are there.

The first samples of a question (--warm-up, the paper's 16) are drawn whole. The lowest mean confidence of --window
tokens in each of them gives a threshold, which 10 % or 90 % of them reach. A further sample ends where a window falls
below it. Samples that reach it vote, weighted by their lowest window. Source: Fu et al. 2025.

tokur score samples/responses_n16.jsonl --dtype float32 --scores deepconf > confident.jsonl
tokur evaluate confident.jsonl --graded graded.jsonl
python samples/deepconf_online.py graded.jsonl --warm-up 8 --window 16
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.metrics.estimate import interval
from tokur_cli.scores.catalogue import GROUP_TOKENS, group_confidences

ORDERS, RESAMPLES = 100, 1000


class Question:
    """The samples of a question: classes of answers, labels, lengths, confidences of their windows."""

    def __init__(self, records: Sequence[dict[str, Any]], window: int, equivalence: Equivalence) -> None:
        self.classes = answer_classes([record["tokur"]["answer"] for record in records], equivalence).labels
        self.right = [bool(record["correct"]) for record in records]
        tokens = [np.array(record["tokur"]["tokens"]["deepconf"]) for record in records]
        self.lengths = np.array([len(of) for of in tokens])
        self.groups = [group_confidences(of, window) for of in tokens]
        self.lowest = np.array([of.min() for of in self.groups])

    def vote(self, order: Sequence[int], weights: Sequence[float]) -> bool:
        """Return whether the answer of the most weight is right; of equals the one that came first."""
        sums: defaultdict[int, float] = defaultdict(float)
        for place in order:
            if (label := self.classes[place]) is not None:
                sums[label] += weights[place]
        if not sums:
            return False
        best = max(sums, key=lambda label: sums[label])
        return self.right[next(place for place in order if self.classes[place] == best)]

    def in_order(self, order: Sequence[int], warm_up: int, part: int, window: int) -> list[float]:
        """Return whether the rule is right, the plain vote of all is, and the tokens of both."""
        threshold = np.percentile(self.lowest[order[:warm_up]], 100 - part)
        drawn = int(self.lengths[order[:warm_up]].sum())
        for place in order[warm_up:]:
            below = np.flatnonzero(self.groups[place] < threshold)
            drawn += min(int(below[0]) + window, self.lengths[place]) if len(below) else self.lengths[place]
        voting = [place for place in order if self.lowest[place] >= threshold]
        every = self.vote(order, [1.0] * len(order))
        return [self.vote(voting, self.lowest), every, drawn, self.lengths.sum()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help='records with "correct", "tokur.answer" and token arrays')
    parser.add_argument("--warm-up", type=int, default=16, metavar="N")
    parser.add_argument("--window", type=int, default=GROUP_TOKENS, metavar="N", help="tokens")
    given = parser.parse_args()
    samples: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in given.file.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        samples[record["id"]].append(record)
    with Equivalence() as equivalence:
        questions = [Question(records, given.window, equivalence) for records in samples.values()]
    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(questions), (RESAMPLES, len(questions)))
    for part in (10, 90):
        found = np.array(
            [
                np.mean(
                    [
                        of.in_order(generator.permutation(len(of.right)), given.warm_up, part, given.window)
                        for _ in range(ORDERS)
                    ],
                    axis=0,
                )
                for of in questions
            ]
        )  # (questions, 4)
        gain = found[:, 0] - found[:, 1]
        low, high = interval(gain[chosen].mean(axis=1))
        print(
            f"the most confident {part} % of {given.warm_up}, windows of {given.window}: "
            f"{100 * gain.mean():+.1f} [{100 * low:.1f}, {100 * high:.1f}] points from the plain vote of all, "
            f"{found[:, 2].sum() / found[:, 3].sum():.1%} of its tokens"
        )


if __name__ == "__main__":
    main()
