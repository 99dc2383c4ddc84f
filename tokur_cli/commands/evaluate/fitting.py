"""``--fit``: from labelled scores to a calibration, and to probabilities for questions that were left out."""

from __future__ import annotations

import copy
import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokur_cli.answers.grading import Labelled
from tokur_cli.commands.evaluate.reading import Columns
from tokur_cli.commands.evaluate.results import Results
from tokur_cli.commands.options.evaluate import EvaluationOptions, FitOptions
from tokur_cli.engine.posterior.settings import DRAW_SETTINGS
from tokur_cli.metrics.calibration import FOLDS, Curve, Fit, Line, fit_isotonic, fit_logistic, fit_platt, held_out
from tokur_cli.metrics.catalogue import METRICS, ProbabilityMetric
from tokur_cli.metrics.ranking import Floats
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.provenance import Provenance
from tokur_cli.records.quantity import Orientation
from tokur_cli.scores.calibration import P_CORRECT, Calibration, Method, relevant_settings
from tokur_cli.scores.catalogue import Score, choose_scores

DEFAULT_SCORES = "eu,ll_sum,neg_length"
FEWEST = 10
"""Questions with a correct response, and questions with an incorrect one: two of each in every fold."""


@dataclass
class CalibrationFit:
    """A calibration on its way: the records that it is fitted on."""

    file: str
    options: FitOptions
    seed: int
    scores: tuple[Score, ...] = field(init=False)
    method: Method = field(init=False)
    labels: Counter[str] = field(default_factory=Counter)
    settings: dict[str, Any] | None = None
    held: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        self.scores = tuple(choose_scores(self.options.by or DEFAULT_SCORES))
        if P_CORRECT in self.by:
            raise UsageError(f"--by {P_CORRECT}: is what is fitted; name other scores")
        self.method = self.options.fit_method or ("platt" if len(self.scores) == 1 else "logistic")
        if self.method != "logistic" and len(self.scores) > 1:
            raise UsageError(f"fit_method={self.method} takes one score, not {len(self.scores)}: give one with --by")

    @property
    def by(self) -> list[str]:
        """The scores' names."""
        return [score.name for score in self.scores]

    @property
    def orientations(self) -> dict[str, Orientation]:
        """Which way each score points."""
        return {score.name: score.orientation for score in self.scores}

    @property
    def methods(self) -> Mapping[str, str]:
        """How each probability is fitted: ``p_correct``, and beside one of several scores each alone."""
        alone = dict.fromkeys(self.by, "platt") if len(self.by) > 1 else {}
        return {P_CORRECT: self.method, **alone}

    @property
    def described(self) -> str:
        """What was fitted, and what the figures are of."""
        ways = {"platt": "Platt scaling", "isotonic": "isotonic regression", "logistic": "logistic regression"}
        alone = ", and so are those of each score alone by Platt scaling" if len(self.by) > 1 else ""
        return (
            f"{P_CORRECT} by {ways[self.method]} on {', '.join(self.by)}; its figures are of questions that were left "
            f"out{alone}"
        )

    def add(self, labelled: Labelled, values: Mapping[str, float]) -> None:
        """Take note of how a record's scores were made and where its label is from, if it can be fitted on."""
        if labelled.source is None or not all(math.isfinite(values.get(name, math.nan)) for name in self.by):
            return
        record = labelled.record
        run = record.settings("run")
        if run.get("model") is None:
            raise record.error(
                'has no "tokur.run" that names the model whose scores these are: score it with tokur score'
            )
        settings = relevant_settings(run, self.by, DRAW_SETTINGS)
        if self.settings is None:
            self.settings = settings
        for name, value, before in Provenance(settings).differences(self.settings):
            raise record.error(
                f"was scored with {name} {value}, records before it with {before}: a calibration is of scores that "
                "were made in one way"
            )
        self.labels[labelled.source] += 1

    def hold_out(self, runs: list[Columns]) -> Columns:
        """Return the records with probabilities in place of scores, each fitted on other questions."""
        if len(runs) > 1:
            raise TokurError("--fit takes one run: put its files together, or leave out the records of other seeds")
        run = runs[0]
        label, question = np.array(run.label), np.array(run.question)
        values = np.column_stack([np.array(run.scores[name]) for name in self.by])
        self.held = np.isfinite(values).all(axis=1) & np.isfinite(label)
        _check_enough(label[self.held], question[self.held])
        probabilities = copy.copy(run)
        probabilities.wanted = replace(run.wanted, scores=dict.fromkeys(self.methods, "confidence"))
        probabilities.probabilities, probabilities.scores = tuple(self.methods), {}
        for name in self.methods:
            columns = slice(None) if name == P_CORRECT else [self.by.index(name)]
            probability = np.full(len(label), math.nan)
            probability[self.held] = held_out(
                values[self.held][:, columns],
                label[self.held],
                self._fit(name),
                cluster=question[self.held],
                seed=self.seed,
            )
            probabilities.scores[name] = array("d", probability)
        return probabilities

    def calibration(self, run: Columns, results: Results) -> Calibration:
        """Return what is fitted on all records, and how good it is for questions that were left out."""
        assert self.held is not None
        label, question = np.array(run.label)[self.held], np.array(run.question)[self.held]
        values = np.column_stack([np.array(run.scores[name])[self.held] for name in self.by])
        fitted = self._fit(P_CORRECT)(values, label)
        figures = results.overall.scores[P_CORRECT].metrics
        return Calibration(
            method=self.method,
            scores=tuple(self.by),
            weights=tuple(fitted.weights.tolist()) if isinstance(fitted, Line) else None,
            intercept=fitted.intercept if isinstance(fitted, Line) else None,
            points=tuple((s, p) for s, p in fitted.points.tolist()) if isinstance(fitted, Curve) else None,
            settings=self.settings or {},
            records=len(label),
            questions=len(np.unique(question)),
            labels=dict(self.labels),
            cross_validation={"folds": FOLDS, "seed": self.seed}
            | {
                name: figures[name].as_json()
                for name, metric in METRICS.items()
                if name == "auroc" or isinstance(metric, ProbabilityMetric)
            },
        )

    def warning(self, run: Columns, results: Results) -> str | None:
        """Return in words that the probabilities are no better than the accuracy alone, if so by their Brier score."""
        label = np.array(run.label)[self.held]
        brier, constant = results.overall.scores[P_CORRECT].metrics["brier"].value, float(label.var())
        if brier is None or brier < constant:
            return None
        return (
            f"{P_CORRECT} tells no more than the accuracy: its Brier score is {brier:.4f}, and {constant:.4f} if every "
            f"response is given {100 * label.mean():.2f} %; the calibration was written all the same: fit on more "
            "questions, or on other scores (--by)"
        )

    def _fit(self, name: str) -> Fit:
        """Return what fits a probability to values and labels."""
        if self.methods[name] == "isotonic":
            return partial(fit_isotonic, rising=self.scores[0].orientation == "confidence")
        return fit_platt if self.methods[name] == "platt" else fit_logistic


def results_options(options: EvaluationOptions, fitting: CalibrationFit) -> EvaluationOptions:
    """Return how probabilities are evaluated: each score's beside ``p_correct``."""
    return replace(options, versus=P_CORRECT if len(fitting.by) > 1 else None)


def _check_enough(label: Floats, question: NDArray[np.intp]) -> None:
    right, wrong = (len(np.unique(question[part])) for part in (label > 0, label < 1))
    if min(right, wrong) < FEWEST:
        raise TokurError(
            f"--fit needs at least {FEWEST} questions with a correct response and {FEWEST} with an incorrect one that "
            f"have all scores: there are {right} and {wrong}"
        )
