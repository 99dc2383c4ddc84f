"""The texts of a set compared with each other: classes of meaning, similarity, hidden states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.baselines.comparison import Compare, Judge, Nli, jaccard
from tokur_cli.commands.baselines.features import Features, TextSet, gather_all, map_each
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.baselines.encoders import DEFAULT_ENTAILMENT_MODEL, load_entailment, load_similarity
from tokur_cli.engine.baselines.layers import LayerView, State
from tokur_cli.engine.model.embedded import DEFAULT_SIMILARITY_MODEL
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.sets import cluster_by_entailment

M = TypeVar("M")


class SetComparison:
    """Compares the texts of sets; ``settings`` are what the outcome depends on.

    Args:
        needs: the features that the chosen scores need.
        session: the model that wrote them or is asked about them; other models are put on its device.
        options: how texts are compared.
    """

    def __init__(self, needs: Collection[str], session: Session, options: BaselineOptions) -> None:
        self.settings: dict[str, Any] = {}
        self._session, self._options = session, options
        self._models: dict[str, str] = {}  # that were loaded
        self._gatherers: list[Callable[[list[TextSet]], Sequence[Features | TokurError]]] = [
            lambda sets: map_each(_likelihoods, sets)
        ]
        if "set_classes" in needs:
            self._gatherers.append(_compared(self._entailment(), "set_classes", cluster_by_entailment))
            self.settings["entailment"] = options.entailment
        if "set_similarity" in needs:
            self._gatherers.append(_compared(self._likeness(), "set_similarity", np.asarray))
            self.settings["similarity"] = options.similarity
        if "set_states" in needs:
            self._layer = LayerView(session.model.model, None, session.batch_tokens)
            self._gatherers.append(self._last_states)
            self.settings["inside_layer"] = self._layer.layer
        self.settings |= self._models

    def compare(self, sets: Sequence[TextSet | TokurError]) -> list[Features | TokurError]:
        """Return the features that each set gives."""
        return gather_all(self._gatherers, sets)

    def _entailment(self) -> Compare:
        """Return what tells which text entails which."""
        return self._nli.entails if self._options.entailment == "nli" else Judge(self._session).entails

    def _likeness(self) -> Compare:
        """Return what tells how alike texts are."""
        if self._options.similarity == "nli":
            return self._nli.matrices
        if self._options.similarity == "jaccard":
            return jaccard
        name = self._options.similarity_model or DEFAULT_SIMILARITY_MODEL
        model = self._load("similarity_model", name, load_similarity, "--similarity jaccard needs no model")
        return lambda sets: map_each(lambda one: model.matrix(one.texts), sets)

    @cached_property
    def _nli(self) -> Nli:
        """One model for both purposes."""
        name = self._options.nli_model or DEFAULT_ENTAILMENT_MODEL
        others = "--entailment judge and --similarity jaccard need no other model"
        return Nli(self._load("nli_model", name, load_entailment, others))

    def _load(self, option: str, name: str, load: Callable[..., M], instead: str) -> M:
        self._models[option] = name
        progress = self._session.progress
        try:
            return load(name, device=str(self._session.model.device), progress=progress.say, note=progress.note)
        except TokurError as error:
            raise TokurError(f"--set {option}: {error}; {instead}") from error

    def _last_states(self, sets: list[TextSet]) -> Sequence[Features | TokurError]:
        """Read the state at the last token of each text, which is not the one that ended it."""
        sequences = map_each(self._up_to_last_tokens, sets)
        found = iter(
            self._layer.last_states([ids for texts in sequences if not isinstance(texts, TokurError) for ids in texts])
        )
        return map_each(lambda texts: {"set_states": _stacked([next(found) for _ in texts])}, sequences)

    def _up_to_last_tokens(self, one: TextSet) -> list[list[int]]:
        sequences = []
        for tokens in one.tokens:
            ids = list(tokens.response_ids)
            ended = len(ids) > 1 and ids[-1] in self._session.model.end_ids
            sequences.append([*tokens.prompt_ids, *(ids[:-1] if ended else ids)])
        context_length = self._session.model.context_length
        if context_length is not None and max(map(len, sequences)) > context_length:
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


def _likelihoods(one: TextSet) -> Features:
    if one.log_probabilities is None:
        return {}
    log_p = [np.minimum(values, 0, dtype=np.float64) for values in one.log_probabilities]  # rounding may pass 0
    return {
        "set_log_likelihoods": np.array([values.sum() for values in log_p]),
        "set_mean_log_likelihoods": np.array([values.mean() for values in log_p]),
    }
