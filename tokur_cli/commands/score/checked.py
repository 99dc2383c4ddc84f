"""What ``score`` and ``generate --score`` are asked for, read and checked before a model is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tokur_cli.commands.baselines.features import over_samples
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.engine.posterior.settings import settings_of_draws
from tokur_cli.records.errors import UsageError
from tokur_cli.scores.calibration import read_calibration, scores_to_compute
from tokur_cli.scores.catalogue import BEYOND_TOKENS, Score
from tokur_cli.scores.quantities import OF_DRAWS


def checked(scoring: ScoringOptions) -> ScoringOptions:
    """Return the options with what the file of the calibration holds.

    Raises:
        TokurError: the file cannot be read.
        UsageError: it is of scores that are not computed here or made in another way, or the backend does not give what
            is asked for.
    """
    scoring = _with_calibration(scoring)
    check_backend(scoring)
    return scoring


def chosen_scores(scoring: ScoringOptions) -> list[Score]:
    """Return the scores to compute, ``p_correct`` among them where there is a calibration."""
    return scores_to_compute(scoring.scores, scoring.fitted)


def needs_of(scoring: ScoringOptions) -> set[str]:
    """Return what the scores to compute need of a response."""
    return {need for score in chosen_scores(scoring) for need in score.needs}


def _with_calibration(scoring: ScoringOptions) -> ScoringOptions:
    if scoring.calibration is not None:
        calibration = read_calibration(scoring.calibration)
        calibration.check(_declared_settings(scoring), scoring.calibration)
        scoring = replace(scoring, fitted=calibration)
    chosen_scores(scoring)  # a misspelt name is reported before a model is loaded
    return scoring


def _declared_settings(scoring: ScoringOptions) -> dict[str, Any]:
    """Return what is known of ``tokur.run`` before the model is there."""
    posterior = scoring.posterior
    declared = settings_of_draws(posterior.settings, posterior.members, scoring.sampling, scoring.estimator)
    declared |= {"backend": scoring.engine.backend}
    if posterior.chooses_sigma:  # known, and checked, once the model is there
        del declared["sigma"]
    if scoring.fitted is not None:
        declared["calibration"] = scoring.fitted.digest
    return declared


def check_backend(scoring: ScoringOptions) -> None:
    """Refuse scores and a sampling of draws that vLLM does not give.

    Raises:
        UsageError: a score takes more than the last hidden states of the response, or draws are asked for that change
            from token to token.
    """
    if scoring.engine.backend != "vllm":
        return
    # The samples of a question are compared by their texts and likelihoods, unless the model is asked or looked into
    among_samples = {need for need in BEYOND_TOKENS if need.startswith("set_") and need != "set_states"}
    of_texts = over_samples(among_samples, scoring.baselines) and scoring.baselines.entailment != "judge"
    given = {"p_correct", *(among_samples if of_texts else ())}
    beyond = [score.name for score in chosen_scores(scoring) if not {*BEYOND_TOKENS}.isdisjoint({*score.needs} - given)]
    if beyond:
        raise UsageError(
            f"--backend vllm gives what is predicted at each token, and {', '.join(beyond)} "
            f"take{'s' * (len(beyond) == 1)} more of the model (attention, inner layers, or further questions to it): "
            f"leave {'it' if len(beyond) == 1 else 'them'} or --backend vllm out"
        )
    if scoring.sampling == "stepwise" and not needs_of(scoring).isdisjoint(OF_DRAWS):
        raise UsageError(
            "--backend vllm keeps one draw for a whole response, and --sampling stepwise, the default, takes another "
            "one for each token: give --sampling shared (or joint)"
        )
