"""The texts of a set compared with each other: which entails which, how alike they are, their hidden states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.baselines.features import Features, TextSet, gather_all, map_batch, map_each
from tokur_cli.commands.baselines.questions import JUDGE, asked_ids
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.baselines.encoders import (
    DEFAULT_ENTAILMENT_MODEL,
    EntailmentModel,
    load_entailment,
    load_similarity,
)
from tokur_cli.engine.baselines.layers import LayerView
from tokur_cli.engine.baselines.yes_no import YES_OR_NO, YesNoQuestion, find_verbalizers
from tokur_cli.engine.model.embedded import DEFAULT_SIMILARITY_MODEL
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.sets import cluster_by_entailment
from tokur_cli.scores.similarity import jaccard_similarity

M = TypeVar("M")
Entails: TypeAlias = npt.NDArray[np.bool_]
"""(K, K): whether text i entails text j."""
Similarity: TypeAlias = npt.NDArray[np.float64]
"""(K, K): how alike texts i and j are, from 0 to 1."""
Compare: TypeAlias = Callable[[list[TextSet]], Sequence[npt.NDArray[Any] | TokurError]]
"""From sets of texts to the matrix of each, or why there is none."""


def jaccard(sets: list[TextSet]) -> list[Similarity]:
    """Return the words that two texts of each set share, of all that they have (Lin et al. 2023)."""
    return [jaccard_similarity(one.texts) for one in sets]


class Nli:
    """A natural language inference model: a text entails another if that is the likeliest relation (Kuhn et al. 2023).

    As a similarity, it is the probability of entailment (Lin et al. 2023). Samples are read after their question.
    """

    def __init__(self, model: EntailmentModel) -> None:
        self.model = model

    def entails(self, sets: list[TextSet]) -> Sequence[Entails | TokurError]:
        """Return the matrix of each set."""
        return map_each(lambda one: self._relations(one).argmax(-1) == 0, sets)

    def matrices(self, sets: list[TextSet]) -> Sequence[Similarity | TokurError]:
        """Return the matrix of each set: row i, column j for text i entailing text j."""
        return map_each(self._probabilities, sets)

    def _probabilities(self, one: TextSet) -> Similarity:
        similarity: Similarity = self._relations(one)[..., 0].copy()
        np.fill_diagonal(similarity, 1)
        return similarity

    def _relations(self, one: TextSet) -> npt.NDArray[np.float64]:
        texts = [f"{one.context} {text}".strip() for text in one.texts]
        pairs = [(first, second) for first in texts for second in texts]
        return self.model.probabilities(pairs).reshape(len(texts), len(texts), 3)


class Judge:
    """The language model itself is asked whether a text entails another: more likely yes than no."""

    def __init__(self, session: Session) -> None:
        self.tokenizer, self.question = session.tokenizer, yes_no_question(session, YES_OR_NO)

    def entails(self, sets: list[TextSet]) -> Sequence[Entails | TokurError]:
        """Return the matrix of each set; the same text is not asked about."""
        pairs = [
            (one.question, first, second)
            for one in sets
            for first in dict.fromkeys(one.texts)
            for second in dict.fromkeys(one.texts)
            if first != second
        ]
        answers = map_batch(self.question.ask, map_each(self._ids, pairs, "judge"))
        said = dict(zip(pairs, answers, strict=True))

        def matrix(one: TextSet) -> Entails:
            return np.array([[self._is_yes(said, one, first, second) for second in one.texts] for first in one.texts])

        return map_each(matrix, sets)

    def _is_yes(
        self, said: dict[tuple[str, str, str], float | TokurError], one: TextSet, first: str, second: str
    ) -> bool:
        answer = 1.0 if first == second else said[one.question, first, second]
        if isinstance(answer, TokurError):
            raise answer
        return answer > 0.5

    def _ids(self, pair: tuple[str, str, str]) -> list[int]:
        question, first, second = pair
        return asked_ids(JUDGE.format(question=question, first=first, second=second), self.tokenizer)


def yes_no_question(session: Session, forms: Sequence[tuple[str, str]]) -> YesNoQuestion:
    """Return what asks a session's model for one of two answers."""
    return YesNoQuestion(session.model.model, find_verbalizers(session.model.tokenizer, forms), session.batch_tokens)


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
        good = [ids for texts in sequences if not isinstance(texts, TokurError) for ids in texts]
        found = iter(self._layer.last_states(good))

        def stacked(texts: list[list[int]]) -> Features:
            states = []
            for state in [next(found) for _ in texts]:
                if isinstance(state, TokurError):
                    raise state
                states.append(state)
            return {"set_states": np.stack(states)}

        return map_each(stacked, sequences)

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


def _likelihoods(one: TextSet) -> Features:
    if one.log_probabilities is None:
        return {}
    log_p = [np.minimum(values, 0, dtype=np.float64) for values in one.log_probabilities]  # rounding may pass 0
    return {
        "set_log_likelihoods": np.array([values.sum() for values in log_p]),
        "set_mean_log_likelihoods": np.array([values.mean() for values in log_p]),
    }
