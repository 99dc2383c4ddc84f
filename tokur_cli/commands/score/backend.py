"""What ``--backend vllm`` cannot score, said before a model is loaded."""

from __future__ import annotations

from tokur_cli.commands.baselines.features import over_samples
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.calibrated import chosen_scores
from tokur_cli.records.errors import UsageError
from tokur_cli.scores.catalogue import BEYOND_TOKENS
from tokur_cli.scores.quantities import OF_DRAWS


def check_backend(scoring: ScoringOptions) -> None:
    """Refuse scores and a sampling of draws that vLLM does not give.

    Raises:
        UsageError: a score takes more than the last hidden states of the response, or draws are asked for that change
            from token to token.
    """
    if scoring.engine.backend != "vllm":
        return
    scores = chosen_scores(scoring)
    # The samples of a question are compared by their texts and likelihoods, unless the model is asked or looked into
    among_samples = {need for need in BEYOND_TOKENS if need.startswith("set_") and need != "set_states"}
    of_texts = over_samples(among_samples, scoring.baselines) and scoring.baselines.entailment != "judge"
    given = {"p_correct", *(among_samples if of_texts else ())}
    if beyond := [score.name for score in scores if not {*BEYOND_TOKENS}.isdisjoint({*score.needs} - given)]:
        raise UsageError(
            f"--backend vllm gives what is predicted at each token, and {', '.join(beyond)} "
            f"take{'s' * (len(beyond) == 1)} more of the model (attention, inner layers, or further questions to it): "
            f"leave {'it' if len(beyond) == 1 else 'them'} or --backend vllm out"
        )
    needs = {need for score in scores for need in score.needs}
    if scoring.sampling == "stepwise" and not needs.isdisjoint(OF_DRAWS):
        raise UsageError(
            "--backend vllm keeps one draw for a whole response, and --sampling stepwise, the default, takes another "
            "one for each token: give --sampling shared (or joint)"
        )
