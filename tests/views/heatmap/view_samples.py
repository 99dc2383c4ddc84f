"""Scored responses for the tests of the views: a model's own, one correct and one incorrect, and hard text."""

from __future__ import annotations

import math
import random
import re
from typing import Any

from tests.helpers import SCORED, parsed
from tokur_cli.commands.heatmap.records import heatmap_response
from tokur_cli.records.record import Record
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import ScaleBuilder

NAMES = ("eu", "au", "tu", "entropy", "logprob")
EU, LOGPROB, DEEPCONF = (QUANTITIES[name] for name in ("eu", "logprob", "deepconf"))

HARD = (
    "Plain [bold]markup[/bold] :smile: \x1b[31mred\x1b[0m\x07 tab\there\r\nnext\x9b2J line\n\n"
    "日本語のテキスト、漢字。 한국어 e\u0301te\u0301 "
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ 1️⃣ 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f "
    "<b>&amp;</b></script><script>alert(1)</script><!-- ]]> "
    "rtl \u202eevil\u202c zero\u200bwidth \ufeff nul\x00 del\x7f sep\u2028para\u2029 \uffff क्षि "
    "क्\u200dष a\u200db \u0301 $$x^2$$ \\u001b {{7*7}} `x` '\"\u00a0end"
)
_TOKEN = re.compile(r" ?[A-Za-z]+| ?\d{1,3}|\n+| ?[^\sA-Za-z\d]{1,2}|\s")


def right() -> HeatmapResponse:
    return _of(parsed(SCORED.read_text())[0], correct=True, answer="10")


def wrong() -> HeatmapResponse:
    return _of(parsed(SCORED.read_text())[1], correct=False, answer="2")


def hard() -> HeatmapResponse:
    return _made_up(HARD, 3, id="hard [red]\x1b[2J\n", question="Is </script> harmless?")


def long(tokens: int = 10_000) -> HeatmapResponse:
    """A response of about so many tokens, the hard text among them."""
    sentence = " so the sum of 3 and 4 is 7, which we halve.\n日本語 👍🏽\t"
    return _made_up(HARD + sentence * (tokens // 20), 4)


def scales_of(responses, *names):
    """The scales of some quantities over all responses."""
    builder = ScaleBuilder([QUANTITIES[name] for name in NAMES])
    for response in responses:
        builder.add(response)
    return [builder.scale(name) for name in names]


def _of(fields: dict[str, Any], **more: Any) -> HeatmapResponse:
    return heatmap_response(Record.parse(fields, None, None), NAMES, [], **more)


def _made_up(text: str, seed: int, **fields: str) -> HeatmapResponse:
    """Return a response with values of the shape of real ones, and a last token without text."""
    rng = random.Random(seed)
    spans = [*(list(match.span()) for match in _TOKEN.finditer(text)), [len(text), len(text)]]
    eu = [0.004 * math.exp(rng.gauss(0, 1.1)) for _ in spans]
    au = [0.12 * math.exp(rng.gauss(0, 1.2)) for _ in spans]
    tu = [epistemic + aleatoric for epistemic, aleatoric in zip(eu, au, strict=True)]
    tokens = {"offsets": spans, "eu": eu, "au": au, "tu": tu, "entropy": tu, "logprob": [-value for value in tu]}
    scores = {"eu": sum(eu), "ll": -sum(tu) / len(tu), "p_true": None}
    return _of({"id": "1", **fields, "response": text, "tokur": {"tokens": tokens, "scores": scores}})
