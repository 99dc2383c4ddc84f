"""Finding the incorrect spans of a response among its other spans: each response by itself.

Comparing the spans of one response alone leaves out what differs between responses, such as how hard their questions
are. A span without a confidence is in no pair and comes last.
"""

from __future__ import annotations

import math

import numpy as np

from tokur_cli.metrics.ranking import Floats


def within(label: Floats, confidence: Floats) -> float:
    """Return the share of a response's pairs of a correct and an incorrect span whose incorrect one is less confident.

    Args:
        label: (S,), 1 for correct, 0 for incorrect, NaN for not known; in the order of the text.
        confidence: (S,), NaN where a span has none.

    Returns:
        A number in [0, 1], equal ones counted half; NaN where there is no such pair.
    """
    known = np.isfinite(confidence)
    wrong, right = confidence[(label == 0) & known][:, None], confidence[(label == 1) & known]
    pairs = len(wrong) * len(right)
    below = (wrong < right).sum() + 0.5 * (wrong == right).sum()
    return float(below / pairs) if pairs else math.nan


def hit(label: Floats, confidence: Floats, most: int) -> float:
    """Return whether the first incorrect span is among the ``most`` least confident ones, in expectation over ties.

    Takes what ``within`` takes. NaN without an incorrect span, or with one span only.
    """
    wrong = label == 0
    if not wrong.any() or len(label) < 2:
        return math.nan
    first = confidence[wrong.argmax()]
    before, even = (confidence < first).sum(), (confidence == first).sum()  # with itself, unless it has no confidence
    return float(np.clip((most - before) / even, 0, 1)) if even else 0.0
