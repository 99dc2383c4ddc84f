"""The texts of a set compared with each other: which entails which, how alike they are, their hidden states."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.baselines.features import Features, TextSet
from tokur_cli.commands.baselines.questions import JUDGE, asked_ids
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.baselines.encoders import DEFAULT_ENTAILMENT_MODEL, Comparison, load_entailment, load_similarity
from tokur_cli.engine.baselines.layers import LayerView, TextPasses
from tokur_cli.engine.baselines.yes_no import YES_OR_NO, ask, find_verbalizers
from tokur_cli.engine.model.cached import DEFAULT_SIMILARITY_MODEL
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.sets import cluster_by_entailment, jaccard_similarity

Entails: TypeAlias = npt.NDArray[np.bool_]  # (K, K): whether text i entails text j
Similarity: TypeAlias = npt.NDArray[np.float64]  # (K, K): how alike texts i and j are, from 0 to 1
YesNo: TypeAlias = Callable[[Sequence[list[int]]], list[float]]  # from prompts to the probability of yes after each


def judge(yes_no: YesNo, tokenizer: ResponseTokenizer, sets: Sequence[TextSet]) -> list[Entails]:
    """Ask the language model itself whether a text of a set entails another: more likely yes than no.

    The same text is not asked about.
    """
    asked = [(one.question, *pair) for one in sets for pair in itertools.permutations(dict.fromkeys(one.texts), 2)]
    pairs = list(dict.fromkeys(asked))
    forms = [JUDGE.format(question=question, first=first, second=second) for question, first, second in pairs]
    answers = yes_no([asked_ids("judge", form, tokenizer) for form in forms])
    said = {pair: answer > 0.5 for pair, answer in zip(pairs, answers, strict=True)}
    return [
        np.array([[said.get((one.question, first, second), True) for second in one.texts] for first in one.texts])
        for one in sets
    ]


def yes_no_question(session: Session, forms: Sequence[tuple[str, str]]) -> YesNo:
    """Return what asks a session's model for one of two answers after each prompt, see ``ask``."""
    passes = TextPasses(session.model.model, session.batch_tokens)
    return partial(ask, passes, find_verbalizers(session.model.tokenizer, forms))


class SetComparison:
    """Compares the texts of sets; ``settings`` are what the outcome depends on.

    The session's model wrote them or is asked about them; other models are put on its device.
    """

    def __init__(self, session: Session, scoring: ScoringOptions) -> None:
        needs, options = scoring.needs, scoring.baselines
        self.settings: dict[str, Any] = {}
        self._session, self._options = session, options
        self._models: dict[str, str] = {}  # that were loaded
        self._features: dict[str, Callable[[Sequence[TextSet]], Sequence[npt.NDArray[Any]]]] = {}
        if "set_classes" in needs:
            entails = self._entailment()
            self._features["set_classes"] = lambda sets: [
                np.asarray(cluster_by_entailment(matrix)) for matrix in entails(sets)
            ]
            self.settings["entailment"] = options.entailment
        if "set_similarity" in needs:
            similarity = self._similarity()
            self._features["set_similarity"] = lambda sets: [similarity(one) for one in sets]
            self.settings["similarity"] = options.similarity
        if "set_states" in needs:
            self._layer = LayerView(session.model.model, None, session.batch_tokens)
            self._features["set_states"] = self._last_states
            self.settings["inside_layer"] = self._layer.layer
        self.settings |= self._models

    def compare(self, sets: Sequence[TextSet]) -> list[Features]:
        """Return the features that each set gives.

        Raises:
            TokurError: a text is too long for the model, or memory does not suffice.
        """
        features = [_likelihoods(one) for one in sets]
        for name, compute in self._features.items():
            for found, value in zip(features, compute(sets), strict=True):
                found[name] = value
        return features

    def _entailment(self) -> Callable[[Sequence[TextSet]], list[Entails]]:
        if self._options.entailment == "judge":
            return partial(judge, yes_no_question(self._session, YES_OR_NO), self._session.tokenizer)
        relations = self._relations
        return lambda sets: [relations(one).argmax(-1) == 0 for one in sets]

    def _similarity(self) -> Callable[[TextSet], Similarity]:
        if self._options.similarity == "nli":
            relations = self._relations
            return lambda one: np.maximum(relations(one)[..., 0], np.eye(len(one.texts)))
        if self._options.similarity == "jaccard":
            return lambda one: jaccard_similarity(one.texts)
        name = self._options.similarity_model or DEFAULT_SIMILARITY_MODEL
        similarity = self._load("similarity_model", name, load_similarity, "--similarity jaccard needs no model")
        return lambda one: similarity(one.texts)

    @cached_property
    def _relations(self) -> Callable[[TextSet], npt.NDArray[np.float64]]:
        """What a natural language inference model makes of a set, one model for both purposes (K, K, 3).

        A text entails another if that is the likeliest relation (Kuhn et al. 2023); as a similarity, it is the
        probability of entailment (Lin et al. 2023). Samples are read after their question.
        """
        name = self._options.nli_model or DEFAULT_ENTAILMENT_MODEL
        others = "--entailment judge and --similarity jaccard need no other model"
        relations = self._load("nli_model", name, load_entailment, others)
        return lambda one: relations([f"{one.context} {text}".strip() for text in one.texts])

    def _load(self, option: str, name: str, load: Callable[..., Comparison], instead: str) -> Comparison:
        self._models[option] = name
        progress = self._session.progress
        try:
            return load(name, device=str(self._session.model.device), progress=progress.say, note=progress.note)
        except TokurError as error:
            raise TokurError(f"--set {option}: {error}; {instead}") from error

    def _last_states(self, sets: Sequence[TextSet]) -> list[npt.NDArray[np.float32]]:
        """Return the states (K, d) at the last token of each text."""
        texts = [self._without_end(tokens) for one in sets for tokens in one.tokens]
        found = iter(self._layer.features(texts, ["last_state"]))
        return [np.stack([next(found)["last_state"] for _ in one.tokens]) for one in sets]

    def _without_end(self, tokens: TokenizedResponse) -> TokenizedResponse:
        """Return a prompt and a text without the token that ended it."""
        model, ids = self._session.model, tokens.response_ids
        text = TokenizedResponse(tokens.prompt_ids, ids[:-1] if len(ids) > 1 and ids[-1] in model.end_ids else ids)
        if model.context_length is not None and text.length + 1 > model.context_length:
            raise TokurError("inside: the model's context has no room for the last token of a text")
        return text


def _likelihoods(one: TextSet) -> Features:
    if one.log_probabilities is None:
        return {}
    log_p = [np.minimum(values, 0, dtype=np.float64) for values in one.log_probabilities]  # rounding may pass 0
    return {
        "set_log_likelihoods": np.array([values.sum() for values in log_p]),
        "set_mean_log_likelihoods": np.array([values.mean() for values in log_p]),
    }
