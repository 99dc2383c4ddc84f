"""Evidence for scores that need more than the scoring's own passes, gathered for a window of records at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tokur_cli.commands.arguments import BaselineOptions
from tokur_cli.commands.asking import asked_ids, p_true_question
from tokur_cli.engine.asking import TRUE_OR_FALSE, Asker, find_forks
from tokur_cli.engine.llm_check import INSIDE, InsideView
from tokur_cli.engine.loading import LanguageModel
from tokur_cli.engine.scoring import Quantities, TokenisedResponse
from tokur_cli.engine.tokens import LocatedResponse, ResponseTokeniser
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record

_TOO_LONG = "llm_check: the model's context has no place for the response's last token"

Found = dict[str, Any]
"""Evidence by its names in the catalogue."""


@dataclass(frozen=True)
class Response:
    """A response that the scoring is done with.

    Args:
        record: where it stands.
        located: its tokens.
        quantities: what the scoring found.
        evidence: what was gathered beyond them, added to as it is found.
    """

    record: Record
    located: LocatedResponse
    quantities: Quantities
    evidence: Found = field(default_factory=dict)


class Gatherer(Protocol):
    """Finds a piece of evidence."""

    def gather(self, responses: Sequence[Response]) -> Sequence[Found | TokurError]:
        """Return what is found for each response, or why nothing is."""


class Baselines:
    """Gathers the evidence that the chosen scores need; ``settings`` are what it depends on, for records.

    Args:
        needs: names of evidence.
        options: how it is found.
        language_model: the model.
        tokeniser: its tokeniser.
        batch_tokens: positions in a batch.

    Raises:
        TokurError: the model cannot give what is needed.
    """

    def __init__(
        self,
        needs: Collection[str],
        options: BaselineOptions,
        language_model: LanguageModel,
        tokeniser: ResponseTokeniser,
        batch_tokens: int,
    ) -> None:
        self._gatherers: list[Gatherer] = []
        self.settings: dict[str, Any] = {}
        if "p_true" in needs:
            self._gatherers.append(PTrue(language_model, tokeniser, batch_tokens))
        if inside := set(needs) & set(INSIDE):
            llm_check = LlmCheck(language_model, options.llm_check_layer, inside, batch_tokens)
            self._gatherers.append(llm_check)
            if inside != {"top_entropy"}:
                self.settings["llm_check_layer"] = llm_check.view.layer

    def __bool__(self) -> bool:
        return bool(self._gatherers)

    def complete(self, responses: Sequence[Response]) -> list[Response | RecordError]:
        """Add the evidence to each response; where it cannot be had, its record's error stands in its place."""
        results: list[Response | RecordError] = list(responses)
        for gatherer in self._gatherers:
            remaining = [response for response in results if isinstance(response, Response)]
            found = iter(gatherer.gather(remaining))
            results = [_with(item, next(found)) if isinstance(item, Response) else item for item in results]
        return results


def _with(response: Response, found: Found | TokurError) -> Response | RecordError:
    if isinstance(found, TokurError):
        return found if isinstance(found, RecordError) else response.record.error(str(found))
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
        prompts = [self._prompt(response.record) for response in responses]
        answers = iter(self.asker.ask([prompt for prompt in prompts if not isinstance(prompt, TokurError)]))
        return [prompt if isinstance(prompt, TokurError) else _named(next(answers)) for prompt in prompts]

    def _prompt(self, record: Record) -> list[int] | TokurError:
        try:
            return asked_ids(p_true_question(record, self.tokeniser), self.tokeniser)
        except RecordError as error:
            return error
        except TokurError as error:
            return TokurError(f"p_true: {error}")


def _named(answer: float | TokurError) -> Found | TokurError:
    return answer if isinstance(answer, TokurError) else {"p_true": np.float64(answer)}


class LlmCheck:
    """Looks at responses from the inside (Sriramanan et al. 2024)."""

    def __init__(
        self, language_model: LanguageModel, layer: int | None, wanted: Collection[str], batch_tokens: int
    ) -> None:
        self.context_length = language_model.context_length
        self.view = InsideView(language_model.model, layer, wanted, batch_tokens)

    def gather(self, responses: Sequence[Response]) -> Sequence[Found | TokurError]:
        """Return what ``InsideView`` finds."""
        tokens = [response.located.tokens for response in responses]
        fitting = [self._fits(each) for each in tokens]
        found = iter(self.view.look([each for each, fits in zip(tokens, fitting, strict=True) if fits]))
        return [next(found) if fits else TokurError(_TOO_LONG) for fits in fitting]

    def _fits(self, tokens: TokenisedResponse) -> bool:
        """Whether the context holds the last token too: the scoring only asks what predicts it."""
        return self.context_length is None or tokens.length + 1 <= self.context_length
