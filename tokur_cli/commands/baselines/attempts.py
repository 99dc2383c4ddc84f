"""Verification attempts: the model is asked several times whether a response is correct (the paper's adaptation)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tokur_cli.commands.baselines.features import ScoredResponse, TextSet, map_batch, map_each
from tokur_cli.commands.baselines.questions import VERIFICATION, asked_ids, question_about
from tokur_cli.commands.options.model import DecodingOptions
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.prompts import question_id
from tokur_cli.engine.generation.decoder import DecodedResponse, DecodingRequest
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError


@dataclass
class _Verification:
    """The question whether a response is correct, its prompt, and what the model said each time."""

    key: str  # what the random numbers depend on, besides the seed and the number of the attempt
    question: str
    prompt_ids: list[int]
    said: list[DecodedResponse] = field(default_factory=list)


class Attempts:
    """Makes the attempts; each depends on (seed, id, sample, attempt) and the prompt, whatever else is in the batch.

    Args:
        session: the model.
        options: how many, how long, at which temperature, with which seed.
        likelihoods: whether a score needs to know how likely they are.

    Attributes:
        settings: what they depend on, for the records.
    """

    def __init__(self, session: Session, options: BaselineOptions, likelihoods: bool) -> None:
        self.count, self.tokenizer = options.attempts, session.tokenizer
        self.settings: dict[str, Any] = {
            "attempts": options.attempts,
            "attempt_temperature": options.attempt_temperature,
            "attempt_tokens": options.attempt_tokens,
            "attempt_seed": options.seed,
        }
        self.decoder = session.decoder(
            DecodingOptions(
                temperature=options.attempt_temperature,
                seed=options.seed,
                max_new_tokens=options.attempt_tokens,
            )
        )
        self.scorer = Scorer(session.model.model, None, batch_tokens=session.batch_tokens) if likelihoods else None

    def text_sets(self, responses: Sequence[ScoredResponse]) -> list[TextSet | TokurError]:
        """Return for each response the set of the attempts to verify it."""
        asked = map_each(self._ask, responses, "verification")
        return map_batch(self._as_sets, map_batch(self._answer, asked))

    def _ask(self, response: ScoredResponse) -> _Verification:
        question = question_about(response.record, VERIFICATION, self.tokenizer)
        prompt_ids = asked_ids(question, self.tokenizer)
        key = f"verification of {question_id(response.record, prompt_ids)} {response.record.sample}"
        return _Verification(key, question, prompt_ids)

    def _answer(self, asked: list[_Verification]) -> list[_Verification | TokurError]:
        samples = range(self.count)
        requests = [DecodingRequest(i, one.key, one.prompt_ids, samples) for i, one in enumerate(asked)]
        errors: dict[int, TokurError] = {}
        for result in self.decoder.run(requests):
            if isinstance(result, tuple):
                errors[result[0].index] = TokurError(f"verification: {result[1]}")
            else:
                asked[result.index].said.append(result)
        for one in asked:
            one.said.sort(key=lambda attempt: attempt.sample)
        return [errors.get(index, one) for index, one in enumerate(asked)]

    def _as_sets(self, answered: list[_Verification]) -> list[TextSet | TokurError]:
        sets = []
        for one in answered:
            texts = [said.text for said in one.said]
            tokens = [TokenizedResponse(one.prompt_ids, said.token_ids) for said in one.said]
            sets.append(TextSet(question=one.question, context="", texts=texts, tokens=tokens))
        if self.scorer is None:
            return [*sets]
        found = dict(self.scorer.score([tokens for one in sets for tokens in one.tokens]))

        def with_log_probabilities(place: int) -> TextSet:
            log_p = []
            for text in range(self.count * place, self.count * (place + 1)):
                result = found[text]
                if isinstance(result, TokurError):
                    raise result
                log_p.append(result["logprob"])
            return dataclasses.replace(sets[place], log_probabilities=log_p)

        return map_each(with_log_probabilities, range(len(sets)), "verification")
