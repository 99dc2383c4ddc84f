"""``--calibration`` of ``score`` and ``generate --score``, read and checked before a model is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tokur_cli.commands.options.scoring import DRAWS, RANK, SIGMA, ScoringOptions
from tokur_cli.engine.posterior.description import read_description
from tokur_cli.scores.calibration import read_calibration, scores_to_compute
from tokur_cli.scores.catalogue import Score


def with_calibration(scoring: ScoringOptions) -> ScoringOptions:
    """Return the options with what the calibration's file holds.

    Raises:
        UsageError: an unknown score, or a calibration that was fitted on scores of other settings.
        TokurError: the calibration's file is none.
    """
    if scoring.calibration is not None:
        calibration = read_calibration(scoring.calibration)
        calibration.check(_declared(scoring), scoring.calibration)
        scoring = replace(scoring, fitted=calibration)
    chosen_scores(scoring)  # a misspelt name is reported before a model is loaded
    return scoring


def chosen_scores(scoring: ScoringOptions) -> list[Score]:
    """Return the scores to compute, ``p_correct`` among them where there is a calibration.

    Raises:
        UsageError: an unknown name, or none at all.
    """
    return scores_to_compute(scoring.scores, scoring.fitted)


def _declared(scoring: ScoringOptions) -> dict[str, Any]:
    """Return what the options alone say of ``tokur.run``."""
    options = scoring.posterior
    declared = {"sampling": scoring.sampling, "estimator": scoring.estimator}
    if options.folder is None:
        return declared | {
            "rank": RANK if options.rank is None else options.rank,
            "sigma": SIGMA if options.strength is None else options.strength,
            "draws": options.draws or DRAWS,
            "layers": options.layers,
        }
    kept = read_description(options.folder)
    return declared | {"rank": kept.rank, "sigma": kept.sigma, "draws": options.draws or kept.draws}
