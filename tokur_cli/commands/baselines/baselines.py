"""Features for scores that need more than the scoring's own passes, gathered for a window of records at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from tokur_cli.commands.baselines.attempts import Attempts
from tokur_cli.commands.baselines.comparison import SetComparison, YesNo, yes_no_question
from tokur_cli.commands.baselines.features import Features, ScoredResponse, are_of_sets, over_samples
from tokur_cli.commands.baselines.questions import P_TRUE, asked_ids, question_about
from tokur_cli.commands.baselines.samples import by_question, text_set
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.baselines.layers import INSIDE, LayerView
from tokur_cli.engine.baselines.yes_no import TRUE_OR_FALSE
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import RecordError, TokurError, UsageError

Gather = Callable[[Sequence[ScoredResponse]], Sequence[Features]]
"""From responses to features of each; raises a TokurError if those of one cannot be had."""


class Baselines:
    """Gathers the features that the chosen scores need.

    Attributes:
        gatherers: what gathers them; none where no score needs any.
        settings: what the features depend on, for the records.
        over_samples: whether the responses of a question belong together.
    """

    def __init__(self, session: Session, scoring: ScoringOptions) -> None:
        needs, options = scoring.needs, scoring.baselines
        self.settings: dict[str, Any] = {}
        self.gatherers: list[Gather] = []
        self.over_samples = over_samples(scoring)
        if "p_true" in needs:
            self.gatherers.append(partial(_p_true, yes_no_question(session, TRUE_OR_FALSE), session.tokenizer))
        if inside := set(needs) & set(INSIDE):
            view = LayerView(session.model.model, options.llm_check_layer, session.batch_tokens)
            self.gatherers.append(partial(_llm_check, view, inside, session.model.context_length))
            if inside != {"top_entropy"}:
                self.settings["llm_check_layer"] = view.layer
        if are_of_sets(needs):
            comparison = SetComparison(session, scoring)
            self.settings |= {"over": options.over, **comparison.settings}
            if self.over_samples:
                self.gatherers.append(partial(_sample_sets, comparison, session.tokenizer))
            else:
                likelihoods = not {"set_log_likelihoods", "set_mean_log_likelihoods"}.isdisjoint(needs)
                attempts = Attempts(session, scoring, likelihoods)
                self.gatherers.append(lambda responses: comparison.compare(attempts.text_sets(responses)))
                self.settings |= attempts.settings

    def complete(self, responses: Sequence[ScoredResponse]) -> list[ScoredResponse | RecordError]:
        """Return each response with its features; where they cannot be had, the record's error takes its place."""
        questions = by_question(responses) if self.over_samples else [[response] for response in responses]
        return self._complete(questions) if questions else []

    def _complete(self, groups: Sequence[Sequence[ScoredResponse]]) -> list[ScoredResponse | RecordError]:
        """Return the same of groups that belong together; what fails is found by halves, so that the others go on."""
        responses = [response for group in groups for response in group]
        try:
            gathered = [gather(responses) for gather in self.gatherers]
        except UsageError:
            raise
        except TokurError as error:
            if len(groups) > 1:
                middle = len(groups) // 2
                return [*self._complete(groups[:middle]), *self._complete(groups[middle:])]
            return [error if isinstance(error, RecordError) else each.record.error(str(error)) for each in responses]
        features: list[Features] = [{} for _ in responses]
        for found in gathered:
            for each, more in zip(features, found, strict=True):
                each.update(more)
        return [dataclasses.replace(one, features=each) for one, each in zip(responses, features, strict=True)]


def _p_true(yes_no: YesNo, tokenizer: ResponseTokenizer, responses: Sequence[ScoredResponse]) -> Sequence[Features]:
    """Ask the model whether its responses are true (Kadavath et al. 2022): ``p_true``, a scalar."""
    questions = [question_about(each.record, P_TRUE, tokenizer) for each in responses]
    answers = yes_no([asked_ids("p_true", question, tokenizer) for question in questions])
    return [{"p_true": np.float64(answer)} for answer in answers]


def _llm_check(
    view: LayerView, wanted: Collection[str], context_length: int | None, responses: Sequence[ScoredResponse]
) -> Sequence[Features]:
    """Return LLM-Check's view of responses from the inside (Sriramanan et al. 2024)."""
    tokens = [response.located.tokens for response in responses]
    # The scoring needs no place for the last token, which predicts nothing that is asked for
    if context_length is not None and max(each.length for each in tokens) + 1 > context_length:
        raise TokurError("llm_check: the model's context has no room for the response's last token")
    return view.features(tokens, wanted)


def _sample_sets(
    comparison: SetComparison, tokenizer: ResponseTokenizer, responses: Sequence[ScoredResponse]
) -> Sequence[Features]:
    """Compare the samples of each question, and tell as ``set_place`` () which of them a response is."""
    questions = by_question(responses)
    found = comparison.compare([text_set(samples, tokenizer) for samples in questions])
    return [
        {**features, "set_place": np.intp(place)}
        for samples, features in zip(questions, found, strict=True)
        for place in range(len(samples))
    ]
