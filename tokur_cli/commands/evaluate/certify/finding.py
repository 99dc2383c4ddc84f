"""The certificate of labelled questions, or why there is none."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from tokur_cli.commands.evaluate.certify.questions import LabelledQuestions, Scored
from tokur_cli.commands.shared.digests import content_digest
from tokur_cli.metrics.certification import (
    Target,
    certify,
    fewest,
    upper_bound,
)
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.certificate import MOST_SCORES, Certificate, lot_of

_INTERVAL = 0.025
"""What either end of an interval of 95 % leaves out."""


def find(labelled: LabelledQuestions, target: Target) -> Certificate:
    """Return what is certified.

    Raises:
        TokurError: nothing can be; it says what could.
    """
    name, scored, responses = labelled.score.name, labelled.scored(), labelled.responses
    if not len(scored.values):
        raise TokurError(
            f"no record has both a label and the score {name}: run tokur score first, or name another with --by"
        )
    found = certify(scored.confidences, scored.lots, scored.wrong, target)
    if found is None:
        raise TokurError(_refusal(name, scored, target))
    questions, sources = len(responses), Counter(response.source for response in responses.values())
    ascending = np.sort(scored.values)
    kept = np.linspace(0, len(ascending) - 1, min(len(ascending), MOST_SCORES)).round().astype(np.intp)
    return Certificate(
        risk=target.risk,
        confidence=round(1 - target.doubt, 12),
        score=name,
        threshold=None if found.next is None else float(scored.values[found.next]),
        lot=None if found.next is None else float(scored.lots[found.next]),
        coverage={
            "value": found.size / questions,
            "low": 1 - float(upper_bound(questions - found.size, questions, _INTERVAL)),
            "high": float(upper_bound(found.size, questions, _INTERVAL)),
        },
        bound=found.bound,
        answered=found.size,
        errors=found.errors,
        questions=questions,
        selection=labelled.selection,
        settings=labelled.settings or {},
        labels={source: count for source, count in sources.items() if source is not None},
        scores=tuple(ascending[kept].tolist()),
        asked=tuple(sorted(lot_of(response.asked) for response in responses.values())[:MOST_SCORES]),
        data=content_digest(
            sorted(
                [key, None if math.isnan(response.value) else response.value, response.label]
                for key, response in responses.items()
            )
        ),
    )


def _refusal(name: str, scored: Scored, target: Target) -> str:
    """Return that nothing can be certified, and how many labels it takes."""
    count, needed = len(scored.values), fewest(target.risk, target.doubt)
    return (
        f"{100 * target.risk:.4g} % cannot be certified by {name} on {count:,} labelled questions, of which "
        f"{int(scored.wrong.sum()):,} are answered wrong: without any error it takes {needed:,}, with errors more"
    )
