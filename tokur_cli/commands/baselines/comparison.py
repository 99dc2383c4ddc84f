"""How the texts of a set are compared: which entails which, and how alike they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.baselines.features import TextSet, map_batch, map_each
from tokur_cli.commands.baselines.questions import JUDGE, asked_ids
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.baselines.encoders import EntailmentModel
from tokur_cli.engine.baselines.yes_no import YES_OR_NO, YesNoQuestion, find_verbalizers
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.similarity import jaccard_similarity

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
