"""Verification attempts: the model is asked several times whether a response is correct (the paper's adaptation)."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tokur_cli.answers.verdicts import verdict
from tokur_cli.commands.arguments import BaselineOptions
from tokur_cli.commands.asking import asked_ids, verification_question
from tokur_cli.commands.decoding import make_decoder
from tokur_cli.commands.evidence import Response, TextSet
from tokur_cli.commands.outcomes import together, tried
from tokur_cli.engine.decoding import DecodedResponse, DecodingRequest
from tokur_cli.engine.loading import LanguageModel
from tokur_cli.engine.sampling import Sampling
from tokur_cli.engine.scoring import Scorer, TokenisedResponse
from tokur_cli.engine.tokens import ResponseTokeniser
from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record

_SPELLED = {True: "true", False: "false", None: None}


@dataclass
class _Verification:
    """The question whether a response is correct, its prompt, and what the model said each time.

    Args:
        key: what the random numbers depend on, beside the seed and the number of the attempt.
        question: its text.
        prompt_ids: the prompt that it is in.
        said: the attempts.
    """

    key: str
    question: str
    prompt_ids: list[int]
    said: list[DecodedResponse] = field(default_factory=list)


class Attempts:
    """Makes the attempts; each depends on (seed, id, sample, attempt) and the prompt, whatever else is in the batch.

    Args:
        options: how many, how long, at which temperature, with which seed.
        likelihoods: whether a score needs to know how likely they are.
        language_model: the model that is asked, with its mean weights.
        tokeniser: its tokeniser.
        batch_tokens: positions in a batch of the pass that tells how likely they are.

    Attributes:
        settings: what they depend on, for the records.
    """

    def __init__(
        self,
        options: BaselineOptions,
        likelihoods: bool,
        language_model: LanguageModel,
        tokeniser: ResponseTokeniser,
        batch_tokens: int,
    ) -> None:
        self.count, self.tokeniser = options.attempts, tokeniser
        self.settings: dict[str, Any] = {
            "attempts": options.attempts,
            "attempt_temperature": options.attempt_temperature,
            "attempt_tokens": options.attempt_tokens,
            "attempt_seed": options.seed,
        }
        self.decoder = make_decoder(
            language_model,
            tokeniser,
            Sampling(temperature=options.attempt_temperature, seed=options.seed),
            max_new_tokens=options.attempt_tokens,
        )
        self.scorer = Scorer(language_model.model, None, batch_tokens=batch_tokens) if likelihoods else None

    def text_sets(self, responses: Sequence[Response]) -> list[TextSet | TokurError]:
        """Return for each response the set of the attempts to verify it."""
        asked = tried(self._ask, responses, "verification")
        return together(self._as_sets, together(self._answer, asked))

    def _ask(self, response: Response) -> _Verification:
        question = verification_question(response.record, self.tokeniser)
        prompt_ids = asked_ids(question, self.tokeniser)
        return _Verification(_key(response.record, prompt_ids), question, prompt_ids)

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
        tokens = [[TokenisedResponse(one.prompt_ids, said.token_ids) for said in one.said] for one in answered]
        log_p = self._log_probabilities(tokens)
        sets = [_as_set(*parts) for parts in zip(answered, tokens, strict=True)]
        return [
            found if isinstance(found, TokurError) else dataclasses.replace(one, log_probabilities=found)
            for one, found in zip(sets, log_p, strict=True)
        ]

    def _log_probabilities(
        self, tokens: list[list[TokenisedResponse]]
    ) -> Sequence[list[npt.NDArray[np.float32]] | TokurError | None]:
        """Return log p of the tokens of each set's texts, if a score needs them."""
        if self.scorer is None:
            return [None] * len(tokens)
        found = dict(self.scorer.score([each for texts in tokens for each in texts]))
        results = [[found[self.count * place + text] for text in range(self.count)] for place in range(len(tokens))]
        return [
            next((TokurError(f"verification: {one}") for one in texts if isinstance(one, TokurError)), None)
            or [one["logprob"] for one in texts if not isinstance(one, TokurError)]
            for texts in results
        ]


def _as_set(asked: _Verification, tokens: Sequence[TokenisedResponse]) -> TextSet:
    return TextSet(
        question=asked.question,
        context="",
        texts=[said.text for said in asked.said],
        answers=[_SPELLED[verdict(said.text)] for said in asked.said],
        tokens=tokens,
    )


def _key(record: Record, prompt_ids: Sequence[int]) -> str:
    name = record.id
    if name is None:
        name = "q-" + hashlib.sha256(repr(prompt_ids).encode()).hexdigest()[:12]
    return f"verification of {name} {record.sample}"
