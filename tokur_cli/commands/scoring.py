"""Records through tokeniser and scorer and back in their order: what ``score`` and ``generate --score`` share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tokur_cli import __version__
from tokur_cli.commands.arguments import ScoringOptions
from tokur_cli.commands.progress import Progress
from tokur_cli.commands.prompts import PromptForm, with_ids_of
from tokur_cli.commands.reporting import Invalid, say
from tokur_cli.engine.cache import cache_folder
from tokur_cli.engine.loading import LanguageModel
from tokur_cli.engine.perturbed import Draws
from tokur_cli.engine.posterior import build_posterior
from tokur_cli.engine.scoring import Quantities, Scorer
from tokur_cli.engine.tokens import LocatedResponse, Offsets, ResponseTokeniser
from tokur_cli.engine.vocabulary import DRAW_QUANTITIES
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.scores.catalogue import choose_scores, compute_scores

T = TypeVar("T")

# Records whose responses are sorted by length and batched together: few at first, so that results come soon
_FIRST_WINDOW, _LARGEST_WINDOW = 16, 256
_BATCH_TOKENS = {"cpu": 4096}
_ACCELERATOR_BATCH_TOKENS = 65536


class ScoredRecord(NamedTuple):
    """A record with its results, and how many tokens its response has."""

    record: Record
    tokens: int


class Scoring:
    """Scores records under one model with one set of draws.

    Args:
        command: name for messages.
        options: the posterior and what is computed.
        form: how questions became prompts.
        language_model: the model.
        progress: is told of work done.
        note: told what the user should know, in a sentence; by default it goes to standard error.

    Raises:
        TokurError: unknown scores, or a posterior that this model cannot have.
    """

    def __init__(
        self,
        command: str,
        options: ScoringOptions,
        form: PromptForm,
        language_model: LanguageModel,
        progress: Progress,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.form, self.language_model, self.progress = form, language_model, progress
        self.note = note or partial(say, command)
        self.scores, self.keep_tokens = choose_scores(options.scores), options.tokens
        self.tokeniser = ResponseTokeniser(language_model.tokenizer, language_model.context_length)
        needs_draws = any(need in DRAW_QUANTITIES for score in self.scores for need in score.needs)
        draws = _make_draws(options, language_model, progress) if needs_draws else None
        budget = options.batch_tokens or _BATCH_TOKENS.get(language_model.device.type, _ACCELERATOR_BATCH_TOKENS)
        self.scorer = Scorer(language_model.model, draws, sampling=options.sampling, batch_tokens=budget)
        self.run_settings = _run_settings(options, language_model, draws)
        self.other_models: set[str] = set()

    @property
    def settings(self) -> dict[str, Any]:
        """What a record written by this run can be told by, in the form of ``settings_of``."""
        return {**self.run_settings, "scores": [score.name for score in self.scores], "tokens": self.keep_tokens}

    @staticmethod
    def settings_of(tokur: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that a scored record was written with."""
        return {**tokur.get("run", {}), "scores": list(tokur.get("scores", {})), "tokens": "tokens" in tokur}

    def run(
        self,
        items: Iterable[Record | RecordError],
        write: Callable[[Record], None],
        invalid: Invalid,
        already_written: Callable[[Record], bool] = lambda _: False,
    ) -> None:
        """Score all records; stop at the first bad one unless they are skipped, with all before it written."""
        for window in windows(items):
            wanted = self.choose(window, already_written)
            if any(wanted):
                for outcome in self.score_window(window, wanted, invalid.skip):
                    if isinstance(outcome, RecordError):
                        invalid.met(outcome)
                        self.progress.advance(1)
                    else:
                        write(outcome.record)
                        self.progress.advance(1, outcome.tokens)

    def choose(self, window: list[Record | RecordError], already_written: Callable[[Record], bool]) -> list[bool]:
        """Return which of a window's records are to be scored, and count the others as done.

        A resumed run cuts the same windows and batches as an undisturbed one, so that its numbers are the same to the
        last bit; windows that are written already cost no more than reading them.
        """
        wanted = [isinstance(item, RecordError) or not already_written(item) for item in window]
        self.progress.advance(len(window) - sum(wanted))
        return wanted

    def score_window(
        self, window: list[Record | RecordError], wanted: list[bool], skip_invalid: bool
    ) -> Iterator[ScoredRecord | RecordError]:
        """Yield what became of each wanted record, in order; where bad ones are not skipped, the first is the last."""
        prepared = self._prepare_until_error(window, skip_invalid)
        outcomes = in_order(
            (place for place in range(len(prepared)) if wanted[place]), self._outcomes(window, prepared, wanted)
        )
        for place, outcome in outcomes:
            if isinstance(outcome, RecordError):
                yield outcome
                continue
            record, located = window[place], prepared[place]
            assert isinstance(record, Record)
            assert isinstance(located, LocatedResponse)
            self._add_results(record, located.offsets, outcome)
            yield ScoredRecord(record, len(located.offsets))

    def _prepare_until_error(
        self, window: list[Record | RecordError], skip_invalid: bool
    ) -> list[LocatedResponse | RecordError]:
        """Tokenise a window; where bad records are not skipped, the first one ends it."""
        prepared: list[LocatedResponse | RecordError] = []
        for item in window:
            prepared.append(item if isinstance(item, RecordError) else self._prepare(item))
            if isinstance(prepared[-1], RecordError) and not skip_invalid:
                break
        return prepared

    def _prepare(self, record: Record) -> LocatedResponse | RecordError:
        try:
            source = with_ids_of(record, self.language_model.name)
            if source is not record:
                self._say_other_model(record)
            prompt, special_tokens = self.form.apply(source, self.tokeniser)
            return self.tokeniser.tokenise(
                prompt,
                source.response,
                source.token_ids,
                special_tokens=special_tokens,
                finished=source.finish_reason == "stop",
            )
        except RecordError as error:
            return error
        except TokurError as error:
            return record.error(str(error))

    def _say_other_model(self, record: Record) -> None:
        name = str(record.tokur["model"])
        if name not in self.other_models:
            self.other_models.add(name)
            ours = self.language_model.name
            self.note(f"responses of {name} are scored by {ours}: their text is tokenised anew")

    def _outcomes(
        self, window: list[Record | RecordError], prepared: list[LocatedResponse | RecordError], wanted: list[bool]
    ) -> Iterator[tuple[int, Quantities | RecordError]]:
        """Yield the wanted places' results as they come."""
        located: dict[int, LocatedResponse] = {}
        for place, item in enumerate(prepared):
            if isinstance(item, LocatedResponse):
                located[place] = item
            else:
                yield place, item
        places = list(located)
        responses = [item.tokens for item in located.values()]
        for index, result in self.scorer.score(responses, [wanted[place] for place in places]):
            record = window[places[index]]
            assert isinstance(record, Record)
            yield places[index], record.error(str(result)) if isinstance(result, TokurError) else result

    def _add_results(self, record: Record, offsets: Offsets, quantities: Quantities) -> None:
        """Put the results under ``tokur``; scores of an earlier run stay only if they were made in the same way."""
        tokur = record.tokur
        earlier = tokur.pop("scores", {})
        if tokur.pop("run", None) != self.run_settings:
            earlier = {}
        tokur.pop("tokens", None)
        tokur = {"schema": SCHEMA, **tokur}
        if self.keep_tokens:
            tokur["tokens"] = {"offsets": offsets, **quantities}
        tokur["scores"] = {**earlier, **compute_scores(self.scores, quantities)}
        tokur["run"] = self.run_settings
        record.set("tokur", tokur)


def _make_draws(options: ScoringOptions, language_model: LanguageModel, progress: Progress) -> Draws:
    posterior = build_posterior(
        language_model.model,
        rank=options.rank,
        sigma=options.sigma,
        targets=options.targets,
        seed=options.seed,
        cache=cache_folder() / "bases",
        progress=progress.say,
    )
    return Draws(posterior, options.draws)


def _run_settings(options: ScoringOptions, language_model: LanguageModel, draws: Draws | None) -> dict[str, Any]:
    """What the numbers depend on; the posterior's part is null where no draw was made."""
    posterior = draws.posterior if draws else None
    return {
        "model": language_model.name,
        "revision": language_model.revision,
        "dtype": language_model.dtype,
        "rank": posterior.rank if posterior else None,
        "sigma": posterior.sigma if posterior else None,
        "draws": draws.members if draws else 0,
        "sampling": options.sampling if draws else None,
        "targets": posterior.targets if posterior else None,
        "seed": posterior.seed if posterior else None,
        "version": __version__,
    }


def in_order(expected: Iterable[int], arrivals: Iterable[tuple[int, T]]) -> Iterator[tuple[int, T]]:
    """Yield what arrives under the expected numbers in their order, each as soon as those before it are there."""
    waiting: dict[int, T] = {}
    arrivals = iter(arrivals)
    for number in expected:
        while number not in waiting:
            place, value = next(arrivals)
            waiting[place] = value
        yield number, waiting.pop(number)


def windows(items: Iterable[T]) -> Iterator[list[T]]:
    """Cut a stream into windows of 16, 32, 64, … records, at most 256; where the stream fails, after what was read."""
    iterator = iter(items)
    size = _FIRST_WINDOW
    failure: TokurError | None = None
    while failure is None:
        window: list[T] = []
        try:
            for item in itertools.islice(iterator, size):
                window.append(item)
        except TokurError as error:
            failure = error
        if window:
            yield window
        elif failure is None:
            return
        size = min(2 * size, _LARGEST_WINDOW)
    raise failure
