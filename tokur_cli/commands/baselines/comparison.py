"""How the texts of a set are compared: which entails which, and how alike they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.commands.baselines.features import TextSet, map_batch, map_each
from tokur_cli.commands.baselines.questions import asked_ids, judge_question
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.baselines.encoders import (
    DEFAULT_ENTAILMENT_MODEL,
    DEFAULT_SIMILARITY_MODEL,
    EntailmentModel,
    SimilarityModel,
    load_entailment,
    load_similarity,
)
from tokur_cli.engine.baselines.yes_no import YES_OR_NO, Asker, find_forks
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.similarity import jaccard_similarity

Entails = npt.NDArray[np.bool_]
"""(K, K): whether text i entails text j."""
Similarity = npt.NDArray[np.float64]
"""(K, K): how alike texts i and j are, from 0 to 1."""


class Entailment(Protocol):
    """Tells which texts of a set entail which."""

    def entails(self, sets: list[TextSet]) -> Sequence[Entails | TokurError]:
        """Return the matrix of each set."""


class Likeness(Protocol):
    """Tells how alike the texts of a set are."""

    def matrices(self, sets: list[TextSet]) -> Sequence[Similarity | TokurError]:
        """Return the matrix of each set."""


class SameText:
    """Texts entail each other if they are the same, white space at their ends aside."""

    def entails(self, sets: list[TextSet]) -> Sequence[Entails | TokurError]:
        """Return the matrix of each set."""
        return [_equal([text.strip() for text in one.texts]) for one in sets]


class SameAnswer:
    """Texts entail each other if their answers are equal; a text without an answer entails only equal texts."""

    def entails(self, sets: list[TextSet]) -> Sequence[Entails | TokurError]:
        """Return the matrix of each set."""
        with Equivalence() as equivalence:
            return [self._entails(one, equivalence) for one in sets]

    def _entails(self, one: TextSet, equivalence: Equivalence) -> Entails:
        labels = answer_classes(one.answers, equivalence).labels
        return _equal([text if label is None else label for text, label in zip(one.texts, labels, strict=True)])


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

    def __init__(self, language_model: LanguageModel, tokenizer: ResponseTokenizer, batch_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.asker = Asker(language_model.model, find_forks(language_model.tokenizer, YES_OR_NO), batch_tokens)

    def entails(self, sets: list[TextSet]) -> Sequence[Entails | TokurError]:
        """Return the matrix of each set; the same text is not asked about."""
        texts = [map_each(self._ids, _pairs(one), "judge") for one in sets]
        answers = iter(map_batch(self.asker.ask, [prompt for prompts in texts for prompt in prompts]))
        results: list[Entails | TokurError] = []
        for one in sets:
            entails = _equal(list(one.texts))
            asked = {pair[1:]: next(answers) for pair in _pairs(one)}
            failed = next((answer for answer in asked.values() if isinstance(answer, TokurError)), None)
            for (first, second), answer in asked.items():
                for i, j in _places(one.texts, first, second):
                    entails[i, j] = not isinstance(answer, TokurError) and answer > 0.5
            results.append(failed or entails)
        return results

    def _ids(self, pair: tuple[str, str, str]) -> list[int]:
        return asked_ids(judge_question(*pair), self.tokenizer)


class Jaccard:
    """The words that two texts share, of all that they have (Lin et al. 2023)."""

    def matrices(self, sets: list[TextSet]) -> Sequence[Similarity | TokurError]:
        """Return the matrix of each set."""
        return [jaccard_similarity(one.texts) for one in sets]


class Embeddings:
    """A sentence-embedding model or a cross-encoder."""

    def __init__(self, model: SimilarityModel) -> None:
        self.model = model

    def matrices(self, sets: list[TextSet]) -> Sequence[Similarity | TokurError]:
        """Return the matrix of each set."""
        return map_each(lambda one: self.model.matrix(one.texts), sets)


class Comparers:
    """Makes the comparers of texts; a model that serves both purposes is loaded once.

    Args:
        language_model: serves as the judge; other models are put on its device.
        tokenizer: its tokenizer.
        batch_tokens: positions in one of the judge's batches.
        progress: told what is loaded.

    Attributes:
        settings: the models that were loaded.
    """

    def __init__(
        self, language_model: LanguageModel, tokenizer: ResponseTokenizer, batch_tokens: int, progress: Progress
    ) -> None:
        self.language_model, self.tokenizer, self.batch_tokens = language_model, tokenizer, batch_tokens
        self.progress = progress
        self.settings: dict[str, str] = {}
        self._nli: Nli | None = None

    def entailment(self, options: BaselineOptions) -> Entailment:
        """Return what tells which text entails which.

        Raises:
            TokurError: the model that it needs cannot be had.
        """
        if options.entailment == "nli":
            return self._load_nli(options)
        if options.entailment == "judge":
            return Judge(self.language_model, self.tokenizer, self.batch_tokens)
        return SameAnswer() if options.entailment == "answers" else SameText()

    def likeness(self, options: BaselineOptions) -> Likeness:
        """Return what tells how alike texts are.

        Raises:
            TokurError: the model that it needs cannot be had.
        """
        if options.similarity == "nli":
            return self._load_nli(options)
        if options.similarity == "jaccard":
            return Jaccard()
        name = self.settings["similarity_model"] = options.similarity_model or DEFAULT_SIMILARITY_MODEL
        try:
            return Embeddings(load_similarity(name, device=self._device, progress=self.progress.say))
        except TokurError as error:
            raise TokurError(f"--similarity-model: {error}; --similarity jaccard needs no model") from error

    def _load_nli(self, options: BaselineOptions) -> Nli:
        if self._nli is None:
            name = self.settings["nli_model"] = options.nli_model or DEFAULT_ENTAILMENT_MODEL
            try:
                self._nli = Nli(load_entailment(name, device=self._device, progress=self.progress.say))
            except TokurError as error:
                others = "--entailment judge, answers and exact, and --similarity jaccard, need no other model"
                raise TokurError(f"--nli-model: {error}; {others}") from error
        return self._nli

    @property
    def _device(self) -> str:
        return str(self.language_model.device)


def _equal(values: Sequence[object]) -> Entails:
    return np.array([[first == second for second in values] for first in values])


def _pairs(one: TextSet) -> list[tuple[str, str, str]]:
    """Return (question, first, second) for every two different texts, in both orders."""
    texts = list(dict.fromkeys(one.texts))
    return [(one.question, first, second) for first in texts for second in texts if first != second]


def _places(texts: Sequence[str], first: str, second: str) -> list[tuple[int, int]]:
    return [(i, j) for i, one in enumerate(texts) if one == first for j, other in enumerate(texts) if other == second]
