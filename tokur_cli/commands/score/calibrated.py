"""``--calibration`` of ``score`` and ``generate --score``, read and checked before a model is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.engine.posterior.settings import settings_of_draws
from tokur_cli.scores.calibration import read_calibration, scores_to_compute
from tokur_cli.scores.catalogue import Score


def with_calibration(scoring: ScoringOptions) -> ScoringOptions:
    """Return the options with what the calibration's file holds."""
    if scoring.calibration is not None:
        calibration = read_calibration(scoring.calibration)
        calibration.check(declared_settings(scoring), scoring.calibration)
        scoring = replace(scoring, fitted=calibration)
    chosen_scores(scoring)  # a misspelt name is reported before a model is loaded
    return scoring


def declared_settings(scoring: ScoringOptions) -> dict[str, Any]:
    """Return what is known of ``tokur.run`` before the model is there."""
    posterior = scoring.posterior
    declared = settings_of_draws(posterior.settings, posterior.members, scoring.sampling, scoring.estimator)
    declared |= {"backend": scoring.engine.backend}
    if posterior.chooses_sigma:  # known, and checked, once the model is there
        del declared["sigma"]
    if scoring.fitted is not None:
        declared["calibration"] = scoring.fitted.digest
    return {**declared, **scoring.parts}


def chosen_scores(scoring: ScoringOptions) -> list[Score]:
    """Return the scores to compute, ``p_correct`` among them where there is a calibration."""
    return scores_to_compute(scoring.scores, scoring.fitted, scoring.parts)
