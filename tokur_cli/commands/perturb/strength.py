"""What perturbations of different strengths do: a posterior of many strengths tried on the same responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labelled import Labeller
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.workers.pool import DEATHS, InProcess, Pool
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Quantities, SamplingMode, Scorer, TokenizedResponse
from tokur_cli.engine.uncertainty.vocabulary import COMPARISONS
from tokur_cli.metrics.ranking import auroc
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter
from tokur_cli.scores.quantities import OF_DRAWS

CALIBRATION_RESPONSES = 64
"""Responses that a strength is calibrated on unless the user says otherwise."""


@dataclass(frozen=True)
class Trial:
    """Responses that strengths are tried on.

    Args:
        responses: the tokenized responses.
        labels: 1 for right, 0 for wrong, NaN where it is not known; one per response.
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


class StrengthTask(NamedTuple):
    """A strength and the responses that it is tried on."""

    sigma: float
    responses: list[TokenizedResponse]


class StrengthTester:
    """Tries strengths of one posterior, with the same underlying noise."""

    def __init__(self, session: Session, draws: Draws, sampling: SamplingMode) -> None:
        self.session, self.draws, self.sampling = session, draws, sampling
        of_draws = {"draws": draws.members, "sampling": sampling, "seed": draws.posterior.seed}
        self.settings = {**session.model.settings, **of_draws}

    def answer(self, task: StrengthTask) -> Iterator[tuple[int, Quantities | TokurError]]:
        """Yield each response's index with its quantities, or with an error where memory does not suffice for it."""
        scorer = Scorer(
            self.session.model.model,
            Draws(replace(self.draws.posterior, sigma=task.sigma), self.draws.members),
            sampling=self.sampling,
            batch_tokens=self.session.batch_tokens,
            compare=True,
        )
        return scorer.score(task.responses)


def try_strengths(
    trial: Trial, strengths: Iterable[float], pool: InProcess | Pool, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Yield the fields of each σ: means over tokens in nats, shares, and AUROC of sums over responses."""
    settings = {name: pool.settings[name] for name in ("draws", "sampling", "seed")}
    for task, outcomes in pool.map((StrengthTask(sigma, trial.responses) for sigma in strengths), _lost):
        results: list[Quantities] = [{}] * len(trial.responses)
        for index, result in outcomes:
            if isinstance(result, TokurError):
                raise result
            results[index] = result
            progress.advance(1, len(result["logprob"]))
        tokens = {
            name: np.concatenate([result[name] for result in results]).astype(np.float64)
            for name in results[0]
            if name in OF_DRAWS or name in COMPARISONS
        }
        yield {
            "sigma": task.sigma,
            **{name: float(values.mean()) for name, values in tokens.items()},
            "auroc": _auroc(results, trial.labels),
            "responses": len(results),
            "tokens": len(tokens["kl"]),
            **settings,
        }


def write_fields(writer: RecordWriter, fields: dict[str, Any]) -> None:
    """Write a record of these fields alone."""
    writer.write(Record.parse(encode_value(fields), None, None))


def _lost(task: StrengthTask) -> Iterator[tuple[int, TokurError]]:
    """Yield the error of a strength that no worker outlives."""
    yield (
        0,
        TokurError(
            f"{DEATHS} workers died while they tried σ = {task.sigma:g}: is there too little memory for --batch-tokens?"
        ),
    )


def _auroc(results: list[Quantities], labels: list[float]) -> dict[str, float | None] | None:
    right = np.asarray(labels)
    known = (right == 0) | (right == 1)
    if len(np.unique(right[known])) < 2:
        return None
    sums = {
        name: np.array([result[name].sum(dtype=np.float64) for result in results])[known]
        for name in results[0]
        if name in OF_DRAWS
    }
    return {name: auroc(-values, right[known]) if np.isfinite(values).all() else None for name, values in sums.items()}
