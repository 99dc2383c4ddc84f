"""A response's reasoning steps: where they begin, which tokens are theirs, and how unsure the model is in each."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from tokur_cli.records.quantity import Orientation, Quantity
from tokur_cli.scores.quantities import GUIDES, QUANTITIES

if TYPE_CHECKING:
    from tokur_cli.scores.catalogue import Features  # needs numpy, which the options do without

Over = Literal["mean", "sum", "top5", "step"]
Span = tuple[int, int]
"""Code points ``[start, end)`` of a response."""

STEP_RULES = ("auto", "lines", "sentences")
"""Names of ways to cut a response into steps; any other is a regular expression."""

AGGREGATES = ("sum", "mean", "max", "top5")
TOP = 5

# "## Step 2: …", "### Solution", "**Step 2**", "Step 2:"; a single "#" is as often a comment in code.
_HEADING = re.compile(r"^[ \t]*(?:#{2,6}[ \t]+\S|(?:#[ \t]+)?\**step[ \t]+\d+\b)", re.IGNORECASE | re.MULTILINE)
_NUMBERED = re.compile(r"^[ \t]*(?:\d{1,3}[.)]|\(\d{1,3}\))[ \t]+\S", re.MULTILINE)
# What ends the text ends no step; to look for that behind the white space here would take the square of its length
_SENTENCE = re.compile(r"(?:[.!?][\"'”’)\]*]*[ \t]+|[。！？]|\n)\s*")
_LINE = re.compile(r"\n\s*")
_NOT_AN_END = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|mr|mrs|ms|dr|eq|fig)|(?:^|\n)[ \t]*\d{1,3})\.[ \t]+$", re.IGNORECASE)


def step_spans(response: str, by: str = "auto") -> list[Span]:
    """Cut a response into its reasoning steps: spans that join to the whole text.

    Args:
        response: the text.
        by: ``auto``: headings such as ``## Step 2`` where there are two or more, else numbered lines, else sentences;
            what stands before the first heading or number is a step of its own. ``lines``; ``sentences``, which also
            end with their line; or a regular expression: a step ends with each match.
    """
    starts: list[int] = []
    if by == "auto":
        for pattern in (_HEADING, _NUMBERED):
            starts = [match.start() for match in pattern.finditer(response)]
            if len(starts) > 1:
                break
        else:
            starts = list(_sentences(response))
    elif by == "sentences":
        starts = list(_sentences(response))
    else:
        ends = _LINE if by == "lines" else re.compile(by)
        starts = sorted({match.end() for match in ends.finditer(response)} - {len(response)})
    if not response[: starts[0] if starts else 0].strip():
        starts = starts[1:]
    return list(pairwise([0, *starts, len(response)]))


def _sentences(response: str) -> Iterator[int]:
    for match in _SENTENCE.finditer(response):
        ends = match.end() == len(response)
        if not (ends or _NOT_AN_END.search(response, max(0, match.start() - 8), match.end())):
            yield match.end()


def token_places(response: str, offsets: Sequence[Span]) -> list[int]:
    """Return the code point where each of T tokens counts: its first visible one.

    A token without text counts where the text before it ends. Places never decrease.

    Args:
        response: the text.
        offsets: T spans of it, one per token.
    """
    places: list[int] = []
    for start, end in offsets:
        text = response[start:end]
        place = end - len(text.lstrip()) if text.strip() else start if end > start else start - 1
        places.append(max(place, places[-1]) if places else place)
    return places


def tokens_of_steps(response: str, offsets: Sequence[Span], spans: Sequence[Span]) -> list[range]:
    """Return the tokens of each step, so that each token counts once.

    Args:
        response: the text.
        offsets: spans of its tokens.
        spans: its steps, which join to the whole text.
    """
    places = token_places(response, offsets)
    bounds = [0, *(bisect_left(places, end) for _, end in spans[:-1]), len(offsets)]
    return [range(first, after) for first, after in pairwise(bounds)]


def aggregates(values: Sequence[float], orientation: Orientation) -> dict[str, float]:
    """Return the sum and the mean of some tokens' values, the value of the least certain one, and the mean of the five.

    The least certain token has the largest value of an uncertainty and the smallest of a confidence. Of no tokens, or
    where one has no value (NaN), all are NaN; of fewer than five, ``top5`` is the mean.

    Args:
        values: of T tokens, in nats.
        orientation: ``uncertainty`` or ``confidence``.
    """
    if not values or any(map(math.isnan, values)):
        return dict.fromkeys(AGGREGATES, math.nan)
    total = sum(values)
    top = sorted(values, reverse=orientation == "uncertainty")[:TOP]
    return dict(zip(AGGREGATES, (total, total / len(values), top[0], sum(top) / len(top)), strict=True))


def describe_steps(
    response: str, offsets: Sequence[Span], quantities: Mapping[str, Sequence[float]], by: str
) -> list[dict[str, Any]]:
    """Return ``tokur.steps``: of each step ``start``, ``end``, and of each quantity its aggregates.

    Args:
        response: the text.
        offsets: spans of its tokens.
        quantities: the values of its tokens by name.
        by: see ``step_spans``.
    """
    spans = step_spans(response, by)
    return [
        {
            "start": start,
            "end": end,
            **{
                name: aggregates(values[tokens.start : tokens.stop], QUANTITIES[name].orientation)
                for name, values in quantities.items()
            },
        }
        for (start, end), tokens in zip(spans, tokens_of_steps(response, offsets, spans), strict=True)
    ]


@dataclass(frozen=True)
class GuideScore:
    """What a generation is guided by: how sure the model is of what a response says so far."""

    name: str  # of a quantity, as in ``GUIDES``
    # ``mean`` or ``sum`` over the tokens so far, ``top5`` (the mean of the five least certain ones) or ``step`` (the
    # mean over the last step alone)
    over: Over

    @property
    def quantity(self) -> Quantity:
        """The quantity of single tokens that it is computed from."""
        return GUIDES[self.name]

    def __call__(self, tokens: Features, step: int) -> float:
        """Return the score of a response so far.

        Args:
            tokens: quantities of its tokens, (T,) each.
            step: the token that its last step begins with.
        """
        begin, how = (step, "mean") if self.over == "step" else (0, self.over)
        return aggregates(tokens[self.quantity.name][begin:].tolist(), self.quantity.orientation)[how]
