"""Features for scores that need more than the scoring's own passes, gathered for a window of records at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tokur_cli.commands.baselines.attempts import Attempts
from tokur_cli.commands.baselines.features import Features, ScoredResponse, map_batch, map_each
from tokur_cli.commands.baselines.questions import asked_ids, p_true_question
from tokur_cli.commands.baselines.samples import by_question, text_set
from tokur_cli.commands.baselines.text_sets import SET_FEATURES, SetComparison
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.baselines.llm_check import INSIDE, InsideView
from tokur_cli.engine.baselines.yes_no import TRUE_OR_FALSE, Asker, find_forks
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.engine.uncertainty.scorer import TokenizedResponse
from tokur_cli.records.errors import RecordError, TokurError, UsageError

_LARGEST_WINDOW = 256
_GENERATING_WINDOW = 32  # each with its attempts: enough to fill a batch, and results come soon

Gather = Callable[[Sequence[ScoredResponse]], Sequence[Features | TokurError]]
"""From responses to features of each, or why there are none."""


def check_baseline_options(options: BaselineOptions) -> None:
    """Refuse options that cannot go together, before a model is loaded.

    Raises:
        UsageError: all attempts would be the same.
    """
    if options.attempt_temperature == 0:
        raise UsageError("--attempt-temperature is above 0: at 0 all attempts are the same")


def over_samples(needs: Collection[str], options: BaselineOptions) -> bool:
    """Return whether the responses of a question are compared with each other, so that they belong together."""
    return bool(set(needs) & set(SET_FEATURES)) and options.over == "samples"


def largest_window(needs: Collection[str], options: BaselineOptions) -> int:
    """Return how many records' features are gathered at once."""
    generates = bool(set(needs) & set(SET_FEATURES)) and options.over == "attempts"
    return _GENERATING_WINDOW if generates else _LARGEST_WINDOW


class Baselines:
    """Gathers the features that the chosen scores need.

    Args:
        needs: names of features.
        options: how they are computed.
        language_model: the model.
        tokenizer: its tokenizer.
        batch_tokens: positions in a batch.
        progress: told what is loaded.

    Attributes:
        settings: what the features depend on, for the records.

    Raises:
        TokurError: the model cannot give what is needed, or another model that is needed cannot be had.
    """

    def __init__(
        self,
        needs: Collection[str],
        options: BaselineOptions,
        language_model: LanguageModel,
        tokenizer: ResponseTokenizer,
        batch_tokens: int,
        progress: Progress,
    ) -> None:
        self.settings: dict[str, Any] = {}
        self._gatherers: list[Gather] = []
        if "p_true" in needs:
            self._gatherers.append(PTrue(language_model, tokenizer, batch_tokens).gather)
        if inside := set(needs) & set(INSIDE):
            llm_check = LlmCheck(language_model, options.llm_check_layer, inside, batch_tokens)
            self._gatherers.append(llm_check.gather)
            if inside != {"top_entropy"}:
                self.settings["llm_check_layer"] = llm_check.view.layer
        compares = bool(set(needs) & set(SET_FEATURES))
        if compares:
            comparison = SetComparison(needs, options, language_model, tokenizer, batch_tokens, progress)
            self.settings |= {"over": options.over, **comparison.settings}
            if options.over == "samples":
                self._gatherers.append(SampleSets(comparison, tokenizer).gather)
            else:
                likelihoods = bool(set(needs) & {"set_log_likelihoods", "set_mean_log_likelihoods"})
                attempts = Attempts(options, likelihoods, language_model, tokenizer, batch_tokens)
                self._gatherers.append(lambda responses: comparison.compare(attempts.text_sets(responses)))
                self.settings |= attempts.settings

    def __bool__(self) -> bool:
        return bool(self._gatherers)

    def complete(self, responses: Sequence[ScoredResponse]) -> list[ScoredResponse | RecordError]:
        """Add the features to each response; where they cannot be had, the record's error takes its place."""
        results: list[ScoredResponse | TokurError] = list(responses)
        for gather in self._gatherers:
            found = map_batch(gather, results)
            results = [_with(*pair) for pair in zip(results, found, strict=True)]
        return [
            result if isinstance(result, (ScoredResponse, RecordError)) else response.record.error(str(result))
            for response, result in zip(responses, results, strict=True)
        ]


def _with(response: ScoredResponse | TokurError, found: Features | TokurError) -> ScoredResponse | TokurError:
    if isinstance(response, TokurError):
        return response
    if isinstance(found, TokurError):
        return found
    response.features.update(found)
    return response


class PTrue:
    """Asks the model whether its response is true (Kadavath et al. 2022)."""

    def __init__(self, language_model: LanguageModel, tokenizer: ResponseTokenizer, batch_tokens: int) -> None:
        self.tokenizer = tokenizer
        forks = find_forks(language_model.tokenizer, TRUE_OR_FALSE)
        self.asker = Asker(language_model.model, forks, batch_tokens)

    def gather(self, responses: Sequence[ScoredResponse]) -> Sequence[Features | TokurError]:
        """Return ``p_true`` of each response, a scalar."""
        answers = map_batch(self.asker.ask, map_each(self._prompt, responses, "p_true"))
        return map_each(lambda answer: {"p_true": np.float64(answer)}, answers)

    def _prompt(self, response: ScoredResponse) -> list[int]:
        return asked_ids(p_true_question(response.record, self.tokenizer), self.tokenizer)


class LlmCheck:
    """Computes LLM-Check's view of responses from the inside (Sriramanan et al. 2024)."""

    def __init__(
        self, language_model: LanguageModel, layer: int | None, wanted: Collection[str], batch_tokens: int
    ) -> None:
        self.context_length = language_model.context_length
        self.view = InsideView(language_model.model, layer, wanted, batch_tokens)

    def gather(self, responses: Sequence[ScoredResponse]) -> Sequence[Features | TokurError]:
        """Return what ``InsideView`` finds."""
        return map_batch(self.view.look, map_each(self._tokens, responses, "llm_check"))

    def _tokens(self, response: ScoredResponse) -> TokenizedResponse:
        tokens = response.located.tokens
        # The scoring needs no place for the last token, which predicts nothing that is asked for
        if self.context_length is not None and tokens.length + 1 > self.context_length:
            raise TokurError("the model's context has no room for the response's last token")
        return tokens


class SampleSets:
    """Compares the samples of a question with each other."""

    def __init__(self, comparison: SetComparison, tokenizer: ResponseTokenizer) -> None:
        self.comparison, self.tokenizer = comparison, tokenizer

    def gather(self, responses: Sequence[ScoredResponse]) -> Sequence[Features | TokurError]:
        """Return what the comparison finds, and as ``set_place`` () which of the set a response is."""
        questions = by_question(responses)
        found = self.comparison.compare(map_each(lambda samples: text_set(samples, self.tokenizer), questions))
        return [
            features if isinstance(features, TokurError) else {**features, "set_place": np.intp(place)}
            for samples, features in zip(questions, found, strict=True)
            for place in range(len(samples))
        ]
