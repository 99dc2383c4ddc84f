"""A calibration: what makes a probability of being correct, ``p_correct``, of a response's other scores.

Platt scaling and logistic regression: p = 1 / (1 + e^−(b + Σ_i w_i s_i)), with s the scores as the records have them.
Isotonic regression: of one score, linear between points (s, p) and level beyond the first and the last one. Sources:
Platt 1999, Zadrozny & Elkan 2002. ``tokur evaluate --fit`` finds the numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tokur_cli import __version__
from tokur_cli.records.encoding import read_json
from tokur_cli.records.errors import UsageError
from tokur_cli.records.record import DRAW_SETTINGS, UNSAID, differences
from tokur_cli.scores.quantities import OF_DRAWS

if TYPE_CHECKING:
    from tokur_cli.scores.catalogue import Features, Score

Method = Literal["platt", "isotonic", "logistic"]

P_CORRECT = "p_correct"

_OF_MODEL = ("model", "revision", "dtype")
_ANY_RUN = ("seed", "attempt_seed", "version", "calibration", "prompts", "model_digest", "base_digest")


@dataclass(frozen=True)
class Calibration:
    """What a calibration's file holds."""

    method: Method  # how it was fitted
    scores: tuple[str, ...]  # what it takes, by name
    weights: tuple[float, ...] | None  # w, one a score; None for isotonic regression
    intercept: float | None  # b; None for isotonic regression
    points: tuple[tuple[float, float], ...] | None  # (s, p), s rising; None for the other methods
    settings: Mapping[str, Any]  # how the scores were made that it was fitted on: what they depend on of ``tokur.run``
    records: int  # how many it was fitted on
    questions: int  # how many these answer
    labels: Mapping[str, int]  # how many of the records' labels came from where: a field, ``reference`` or ``tests``
    cross_validation: Mapping[str, Any]  # how good its probabilities are for questions that it was not fitted on
    version: str = __version__  # of tokur
    schema: int = 1  # of the file

    def __post_init__(self) -> None:
        from tokur_cli.scores.catalogue import CATALOGUE

        unknown = [name for name in self.scores if name not in CATALOGUE or name == P_CORRECT]
        if unknown or not self.scores:
            raise ValueError(f"it takes {unknown[0] if unknown else 'no score'}, which this tokur does not compute")
        is_line = None not in (self.weights, self.intercept) and len(self.weights or ()) == len(self.scores)
        if is_line == bool(self.points) or (self.points and len(self.scores) > 1):
            raise ValueError("it needs a weight a score and an intercept, or the points of a single score")

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability of being correct, in [0, 1]; NaN where a score is.

        Args:
            values: one a score, in the order of ``scores``.
        """
        if any(math.isnan(value) for value in values):
            return math.nan
        if self.points is not None:
            import numpy as np  # the options read this module, and a help needs to be fast

            at, probabilities = zip(*self.points, strict=True)
            return float(np.interp(values[0], at, probabilities))
        assert self.weights is not None
        assert self.intercept is not None
        products = [weight * value for weight, value in zip(self.weights, values, strict=True)]
        if any(math.isinf(product) for product in products):
            return math.nan
        return 1 / (1 + math.exp(min(-math.fsum((self.intercept, *products)), 700)))  # or exp would overflow

    def check(self, run: Mapping[str, Any], name: str) -> None:
        """Refuse to be applied to scores that are made in another way than those that it was fitted on.

        Args:
            run: their settings, as in ``tokur.run``, or those that are known.
            name: of the calibration's file.

        Raises:
            UsageError: one differs.
        """
        known = {**UNSAID, **run} if "model" in run else run
        for setting, made, fitted in differences(known, self.settings):
            if setting in known and (setting in self.settings or setting in UNSAID):
                raise UsageError(
                    f"--calibration {name}: was fitted on scores with {setting} {_shown(fitted)}, these are made with "
                    f"{_shown(made)}: score as it says, or fit another one with tokur evaluate --fit"
                )

    def as_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2, allow_nan=False) + "\n"

    @property
    def digest(self) -> str:
        """What tells it from other calibrations: the beginning of the SHA-256 of its file's text."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()[:16]

    def score(self) -> Score:
        """Return ``p_correct`` as it is computed with this calibration."""
        from tokur_cli.scores.catalogue import CATALOGUE

        scores = [CATALOGUE[name] for name in self.scores]

        def compute(features: Features) -> float:
            return self.probability([score.compute(features) for score in scores])

        needs = tuple(dict.fromkeys(need for score in scores for need in score.needs))
        return replace(CATALOGUE[P_CORRECT], needs=needs, compute=compute)


def relevant_settings(run: Mapping[str, Any], scores: Sequence[str]) -> dict[str, Any]:
    """Return what some scores depend on of a ``tokur.run``: no seed, and draws only where a score has to do with them.

    Args:
        run: of a record that has the scores.
        scores: their names.
    """
    from tokur_cli.scores.catalogue import BEYOND_TOKENS, CATALOGUE

    chosen = [CATALOGUE[name] for name in scores]
    names = [
        *_OF_MODEL,
        *(name for name in UNSAID if name in run),
        *(DRAW_SETTINGS if any(set(score.needs) & OF_DRAWS for score in chosen) else ()),
    ]
    if any(set(score.needs) & set(BEYOND_TOKENS) for score in chosen):
        names += [name for name in run if name not in (*_OF_MODEL, *DRAW_SETTINGS)]
    return {name: run.get(name) for name in names if name not in _ANY_RUN}


def scores_to_compute(names: str | None, calibration: Calibration | None) -> list[Score]:
    """Return the scores of a comma-separated list, and ``p_correct`` where there is a calibration.

    Args:
        names: as for ``choose_scores``.
        calibration: what makes ``p_correct``.

    Raises:
        UsageError: an unknown name, none at all, or ``p_correct`` without a calibration.
    """
    from tokur_cli.scores.catalogue import choose_scores

    chosen = [score for score in choose_scores(names) if score.name != P_CORRECT]
    if calibration is not None:
        return [*chosen, calibration.score()]
    if names is not None and P_CORRECT in map(str.strip, names.lower().split(",")):
        raise UsageError(f"--scores {P_CORRECT} needs --calibration FILE, which tokur evaluate --fit FILE writes")
    return chosen


def read_calibration(path: str) -> Calibration:
    """Read a calibration's file, see ``read_json``."""
    return read_json(path, Calibration, f"tokur evaluate GRADED --fit {path}")


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
