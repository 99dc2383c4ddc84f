"""What a strength of the perturbation does to responses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labelled import Labeller
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.scoring.quantities import COMPARISONS
from tokur_cli.engine.scoring.scorer import Quantities, Scorer, TokenizedResponse
from tokur_cli.metrics.ranking import auroc
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.scores.quantities import OF_DRAWS


@dataclass(frozen=True)
class Trial:
    """Responses that strengths are tried on.

    Args:
        responses: the tokenized responses.
        labels: 1 for correct, 0 for incorrect, NaN where it is not known; one per response.
    """

    responses: list[TokenizedResponse]
    labels: list[float]


def read_trial(
    items: Iterable[Record | RecordError],
    session: Session,
    limit: int | None,
    labels: LabelOptions,
    invalid: InvalidRecords,
) -> Trial:
    """Tokenize and label the first ``limit`` good records (all for None)."""
    trial = Trial([], [])
    with Labeller(labels, invalid, answers=False, is_strict=False) as labelling:
        for labelled in labelling.good(items):
            try:
                located = session.tokenize(labelled.record)
            except RecordError as error:
                invalid.skip_or_raise(error)
                continue
            trial.responses.append(located.tokens)
            trial.labels.append(labelled.label)
            if len(trial.responses) == limit:
                break
    if not trial.responses:
        raise TokurError("the input has no response to try strengths on")
    return trial


def try_strength(trial: Trial, scorer: Scorer, progress: Progress) -> dict[str, Any]:
    """Return means over tokens, in nats and fractions, and the AUROC of sums over responses."""
    results: list[Quantities] = [{}] * len(trial.responses)
    for index, result in scorer.score(trial.responses):
        if isinstance(result, TokurError):
            raise result
        results[index] = result
        progress.advance(1, len(result["logprob"]))
    names = [name for name in results[0] if name in OF_DRAWS or name in COMPARISONS]
    tokens = {name: np.concatenate([result[name] for result in results]).astype(np.float64) for name in names}
    return {
        **{name: float(values.mean()) for name, values in tokens.items()},
        "auroc": _auroc(results, trial.labels),
        "responses": len(results),
        "tokens": len(tokens["kl"]),
    }


def _auroc(results: list[Quantities], labels: list[float]) -> dict[str, float | None] | None:
    correct = np.asarray(labels)
    known = (correct == 0) | (correct == 1)
    if len(np.unique(correct[known])) < 2:
        return None
    sums = {
        name: np.array([result[name].sum(dtype=np.float64) for result in results])[known]
        for name in results[0]
        if name in OF_DRAWS
    }
    return {
        name: auroc(-values, correct[known]) if np.isfinite(values).all() else None for name, values in sums.items()
    }
