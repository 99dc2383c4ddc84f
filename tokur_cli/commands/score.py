"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tokur_cli import __version__
from tokur_cli.commands.progress import Progress, count_lines
from tokur_cli.commands.prompts import PromptForm
from tokur_cli.commands.reporting import Invalid, say
from tokur_cli.engine.cache import cache_folder
from tokur_cli.engine.loading import DEFAULT_MODEL, LanguageModel, load_language_model
from tokur_cli.engine.perturbed import Draws
from tokur_cli.engine.posterior import build_posterior
from tokur_cli.engine.projections import DEFAULT_TARGETS
from tokur_cli.engine.scoring import Quantities, Sampling, Scorer
from tokur_cli.engine.tokens import LocatedResponse, Offsets, ResponseTokeniser
from tokur_cli.engine.vocabulary import DRAW_QUANTITIES
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.catalogue import Score, choose_scores, compute_scores

T = TypeVar("T")

COMMAND = "score"
WINDOW = 256  # input records whose responses are sorted by length and batched together
_DEVICE_BATCH_TOKENS = {"cpu": 4096}
_ACCELERATOR_BATCH_TOKENS = 65536


@dataclass(frozen=True)
class ScoreOptions:
    """The options of ``tokur score``, as its help describes them."""

    path: str
    model: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    device_map: str = "auto"
    trust_remote_code: bool = False
    draws: int = 2
    rank: int = 8
    sigma: float = 0.1
    sampling: Sampling = "stepwise"
    targets: str = DEFAULT_TARGETS
    seed: int = 0
    scores: str | None = None
    tokens: bool = True
    template: str = "chat"
    system: str | None = None
    batch_tokens: int | None = None
    output: str | None = None
    resume: bool = False
    skip_invalid: bool = False
    format: str = "auto"
    mapping: FieldMapping = field(default_factory=FieldMapping)
    requests: str | None = None


def score(options: ScoreOptions) -> None:
    """Score a stream of responses.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    scores = choose_scores(options.scores)
    items = read_records(options.path, format=options.format, mapping=options.mapping, requests=options.requests)
    first = list(itertools.islice(items, 1))
    name = options.model or _named_model(first) or os.environ.get("TOKUR_MODEL") or DEFAULT_MODEL
    with Progress(COMMAND) as progress:
        language_model = load_language_model(
            name,
            dtype=options.dtype,
            device_map=options.device_map,
            revision=options.revision,
            trust_remote_code=options.trust_remote_code,
            progress=progress.say,
        )
        draws = _draws(options, scores, language_model, progress)
        run = _run_settings(options, language_model, draws)
        scoring = _Scoring(options, scores, language_model, draws, run)
        invalid = Invalid(COMMAND, options.skip_invalid)
        with open_output(
            options.output,
            resume=options.resume,
            settings={**run, "scores": [s.name for s in scores], "tokens": options.tokens},
            settings_of=_settings_of,
            inputs=[options.path],
        ) as writer:
            progress.start(count_lines(options.path))
            scoring.run(itertools.chain(first, items), writer, invalid, progress)
            writer.finish()
    invalid.finish()


def _named_model(first: Sequence[Record | RecordError]) -> str | None:
    if not first or isinstance(first[0], RecordError):
        return None
    name = first[0].tokur.get("model")
    return name if isinstance(name, str) else None


def _draws(
    options: ScoreOptions, scores: Sequence[Score], language_model: LanguageModel, progress: Progress
) -> Draws | None:
    """Return the draws, or None where nothing that was asked for needs any."""
    if not any(need in DRAW_QUANTITIES for score in scores for need in score.needs):
        return None
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


def _run_settings(options: ScoreOptions, language_model: LanguageModel, draws: Draws | None) -> dict[str, Any]:
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


def _settings_of(tokur: dict[str, Any]) -> dict[str, Any]:
    """The settings that a record was written with, in the form ``score`` gives them to ``open_output``."""
    return {**tokur.get("run", {}), "scores": list(tokur.get("scores", {})), "tokens": "tokens" in tokur}


class _Scoring:
    """One run: windows of records through tokeniser and scorer into the writer, in the input's order."""

    def __init__(
        self,
        options: ScoreOptions,
        scores: Sequence[Score],
        language_model: LanguageModel,
        draws: Draws | None,
        run: dict[str, Any],
    ) -> None:
        device = language_model.device.type
        budget = options.batch_tokens or _DEVICE_BATCH_TOKENS.get(device, _ACCELERATOR_BATCH_TOKENS)
        self.scores, self.run_settings, self.keep_tokens = scores, run, options.tokens
        self.form = PromptForm(options.template, options.system)
        self.language_model = language_model
        self.tokeniser = ResponseTokeniser(language_model.tokenizer, language_model.context_length)
        self.scorer = Scorer(language_model.model, draws, sampling=options.sampling, batch_tokens=budget)
        self.other_models: set[str] = set()

    def run(
        self, items: Iterable[Record | RecordError], writer: RecordWriter, invalid: Invalid, progress: Progress
    ) -> None:
        """Score all records; stop at the first bad one unless they are skipped, with all before it written."""
        for window in _windows(items, WINDOW):
            # A resumed run cuts the same windows and batches as an undisturbed one, so that its numbers are the same
            # to the last bit; windows that are written already cost no more than reading them
            wanted = [isinstance(item, RecordError) or not writer.already_written(item) for item in window]
            progress.advance(len(window) - sum(wanted))
            if any(wanted):
                self._run_window(window, wanted, writer, invalid, progress)

    def _run_window(
        self,
        window: list[Record | RecordError],
        wanted: list[bool],
        writer: RecordWriter,
        invalid: Invalid,
        progress: Progress,
    ) -> None:
        prepared = self._prepare_until_error(window, invalid)
        outcomes = in_order(
            (place for place in range(len(prepared)) if wanted[place]), self._outcomes(window, prepared, wanted)
        )
        for place, outcome in outcomes:
            if isinstance(outcome, RecordError):
                invalid.met(outcome)
                progress.advance(1)
                continue
            record, located = window[place], prepared[place]
            assert isinstance(record, Record)
            assert isinstance(located, LocatedResponse)
            self._add_results(record, located.offsets, outcome)
            writer.write(record)
            progress.advance(1, len(located.offsets))

    def _prepare_until_error(
        self, window: list[Record | RecordError], invalid: Invalid
    ) -> list[LocatedResponse | RecordError]:
        """Tokenise a window; where bad records are not skipped, the first one ends it."""
        prepared: list[LocatedResponse | RecordError] = []
        for item in window:
            prepared.append(item if isinstance(item, RecordError) else self._prepare(item))
            if isinstance(prepared[-1], RecordError) and not invalid.skip:
                break
        return prepared

    def _prepare(self, record: Record) -> LocatedResponse | RecordError:
        try:
            source = record if self._ids_are_of_this_model(record) else _without_ids(record)
            prompt, special_tokens = self.form.apply(source, self.tokeniser)
            located = self.tokeniser.tokenise(
                prompt,
                source.response,
                source.token_ids,
                special_tokens=special_tokens,
                finished=record.finish_reason == "stop",
            )
        except RecordError as error:
            return error
        except TokurError as error:
            return record.error(str(error))
        return located

    def _ids_are_of_this_model(self, record: Record) -> bool:
        """Whether the record's token ids are this model's; another model's text is tokenised anew, which is said."""
        name = record.tokur.get("model")
        if name is None or name == self.language_model.name:
            return True
        if str(name) not in self.other_models:
            self.other_models.add(str(name))
            say(COMMAND, f"responses of {name} are scored by {self.language_model.name}: their text is tokenised anew")
        return False

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
        earlier = tokur.pop("scores", {}) if tokur.pop("run", None) == self.run_settings else {}
        tokur.pop("scores", None)
        tokur.pop("tokens", None)
        tokur = {"schema": SCHEMA, **tokur}
        if self.keep_tokens:
            tokur["tokens"] = {"offsets": offsets, **quantities}
        tokur["scores"] = {**earlier, **compute_scores(self.scores, quantities)}
        tokur["run"] = self.run_settings
        record.set("tokur", tokur)


def _without_ids(record: Record) -> Record:
    twin = record.copy()
    twin.set("tokur", {k: v for k, v in record.tokur.items() if k not in ("prompt_token_ids", "token_ids")})
    return twin


def in_order(expected: Iterable[int], arrivals: Iterable[tuple[int, T]]) -> Iterator[tuple[int, T]]:
    """Yield what arrives under the expected numbers in their order, each as soon as those before it are there."""
    waiting: dict[int, T] = {}
    arrivals = iter(arrivals)
    for number in expected:
        while number not in waiting:
            place, value = next(arrivals)
            waiting[place] = value
        yield number, waiting.pop(number)


def _windows(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while window := list(itertools.islice(iterator, size)):
        yield window
