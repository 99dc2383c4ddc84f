"""Features for scores that need more than the scoring's own passes, gathered for a window of records at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tokur_cli.commands.baselines.attempts import Attempts
from tokur_cli.commands.baselines.comparison import SetComparison, yes_no_question
from tokur_cli.commands.baselines.features import (
    Features,
    ScoredResponse,
    are_of_sets,
    gather_all,
    map_batch,
    map_each,
)
from tokur_cli.commands.baselines.questions import P_TRUE, asked_ids, question_about
from tokur_cli.commands.baselines.samples import by_question, text_set
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.baselines.llm_check import INSIDE, InsideView
from tokur_cli.engine.baselines.yes_no import TRUE_OR_FALSE
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import RecordError, TokurError

Gather = Callable[[Sequence[ScoredResponse]], Sequence[Features | TokurError]]
"""From responses to features of each, or why there are none."""


class Baselines:
    """Gathers the features that the chosen scores need.

    Attributes:
        gatherers: what gathers them; none where no score needs any.
        settings: what the features depend on, for the records.
    """

    def __init__(self, needs: Collection[str], session: Session, options: BaselineOptions) -> None:
        self.settings: dict[str, Any] = {}
        self.gatherers: list[Gather] = []
        if "p_true" in needs:
            self.gatherers.append(_p_true(session))
        if inside := set(needs) & set(INSIDE):
            view = InsideView(session.model.model, options.llm_check_layer, session.batch_tokens)
            self.gatherers.append(_llm_check(view, inside, session.model.context_length))
            if inside != {"top_entropy"}:
                self.settings["llm_check_layer"] = view.layer
        if are_of_sets(needs):
            comparison = SetComparison(needs, session, options)
            self.settings |= {"over": options.over, **comparison.settings}
            if options.over == "samples":
                self.gatherers.append(_sample_sets(comparison, session.tokenizer))
            else:
                likelihoods = not {"set_log_likelihoods", "set_mean_log_likelihoods"}.isdisjoint(needs)
                attempts = Attempts(session, options, likelihoods)
                self.gatherers.append(lambda responses: comparison.compare(attempts.text_sets(responses)))
                self.settings |= attempts.settings

    def complete(self, responses: Sequence[ScoredResponse]) -> list[ScoredResponse | RecordError]:
        """Return each response with its features; where they cannot be had, the record's error takes its place."""
        results: list[ScoredResponse | RecordError] = []
        for response, found in zip(responses, gather_all(self.gatherers, responses), strict=True):
            if isinstance(found, TokurError):
                results.append(found if isinstance(found, RecordError) else response.record.error(str(found)))
            else:
                results.append(dataclasses.replace(response, features=found))
        return results


def _p_true(session: Session) -> Gather:
    """Return what asks the model whether its response is true (Kadavath et al. 2022): ``p_true``, a scalar."""
    yes_no = yes_no_question(session, TRUE_OR_FALSE)

    def prompt(response: ScoredResponse) -> list[int]:
        return asked_ids(question_about(response.record, P_TRUE, session.tokenizer), session.tokenizer)

    def gather(responses: Sequence[ScoredResponse]) -> Sequence[Features | TokurError]:
        answers = map_batch(yes_no.ask, map_each(prompt, responses, "p_true"))
        return map_each(lambda answer: {"p_true": np.float64(answer)}, answers)

    return gather


def _llm_check(view: InsideView, wanted: Collection[str], context_length: int | None) -> Gather:
    """Return what gives LLM-Check's view of responses from the inside (Sriramanan et al. 2024)."""

    def tokens(response: ScoredResponse) -> TokenizedResponse:
        # The scoring needs no place for the last token, which predicts nothing that is asked for
        if context_length is not None and response.located.tokens.length + 1 > context_length:
            raise TokurError("the model's context has no room for the response's last token")
        return response.located.tokens

    return lambda responses: map_batch(
        lambda found: view.llm_check_features(found, wanted), map_each(tokens, responses, "llm_check")
    )


def _sample_sets(comparison: SetComparison, tokenizer: ResponseTokenizer) -> Gather:
    """Return what compares the samples of a question, and tells as ``set_place`` () which of them a response is."""

    def gather(responses: Sequence[ScoredResponse]) -> Sequence[Features | TokurError]:
        questions = by_question(responses)
        found = comparison.compare(map_each(lambda samples: text_set(samples, tokenizer), questions))
        return [
            features if isinstance(features, TokurError) else {**features, "set_place": np.intp(place)}
            for samples, features in zip(questions, found, strict=True)
            for place in range(len(samples))
        ]

    return gather
