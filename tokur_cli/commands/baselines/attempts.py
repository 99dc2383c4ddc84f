"""Verification attempts: the model is asked several times whether a response is correct (the paper's adaptation)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tokur_cli.commands.baselines.features import ScoredResponse, TextSet
from tokur_cli.commands.baselines.questions import VERIFICATION, asked_ids, question_about
from tokur_cli.commands.options.model import DecodingOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.prompts import question_id
from tokur_cli.engine.generation.decoder import DecodedResponse, DecodingRequest
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError


class Attempts:
    """Makes the attempts; each depends on (seed, id, sample, attempt) and the prompt, whatever else is in the batch.

    ``settings`` are what they depend on, for the records; ``likelihoods``: whether a score needs to know how likely
    they are.
    """

    def __init__(self, session: Session, options: ScoringOptions, likelihoods: bool) -> None:
        baselines, seed = options.baselines, options.posterior.seed
        self.count, self.tokenizer = baselines.attempts, session.tokenizer
        self.settings: dict[str, Any] = {
            "attempts": baselines.attempts,
            "attempt_temperature": baselines.attempt_temperature,
            "attempt_tokens": baselines.attempt_tokens,
            "attempt_seed": seed,
        }
        self.decoder = session.decoder(
            DecodingOptions(
                temperature=baselines.attempt_temperature,
                seed=seed,
                max_new_tokens=baselines.attempt_tokens,
                engine=options.engine,
            )
        )
        self.scorer = Scorer(session.model.model, None, batch_tokens=session.batch_tokens) if likelihoods else None

    def text_sets(self, responses: Sequence[ScoredResponse]) -> list[TextSet]:
        """Return for each response the set of the attempts to verify it.

        Raises:
            TokurError: a response cannot be asked about, or memory does not suffice.
        """
        questions = [question_about(each.record, VERIFICATION, self.tokenizer) for each in responses]
        prompts = [asked_ids("verification", question, self.tokenizer) for question in questions]
        sets = []
        for question, prompt_ids, said in zip(questions, prompts, self._attempts(responses, prompts), strict=True):
            tokens = [TokenizedResponse(prompt_ids, attempt.token_ids) for attempt in said]
            sets.append(TextSet(question, context="", texts=[attempt.text for attempt in said], tokens=tokens))
        return sets if self.scorer is None else self._with_likelihoods(sets, self.scorer)

    def _attempts(self, responses: Sequence[ScoredResponse], prompts: list[list[int]]) -> list[list[DecodedResponse]]:
        """Return what the model says to each prompt, by the number of the attempt."""
        requests = []
        for index, (response, prompt_ids) in enumerate(zip(responses, prompts, strict=True)):
            key = f"verification of {question_id(response.record, prompt_ids)} {response.record.sample}"
            requests.append(DecodingRequest(index, key, prompt_ids, range(self.count)))
        said: list[list[DecodedResponse]] = [[] for _ in requests]
        for result in self.decoder.serve(requests):
            if isinstance(result, tuple):
                raise TokurError(f"verification: {result[1]}")
            if result is not None:
                said[result.index].append(result)
        return [sorted(attempts, key=lambda attempt: attempt.sample) for attempts in said]

    def _with_likelihoods(self, sets: list[TextSet], scorer: Scorer) -> list[TextSet]:
        log_p = {}
        for place, result in scorer.score([tokens for one in sets for tokens in one.tokens]):
            if isinstance(result, TokurError):
                raise result
            log_p[place] = result["logprob"]
        return [
            dataclasses.replace(one, log_probabilities=[log_p[self.count * place + k] for k in range(self.count)])
            for place, one in enumerate(sets)
        ]
