"""Made-up scored responses for the tests of the views: a correct and an incorrect maths answer, and hard text."""

from __future__ import annotations

import math
import random
import re

from tokur_cli.records.quantity import Quantity
from tokur_cli.scores.steps import aggregates, step_spans, tokens_of_steps
from tokur_cli.views.heatmap.response import HeatmapResponse, Step, Sums
from tokur_cli.views.heatmap.scale import ScaleBuilder

EU = Quantity("eu", "epistemic uncertainty")
AU = Quantity("au", "aleatoric uncertainty")
TU = Quantity("tu", "total uncertainty")
ENTROPY = Quantity("entropy", "entropy of the mean model")
LOGPROB = Quantity("logprob", "log-probability", "confidence", mean="ll", sum="ll_sum")
DEEPCONF = Quantity("deepconf", "mean of the top 20 log-probabilities, negated", "confidence", aggregate="mean")
QUANTITIES = (EU, AU, TU, ENTROPY, LOGPROB)

QUESTION = (
    "Two trains carry coal to the same harbour. The first carries 9,600 tons a day. The second carries 40 wagons of "
    "60 tons and makes three trips a day. How many tons more does the first train carry in a day?"
)
RIGHT = """\
## Step 1: Find what the second train carries on one trip
The second train has 40 wagons of 60 tons, so one trip is 40 * 60 = 2,400 tons.

## Step 2: Find what it carries in a day
It makes three trips, so it carries 3 * 2,400 = 7,200 tons a day.

## Step 3: Take the difference
The first train carries 9,600 tons, so the difference is 9,600 - 7,200 = 2,400 tons.

The final answer is: $\\boxed{2400}$"""
WRONG = """\
## Step 1: Find what the second train carries in a day
The second train carries 40 * 60 = 2,400 tons a trip, and 3 * 2,400 = 7,200 tons a day.

## Step 2: Take the difference
To find how many tons more the first train carries, we subtract: 7,200 - 9,600 = -2,400 tons.

## Step 3: Give the answer
The first train carries -2,400 tons more than the second.

The final answer is: $\\boxed{-2400}$"""

HARD = (
    "Plain [bold]markup[/bold] :smile: \x1b[31mred\x1b[0m\x07 tab\there\r\nnext\x9b2J line\n\n"
    "日本語のテキスト、漢字。 한국어 e\u0301te\u0301 "
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ 1️⃣ 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f "
    "<b>&amp;</b></script><script>alert(1)</script><!-- ]]> "
    "rtl \u202eevil\u202c zero\u200bwidth \ufeff nul\x00 del\x7f sep\u2028para\u2029 \ud800 \uffff क्षि "
    "क्\u200dष a\u200db \u0301 $$x^2$$ \\u001b {{7*7}} `x` '\"\u00a0end"
)

_TOKEN = re.compile(r" ?[A-Za-z]+| ?\d{1,3}|\n+| ?[^\sA-Za-z\d]{1,2}|\s")


def split(text: str) -> list[tuple[int, int]]:
    """Spans as a subword tok might give them, with an end-of-sequence token without text."""
    spans = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if end - start > 8:
            spans += [(start, start + 6), (start + 6, end)]
        else:
            spans.append((start, end))
    return [*spans, (len(text), len(text))]


def values_for(text: str, spans: list[tuple[int, int]], spikes: dict[str, float], seed: int) -> dict[str, list]:
    """Values with the shape of real ones: nearly all close to zero, and a few high ones at the given pieces of text."""
    rng = random.Random(seed)
    eu = [0.004 * math.exp(rng.gauss(0, 1.1)) for _ in spans]
    au = [0.12 * math.exp(rng.gauss(0, 1.2)) for _ in spans]
    for piece, size in spikes.items():
        at = text.index(piece) + len(piece) - 1
        token = next(index for index, (_, end) in enumerate(spans) if end > at)
        eu[token], au[token] = size, 2.2 * size + au[token]
    tu = [epistemic + aleatoric for epistemic, aleatoric in zip(eu, au, strict=True)]
    entropy = [value * rng.uniform(0.85, 1.1) for value in tu]
    logprob = [-value * rng.uniform(0.2, 1.6) for value in tu]
    return {"eu": eu, "au": au, "tu": tu, "entropy": entropy, "logprob": logprob}


def painted(text: str, spans: list[tuple[int, int]], values: dict[str, list], **fields) -> HeatmapResponse:
    """A response with its steps and their sums, as the command gives them to the views."""

    def sums(within: slice) -> dict[str, Sums]:
        return {name: Sums(*list(aggregates(of[within], "uncertainty").values())[:2]) for name, of in values.items()}

    found = step_spans(text)
    steps = [
        Step(start, end, within, sums(slice(within.start, within.stop)))
        for (start, end), within in zip(found, tokens_of_steps(text, spans, found), strict=True)
    ]
    fields = {"id": "1", **fields}
    return HeatmapResponse(response=text, spans=spans, values=values, sums=sums(slice(None)), steps=steps, **fields)


def scored(text: str, spikes: dict[str, float], seed: int, **fields) -> HeatmapResponse:
    spans = split(text)
    values = values_for(text, spans, spikes, seed)
    sums = {name: sum(values[name]) for name in ("eu", "au", "tu")}
    scores = {**sums, "eu_mean": sums["eu"] / len(spans), "ll": sum(values["logprob"]) / len(spans), "p_true": None}
    return painted(text, spans, values, scores=scores, **fields)


def right() -> HeatmapResponse:
    spikes = {"Find": 0.05, "one trip is": 0.06, "= 2": 0.03, "so the": 0.04, "difference is": 0.05}
    fields = {"sample": 0, "correct": True, "answer": "2400", "reference": "2400", "question": QUESTION}
    return scored(RIGHT, spikes, 1, id="trains-7", **fields)


def wrong() -> HeatmapResponse:
    spikes = {
        "a day\nThe": 0.04,
        "a trip, and": 0.06,
        "To": 0.08,
        "more the": 0.05,
        "subtract: 7": 0.21,
        "7,200 -": 0.11,
        "9": 0.09,
        "= -": 0.13,
        "carries -": 0.08,
        "boxed{-": 0.16,
    }
    fields = {"sample": 3, "correct": False, "answer": "-2400", "reference": "2400", "question": QUESTION}
    return scored(WRONG, spikes, 2, id="trains-7", **fields)


def hard() -> HeatmapResponse:
    return scored(HARD, {"alert": 0.2, "日本": 0.1}, 3, id="hard [red]\x1b[2J\n", question="Is </script> harmless?")


def long(tokens: int = 10_000) -> HeatmapResponse:
    """A response of a number of tokens, the hard text among them."""
    words = " so the sum of 3 and 4 is 7, which we halve.\n日本語 👍🏽\t"
    text = HARD
    while len(split(text)) < tokens:
        text += words * 50
    spans = split(text)[:tokens]
    text = text[: spans[-1][1]]
    return painted(text, spans, values_for(text, spans, {}, 4))


def scales_of(responses, *names):
    """The scales of some quantities over all responses."""
    builder = ScaleBuilder(QUANTITIES)
    for response in responses:
        builder.add(response)
    return [builder.scale(name) for name in names]
