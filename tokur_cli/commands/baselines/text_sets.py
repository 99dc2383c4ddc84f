"""The texts of a set compared with each other: classes of meaning, similarity, hidden states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.baselines.comparison import Compare, Comparers
from tokur_cli.commands.baselines.features import Features, TextSet, gather_all, map_each
from tokur_cli.commands.baselines.setup import Setup
from tokur_cli.engine.baselines.states import LastStates, State
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.sets import cluster_by_entailment


class SetComparison:
    """Compares the texts of sets; ``settings`` are what the outcome depends on.

    Args:
        needs: the features that the chosen scores need.
        setup: how texts are compared, and the model that wrote them or is asked about them.

    Raises:
        TokurError: a model that compares cannot be had.
    """

    def __init__(self, needs: Collection[str], setup: Setup) -> None:
        self.settings: dict[str, Any] = {}
        self._gatherers: list[Callable[[list[TextSet]], Sequence[Features | TokurError]]] = [_likelihoods]
        comparers = Comparers(setup)
        if "set_classes" in needs:
            self._gatherers.append(_compared(comparers.entailment(), "set_classes", cluster_by_entailment))
            self.settings["entailment"] = setup.options.entailment
        if "set_similarity" in needs:
            self._gatherers.append(_compared(comparers.likeness(), "set_similarity", np.asarray))
            self.settings["similarity"] = setup.options.similarity
        if "set_states" in needs:
            self._states = LastStates(setup.language_model.model, None, setup.batch_tokens)
            self._gatherers.append(self._last_states)
            self.settings["inside_layer"] = self._states.layer
        self.settings |= comparers.settings
        self._context_length = setup.language_model.context_length
        self._end_ids = setup.language_model.end_ids

    def compare(self, sets: Sequence[TextSet | TokurError]) -> list[Features | TokurError]:
        """Return the features that each set gives."""
        return gather_all(self._gatherers, sets)

    def _last_states(self, sets: list[TextSet]) -> Sequence[Features | TokurError]:
        """Read the state at the last token of each text, which is not the one that ended it."""
        sequences = map_each(self._up_to_last_tokens, sets)
        found = iter(
            self._states.read([ids for texts in sequences if not isinstance(texts, TokurError) for ids in texts])
        )
        return map_each(lambda texts: {"set_states": _stacked([next(found) for _ in texts])}, sequences)

    def _up_to_last_tokens(self, one: TextSet) -> list[list[int]]:
        sequences = []
        for tokens in one.tokens:
            ids = list(tokens.response_ids)
            ended = len(ids) > 1 and ids[-1] in self._end_ids
            sequences.append([*tokens.prompt_ids, *(ids[:-1] if ended else ids)])
        if self._context_length is not None and max(map(len, sequences)) > self._context_length:
            raise TokurError("inside: the model's context has no room for the last token of a text")
        return sequences


def _compared(
    compare: Compare, name: str, feature: Callable[[Any], npt.ArrayLike]
) -> Callable[[list[TextSet]], Sequence[Features | TokurError]]:
    """Return a gatherer of the feature that a set's matrix comes down to."""
    return lambda sets: map_each(lambda matrix: {name: np.asarray(feature(matrix))}, compare(sets))


def _stacked(states: Sequence[State | TokurError]) -> npt.NDArray[np.float32]:
    failed = next((state for state in states if isinstance(state, TokurError)), None)
    if failed is not None:
        raise failed
    return np.stack([state for state in states if not isinstance(state, TokurError)])


def _likelihoods(sets: list[TextSet]) -> list[Features | TokurError]:
    return map_each(_likelihoods_of, sets)


def _likelihoods_of(one: TextSet) -> Features:
    if one.log_probabilities is None:
        return {}
    log_p = [np.minimum(values, 0, dtype=np.float64) for values in one.log_probabilities]  # rounding may pass 0
    return {
        "set_log_likelihoods": np.array([values.sum() for values in log_p]),
        "set_mean_log_likelihoods": np.array([values.mean() for values in log_p]),
    }
