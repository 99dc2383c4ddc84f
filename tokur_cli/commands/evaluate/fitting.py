"""``--fit``: from labelled scores to a calibration, and to probabilities for questions that were left out."""

from __future__ import annotations

import copy
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tokur_cli.answers.grading import Labelled
from tokur_cli.commands.evaluate.reading import Columns
from tokur_cli.commands.evaluate.results import Results
from tokur_cli.commands.options.evaluate import FitOptions
from tokur_cli.metrics.calibration import FOLDS, Fit, Line, fit_isotonic, fit_logistic, fit_platt, held_out
from tokur_cli.metrics.catalogue import METRICS
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.record import differences
from tokur_cli.scores.calibration import P_CORRECT, Calibration, Method, relevant_settings
from tokur_cli.scores.catalogue import choose_scores

DEFAULT_SCORES = "eu,ll_sum,neg_length"
FEWEST = 10  # questions with a correct response, and questions with an incorrect one: two of each in every fold
_WAYS = {"platt": "Platt scaling", "isotonic": "isotonic regression", "logistic": "logistic regression"}


class CalibrationFit:
    """A calibration on its way; the seed is that of the folds.

    Attributes:
        orientations: which way each score points.
        methods: how each probability is fitted: ``p_correct``, and beside one of several scores each alone.
    """

    def __init__(self, options: FitOptions, seed: int) -> None:
        self.orientations = {score.name: score.orientation for score in choose_scores(options.by or DEFAULT_SCORES)}
        self._by, self._seed = list(self.orientations), seed
        if P_CORRECT in self._by:
            raise UsageError(f"--by {P_CORRECT}: is what is fitted; name other scores")
        self._method: Method = options.fit_method or ("platt" if len(self._by) == 1 else "logistic")
        if self._method != "logistic" and len(self._by) > 1:
            raise UsageError(f"fit_method={self._method} takes one score, not {len(self._by)}: give one with --by")
        alone = dict.fromkeys(self._by, "platt") if len(self._by) > 1 else {}
        self.methods: Mapping[str, str] = {P_CORRECT: self._method, **alone}
        self._labels: Counter[str] = Counter()
        self._settings: dict[str, Any] = {}

    def add(self, labelled: Labelled, values: Mapping[str, float]) -> None:
        """Take note of how a record's scores were made and where its label is from, if it can be fitted on."""
        if labelled.source is None or not all(math.isfinite(values.get(name, math.nan)) for name in self._by):
            return
        record = labelled.record
        run = record.computed("run")
        if run.get("model") is None:
            raise record.error(
                "has scores of no model: score it with tokur score, without --from-logprobs, to fit on it"
            )
        settings = relevant_settings(run, self._by)
        self._settings = self._settings or settings
        for name, value, before in differences(settings, self._settings):
            raise record.error(
                f"was scored with {name} {value}, records before it with {before}: a calibration is of scores that "
                "were made in one way"
            )
        self._labels[labelled.source] += 1

    def hold_out(self, run: Columns) -> Columns:
        """Return the records that can be fitted on, with probabilities in place of scores, each of other folds' fit."""
        self._values = np.column_stack([np.array(run.scores[name]) for name in self._by])
        self._label, self._question = np.array(run.label), np.array(run.question)
        held = np.isfinite(self._values).all(axis=1) & np.isfinite(self._label)
        self._values, self._label, self._question = self._values[held], self._label[held], self._question[held]
        right, wrong = (len(np.unique(self._question[of])) for of in (self._label > 0, self._label < 1))
        if min(right, wrong) < FEWEST:
            raise TokurError(
                f"--fit needs at least {FEWEST} questions with a correct response and {FEWEST} with an incorrect one "
                f"that have all scores: there are {right} and {wrong}"
            )
        probabilities = copy.copy(run)
        probabilities.wanted = replace(run.wanted, scores=dict.fromkeys(self.methods, "confidence"))
        probabilities.probabilities, probabilities.scores = tuple(self.methods), {}
        for name in self.methods:
            values = self._values if name == P_CORRECT else self._values[:, [self._by.index(name)]]
            probability = np.full(len(held), math.nan)
            probability[held] = held_out(values, self._label, self._fit(name), self._question, self._seed)
            probabilities.scores[name] = array("d", probability)
        return probabilities

    def calibration(self, results: Results) -> Calibration:
        """Return what is fitted on all records, and how good it is for questions that were left out."""
        fitted = self._fit(P_CORRECT)(self._values, self._label)
        is_line = isinstance(fitted, Line)
        points = None if is_line else zip(fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist(), strict=True)
        figures = results.overall.scores[P_CORRECT].metrics
        return Calibration(
            method=self._method,
            scores=tuple(self._by),
            weights=tuple(fitted.weights.tolist()) if is_line else None,
            intercept=fitted.intercept if is_line else None,
            points=None if points is None else tuple(points),
            settings=self._settings,
            records=len(self._label),
            questions=len(np.unique(self._question)),
            labels=dict(self._labels),
            cross_validation={"folds": FOLDS, "seed": self._seed}
            | {
                name: figures[name].as_json()
                for name, metric in METRICS.items()
                if name == "auroc" or metric.kind == "probability"
            },
        )

    def notes(self, results: Results) -> Iterator[str]:
        """Yield what was fitted and what the figures are of, then if by them it tells no more than the accuracy."""
        alone = ", and so are those of each score alone by Platt scaling" if len(self._by) > 1 else ""
        yield (
            f"{P_CORRECT} by {_WAYS[self._method]} on {', '.join(self._by)}; its figures are of questions that were "
            f"left out{alone}"
        )
        brier, constant = results.overall.scores[P_CORRECT].metrics["brier"].value, float(self._label.var())
        if brier is not None and brier >= constant:
            yield (
                f"{P_CORRECT} tells no more than the accuracy: its Brier score is {brier:.4f}, and {constant:.4f} if "
                f"every response is given {100 * self._label.mean():.2f} %; the calibration was written all the same: "
                "fit on more questions, or on other scores (--by)"
            )

    def _fit(self, name: str) -> Fit:
        """Return what fits a probability to values and labels."""
        if self.methods[name] == "isotonic":
            return partial(fit_isotonic, rising=self.orientations[self._by[0]] == "confidence")
        return fit_platt if self.methods[name] == "platt" else fit_logistic
