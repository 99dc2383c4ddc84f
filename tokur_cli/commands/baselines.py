"""Evidence for scores that need more than the scoring's own passes, gathered for a window of records at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tokur_cli.commands.arguments import BaselineOptions
from tokur_cli.commands.asking import asked_ids, p_true_question
from tokur_cli.commands.attempts import Attempts
from tokur_cli.commands.evidence import Found, Response
from tokur_cli.commands.outcomes import together, tried
from tokur_cli.commands.progress import Progress
from tokur_cli.commands.samples import by_question, text_set
from tokur_cli.commands.text_sets import SET_EVIDENCE, SetComparison
from tokur_cli.engine.asking import TRUE_OR_FALSE, Asker, find_forks
from tokur_cli.engine.llm_check import INSIDE, InsideView
from tokur_cli.engine.loading import LanguageModel
from tokur_cli.engine.scoring import TokenisedResponse
from tokur_cli.engine.tokens import ResponseTokeniser
from tokur_cli.records.errors import RecordError, TokurError, UsageError

_LARGEST_WINDOW = 256
_GENERATING_WINDOW = 32  # each with its attempts: enough to fill a batch, and results come soon

Gather = Callable[[Sequence[Response]], Sequence[Found | TokurError]]
"""From responses to a piece of evidence about each, or why there is none."""


def check_baseline_options(options: BaselineOptions) -> None:
    """Refuse options that cannot go together, before a model is loaded.

    Raises:
        UsageError: all attempts would be the same.
    """
    if options.attempt_temperature == 0:
        raise UsageError("--attempt-temperature is above 0: at 0 all attempts are the same")


class Baselines:
    """Gathers the evidence that the chosen scores need.

    Args:
        needs: names of evidence.
        options: how it is found.
        language_model: the model.
        tokeniser: its tokeniser.
        batch_tokens: positions in a batch.
        progress: is told what is loaded.

    Attributes:
        settings: what the evidence depends on, for the records.
        largest_window: records whose evidence is gathered at once.
        over_samples: whether the responses of a question are compared with each other, so that they belong together.

    Raises:
        TokurError: the model cannot give what is needed, or another model that is needed cannot be had.
    """

    def __init__(
        self,
        needs: Collection[str],
        options: BaselineOptions,
        language_model: LanguageModel,
        tokeniser: ResponseTokeniser,
        batch_tokens: int,
        progress: Progress,
    ) -> None:
        self.settings: dict[str, Any] = {}
        self._gatherers: list[Gather] = []
        if "p_true" in needs:
            self._gatherers.append(PTrue(language_model, tokeniser, batch_tokens).gather)
        if inside := set(needs) & set(INSIDE):
            llm_check = LlmCheck(language_model, options.llm_check_layer, inside, batch_tokens)
            self._gatherers.append(llm_check.gather)
            if inside != {"top_entropy"}:
                self.settings["llm_check_layer"] = llm_check.view.layer
        compares = bool(set(needs) & set(SET_EVIDENCE))
        self.over_samples = compares and options.over == "samples"
        self.largest_window = _GENERATING_WINDOW if compares and not self.over_samples else _LARGEST_WINDOW
        if compares:
            comparison = SetComparison(needs, options, language_model, tokeniser, batch_tokens, progress)
            self.settings |= {"over": options.over, **comparison.settings}
            if self.over_samples:
                self._gatherers.append(SampleSets(comparison, tokeniser).gather)
            else:
                likelihoods = bool(set(needs) & {"set_log_likelihoods", "set_mean_log_likelihoods"})
                attempts = Attempts(options, likelihoods, language_model, tokeniser, batch_tokens)
                self._gatherers.append(lambda responses: comparison.compare(attempts.text_sets(responses)))
                self.settings |= attempts.settings

    def __bool__(self) -> bool:
        return bool(self._gatherers)

    def complete(self, responses: Sequence[Response]) -> list[Response | RecordError]:
        """Add the evidence to each response; where it cannot be had, its record's error stands in its place."""
        results: list[Response | TokurError] = list(responses)
        for gather in self._gatherers:
            found = together(gather, results)
            results = [_with(*pair) for pair in zip(results, found, strict=True)]
        return [
            result if isinstance(result, (Response, RecordError)) else response.record.error(str(result))
            for response, result in zip(responses, results, strict=True)
        ]


def _with(response: Response | TokurError, found: Found | TokurError) -> Response | TokurError:
    if isinstance(response, TokurError):
        return response
    if isinstance(found, TokurError):
        return found
    response.evidence.update(found)
    return response


class PTrue:
    """Asks the model whether its response is true (Kadavath et al. 2022)."""

    def __init__(self, language_model: LanguageModel, tokeniser: ResponseTokeniser, batch_tokens: int) -> None:
        self.tokeniser = tokeniser
        forks = find_forks(language_model.tokenizer, TRUE_OR_FALSE)
        self.asker = Asker(language_model.model, forks, batch_tokens)

    def gather(self, responses: Sequence[Response]) -> Sequence[Found | TokurError]:
        """Return ``p_true``, () each."""
        answers = together(self.asker.ask, tried(self._prompt, responses, "p_true"))
        return tried(lambda answer: {"p_true": np.float64(answer)}, answers)

    def _prompt(self, response: Response) -> list[int]:
        return asked_ids(p_true_question(response.record, self.tokeniser), self.tokeniser)


class LlmCheck:
    """Looks at responses from the inside (Sriramanan et al. 2024)."""

    def __init__(
        self, language_model: LanguageModel, layer: int | None, wanted: Collection[str], batch_tokens: int
    ) -> None:
        self.context_length = language_model.context_length
        self.view = InsideView(language_model.model, layer, wanted, batch_tokens)

    def gather(self, responses: Sequence[Response]) -> Sequence[Found | TokurError]:
        """Return what ``InsideView`` finds."""
        return together(self.view.look, tried(self._tokens, responses, "llm_check"))

    def _tokens(self, response: Response) -> TokenisedResponse:
        tokens = response.located.tokens
        # The scoring needs no place for the last token, which predicts nothing that is asked for
        if self.context_length is not None and tokens.length + 1 > self.context_length:
            raise TokurError("the model's context has no place for the response's last token")
        return tokens


class SampleSets:
    """Compares the samples of a question with each other."""

    def __init__(self, comparison: SetComparison, tokeniser: ResponseTokeniser) -> None:
        self.comparison, self.tokeniser = comparison, tokeniser

    def gather(self, responses: Sequence[Response]) -> Sequence[Found | TokurError]:
        """Return what the comparison finds, and as ``set_place`` () which of the set a response is."""
        questions = by_question(responses)
        found = self.comparison.compare(tried(lambda samples: text_set(samples, self.tokeniser), questions))
        return [
            evidence if isinstance(evidence, TokurError) else {**evidence, "set_place": np.intp(place)}
            for samples, evidence in zip(questions, found, strict=True)
            for place in range(len(samples))
        ]
