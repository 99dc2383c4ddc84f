"""The reasoning steps of a response, and how unsure the model was in each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tokur_cli.views.heatmap.response import HeatmapResponse, Quantity

# "## Step 2: …", "### Solution", "**Step 2**", "Step 2:"; a single "#" is as often a comment in code.
_HEADING = re.compile(r"^[ \t]*(?:#{2,6}[ \t]+\S|(?:#[ \t]+)?\**step[ \t]+\d+\b)", re.IGNORECASE | re.MULTILINE)
_NUMBERED = re.compile(r"^[ \t]*(?:\d{1,3}[.)]|\(\d{1,3}\))[ \t]+\S", re.MULTILINE)
_SENTENCE = re.compile(r"(?:[.!?][\"'”’)\]*]*[ \t]+|[。！？]|\n)\s*(?=\S)")
_NOT_AN_END = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|mr|mrs|ms|dr|eq|fig)|(?:^|\n)[ \t]*\d{1,3})\.[ \t]+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """One reasoning step.

    Args:
        start: its first code point in the response.
        end: the code point after its last.
        tokens: its tokens.
        total: the sum of their values; None if none has a value.
        mean: their mean value; None if none has a value.
    """

    start: int
    end: int
    tokens: range
    total: float | None
    mean: float | None


def step_spans(response: str) -> list[tuple[int, int]]:
    """Cut a response into its reasoning steps: code points ``[start, end)`` that join to the whole text.

    Headings such as ``## Step 2`` are used where there are two or more, else numbered lines, else sentences and lines.
    What stands before the first heading or number is a step of its own.
    """
    starts: list[int] = []
    for pattern in (_HEADING, _NUMBERED):
        starts = [match.start() for match in pattern.finditer(response)]
        if len(starts) > 1:
            break
    else:
        starts = [
            match.end()
            for match in _SENTENCE.finditer(response)
            if not _NOT_AN_END.search(response, max(0, match.start() - 8), match.end())
        ]
    if not response[: starts[0] if starts else 0].strip():
        starts = starts[1:]
    bounds = [0, *starts, len(response)]
    return list(pairwise(bounds))


def steps_of(response: HeatmapResponse, quantity: Quantity) -> list[Step]:
    """Return the reasoning steps with the sum and the mean of their tokens' values.

    A token belongs to the step that holds its first visible code point, and one without text to the step that ends
    where it stands; so each token counts once.

    Args:
        response: the response.
        quantity: what is summed.

    Raises:
        RecordError: the response lacks the quantity.
    """
    values = response.token_values(quantity.name)
    steps = []
    first = 0
    spans = step_spans(response.response)
    for start, end in spans:
        after = first
        while after < len(values) and (end == len(response.response) or _home(response, after) < end):
            after += 1
        known = [value for value in values[first:after] if value is not None]
        total = sum(known) if known else None
        steps.append(Step(start, end, range(first, after), total, None if total is None else total / len(known)))
        first = after
    return steps


def doubtful_step(steps: Sequence[Step], quantity: Quantity) -> int | None:
    """Return the index of the least sure step, None if no step has a value.

    For an uncertainty that is the step with the largest sum; for a confidence, whose sum grows with length however
    unsure the tokens are, the one with the lowest mean.
    """
    by_sum = quantity.orientation == "uncertainty"
    doubts = [
        (quantity.doubt(value), -index)
        for index, step in enumerate(steps)
        if (value := step.total if by_sum else step.mean) is not None
    ]
    return -max(doubts)[1] if doubts else None


def _home(response: HeatmapResponse, token: int) -> int:
    start, end = response.spans[token]
    if start == end:
        return start - 1
    text = response.response[start:end]
    return end - len(text.lstrip()) if text.strip() else start
