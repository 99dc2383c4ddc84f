"""The texts of a set compared with each other: classes of meaning, similarity, hidden states."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.baselines.comparison import Comparers
from tokur_cli.commands.baselines.features import Features, TextSet, map_batch, map_each
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.baselines.states import LastStates, State
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.sets import cluster_by_entailment


class SetComparison:
    """Compares the texts of sets; ``settings`` are what the outcome depends on.

    Args:
        needs: the features that the chosen scores need.
        options: how texts are compared.
        language_model: the model that wrote the texts or is asked about them.
        tokenizer: its tokenizer.
        batch_tokens: positions in a batch.
        progress: told what is loaded.

    Raises:
        TokurError: a model that compares cannot be had.
    """

    def __init__(
        self,
        needs: Collection[str],
        options: BaselineOptions,
        language_model: LanguageModel,
        tokenizer: ResponseTokenizer,
        batch_tokens: int,
        progress: Progress,
    ) -> None:
        self.settings: dict[str, Any] = {}
        self._entailment = self._similarity = self._states = None
        comparers = Comparers(language_model, tokenizer, batch_tokens, progress)
        if "set_classes" in needs:
            self._entailment = comparers.entailment(options)
            self.settings["entailment"] = options.entailment
        if "set_similarity" in needs:
            self._similarity = comparers.likeness(options)
            self.settings["similarity"] = options.similarity
        if "set_states" in needs:
            self._states = LastStates(language_model.model, None, batch_tokens)
            self.settings["inside_layer"] = self._states.layer
        self.settings |= comparers.settings
        self._context_length = language_model.context_length
        self._end_ids = language_model.end_ids

    def compare(self, sets: Sequence[TextSet | TokurError]) -> list[Features | TokurError]:
        """Return the features that each set gives."""
        results = map_each(_likelihoods, sets)
        for step in (self._classes, self._similarities, self._last_states):
            results = _merged(results, map_batch(step, sets))
        return results

    def _classes(self, sets: list[TextSet]) -> Sequence[Features | TokurError]:
        if self._entailment is None:
            return [{} for _ in sets]
        return map_each(
            lambda entails: {"set_classes": np.array(cluster_by_entailment(entails))}, self._entailment.entails(sets)
        )

    def _similarities(self, sets: list[TextSet]) -> Sequence[Features | TokurError]:
        if self._similarity is None:
            return [{} for _ in sets]
        return map_each(lambda matrix: {"set_similarity": matrix}, self._similarity.matrices(sets))

    def _last_states(self, sets: list[TextSet]) -> Sequence[Features | TokurError]:
        """Read the state at the last token of each text, which is not the one that ended it."""
        if self._states is None:
            return [{} for _ in sets]
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


def _stacked(states: Sequence[State | TokurError]) -> npt.NDArray[np.float32]:
    failed = next((state for state in states if isinstance(state, TokurError)), None)
    if failed is not None:
        raise failed
    return np.stack([state for state in states if not isinstance(state, TokurError)])


def _likelihoods(one: TextSet) -> Features:
    if one.log_probabilities is None:
        return {}
    log_p = [np.minimum(values, 0, dtype=np.float64) for values in one.log_probabilities]  # rounding may pass 0
    return {
        "set_log_likelihoods": np.array([values.sum() for values in log_p]),
        "set_mean_log_likelihoods": np.array([values.mean() for values in log_p]),
    }


def _merged(
    before: Sequence[Features | TokurError], found: Sequence[Features | TokurError]
) -> list[Features | TokurError]:
    return [
        one if isinstance(one, TokurError) else other if isinstance(other, TokurError) else {**one, **other}
        for one, other in zip(before, found, strict=True)
    ]
