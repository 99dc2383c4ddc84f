"""Questions through a model, and its responses as records in the order of the questions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tokur_cli import __version__
from tokur_cli.answers.grading import is_code
from tokur_cli.commands.generate.settling import Poll, Polled
from tokur_cli.commands.options.model import DecodingOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.records import settings_of as settings_of_scores
from tokur_cli.commands.score.work import ScoreStream
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.session.work import AlreadyWritten, Items, Stream, none_written
from tokur_cli.commands.shared.digests import with_model_digests
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import question_id, with_ids_of
from tokur_cli.commands.shared.windows import windows
from tokur_cli.commands.workers.pool import DEATHS, InProcess, Pool
from tokur_cli.engine.generation.decoder import DecodedResponse, DecodingRequest
from tokur_cli.engine.generation.particles import GuidedResponse, Lineage
from tokur_cli.metrics.adaptive_consistency import FEWEST
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.base import with_tokur
from tokur_cli.records.prompt import split_messages
from tokur_cli.records.record import LABELS, SCHEMA, Record
from tokur_cli.records.writer import Continuation

_RESPONSES_TOGETHER = 128  # handed out to a worker at once
_HARDLY_DIFFER = 0.95  # effective particles of one, on average, from which on resampling is almost blind


@dataclass
class _Question:
    """A question on its way."""

    record: Record
    request: DecodingRequest
    missing: list[int]  # the samples that are to be written
    responses: dict[int, DecodedResponse] = field(default_factory=dict)


def request_of(
    session: Session, options: DecodingOptions, index: int, item: Record, already_written: AlreadyWritten
) -> tuple[Record, DecodingRequest]:
    """Return the question of a record, and the request for those samples of it that are not written already.

    Raises:
        RecordError: nothing can be asked.
    """
    numbers = range(options.samples)
    try:
        record = _unanswered(item)
        question = with_ids_of(record, session.description.name)
        prompt, special_tokens = session.form.apply(question, session.tokenizer)
        for remark in session.form.remarks(question, session.tokenizer):
            session.progress.note(remark)
        prompt_ids = session.tokenizer.tokenize_prompt(prompt, special_tokens=special_tokens)
        if record is not item:  # the response that it has may have been asked about, in a template
            record = record.copy(without=("reasoning_content", "finish_reason"))
        if isinstance(prompt, str) and session.tokenizer.chat.opens_thought(prompt):
            record.set("tokur", {"reasoning": "begun"})  # in the prompt, not in the response
        if record.id is None:
            record.set("id", question_id(record, prompt_ids))
        key = str(record.id)
        written = (already_written(with_tokur(record.copy(), sample=number)) for number in numbers)
        if options.stop_at is None:
            samples = [number for number, there in zip(numbers, written, strict=True) if not there]
            return record, DecodingRequest(index, key, prompt_ids, samples)
        if is_code(record):
            raise record.error("is code, of which no two answers are equal: leave --stop-at out")
        first = [there for there in itertools.takewhile(bool, written) if there]
        return record, Poll(index, key, prompt_ids, numbers[len(first) :], question=record, written=first)
    except RecordError:
        raise
    except TokurError as error:
        raise item.error(str(error)) from error


class GenerateStream(Stream):
    """Takes questions through the decoders of a pool (``Answering``) and, as records, back in the input's order.

    The session makes the prompts; its model need not have its weights here. Without ``scoring`` nothing is scored.
    """

    def __init__(
        self,
        session: Session,
        pool: Pool,
        options: DecodingOptions,
        scoring: ScoringOptions | None,
        progress: Progress,
        invalid: InvalidRecords,
    ) -> None:
        self._pool, self._options, self._progress, self._invalid = pool, options, progress, invalid
        self._session, self._settings = session, _generation_settings(session, pool.settings, options)
        self._scoring = None if scoring is None else ScoreStream(pool, scoring, progress, invalid)
        self._lineages: list[list[Lineage]] = []  # of each guided question
        self._votes: Counter[str] = Counter()  # of questions that stop at a settled vote
        self._questions: dict[int, _Question] = {}
        self._ready: dict[int, list[Record | RecordError]] = {}
        self._pausing = False
        self._asked: set[int] = set()  # questions, by hash
        settings = {**self._settings, **pool.settings}
        self.resuming = Continuation(
            lambda _: settings, settings_of, identity=lambda record: (record.identity("response"), record.sample)
        )

    @property
    def busy(self) -> bool:
        """Whether this process is answering questions."""
        return isinstance(self._pool, InProcess) and bool(self._questions)

    def lines(self, items: Items, already_written: AlreadyWritten) -> Iterator[bytes]:
        """Yield the responses as they will be written."""
        responses = self._responses(items, already_written)
        if self._scoring is not None:
            yield from self._scoring.lines(responses, none_written)
        else:
            for item in self._invalid.good(responses):
                if item is not None:
                    yield item.encode()
                    self._progress.advance(1, len(item.token_ids or ()))
        for line in about_resampling(self._lineages):
            self._progress.note(line)
        if votes := self._votes:
            settled = f"{votes['settled']:,} of {votes['questions']:,} questions settled"
            self._progress.note(f"{settled}; drew {votes['drawn']:,} of {votes['asked']:,} samples")

    def _responses(self, items: Items, already_written: AlreadyWritten) -> Iterator[Record | RecordError | None]:
        """Yield a question's responses when they are all there, questions and samples in order.

        Where bad records are not skipped, the first one is the last thing yielded. A pause of the questions is passed
        on when all of them have been answered.
        """
        turn = 0
        requests = self._requests(items, already_written)
        drawn = self._options.samples if self._options.stop_at is None else FEWEST
        # A decoder refills its batch as responses end; one in this process is given all there is
        tasks: Iterable[Iterable[DecodingRequest | None]] = [requests]
        if not isinstance(self._pool, InProcess):
            tasks = windows(requests, itertools.repeat(max(1, _RESPONSES_TOGETHER // drawn)))
        results = itertools.chain.from_iterable(self._pool.map(tasks, _lost))
        for result in itertools.chain(results, [None]):  # at the end, what is ready
            if result is not None:
                self._take(result)
            while turn in self._ready:
                yield from self._ready.pop(turn)
                turn += 1
            if self._pausing and not self._questions:
                yield None
        if self._questions:
            raise RuntimeError(f"{len(self._questions)} questions were lost")

    def _requests(self, items: Items, already_written: AlreadyWritten) -> Iterator[DecodingRequest | None]:
        """Yield what is to be generated, None for a pause; what is bad or written already is ready at once."""
        indices = itertools.count()
        for item in items:
            self._pausing = item is None
            if item is None:
                yield None
                continue
            index = next(indices)
            try:
                if isinstance(item, RecordError):
                    raise item
                record, request = request_of(self._session, self._options, index, item, already_written)
            except RecordError as error:
                self._ready[index] = [error]
                if not self._invalid.skip:
                    return
                continue
            self._progress.passed(self._options.samples - len(request.samples))
            if not request.samples:
                self._ready[index] = []
                continue
            if (asked := hash((request.key, *request.prompt_ids))) in self._asked:
                self._progress.note("questions that stand more than once get the same responses: -n asks for more")
            self._asked.add(asked)
            missing = list(request.samples)
            if self._options.guidance:  # they grow together
                request = replace(request, samples=range(self._options.samples))
            self._questions[index] = _Question(record, request, missing)
            yield request

    def _take(self, result: DecodedResponse | Polled | tuple[DecodingRequest, TokurError]) -> None:
        """Note a response; with its last one a question is ready."""
        index = result[0].index if isinstance(result, tuple) else result.index
        question = self._questions.get(index)
        if question is None:  # another sample of it has failed
            return
        if isinstance(result, tuple):
            self._ready[index] = [question.record.error(str(result[1]))]
        elif isinstance(result, Polled):
            self._ready[index] = [self._record(question, response) for response in result.responses]
            if result.drawn:
                self._votes.update(questions=1, settled=result.settled, drawn=result.drawn, asked=len(question.missing))
        else:
            question.responses[result.sample] = result
            if len(question.responses) < len(question.request.samples):
                return
            self._ready[index] = [self._record(question, question.responses[n]) for n in question.missing]
            if lineages := [one.lineage for one in question.responses.values() if isinstance(one, GuidedResponse)]:
                self._lineages.append(lineages)
        del self._questions[index]

    def _record(self, question: _Question, response: DecodedResponse) -> Record:
        record, model = question.record.copy(), self._session.description
        tokur = {
            "schema": SCHEMA,
            "model": model.name,
            **({} if model.adapter is None else {"base": model.source.name}),
            "sample": response.sample,
            "seed": self._options.seed,
            "finish_reason": response.finish_reason,
            **{name: value for name, value in record.tokur.items() if name == "reasoning"},
            "prompt_token_ids": list(question.request.prompt_ids),
            "token_ids": response.token_ids,
            "generation": self._settings,
        }
        if isinstance(response, GuidedResponse):
            tokur["particle"] = asdict(response.lineage)
            if self._scoring is not None:
                tokur["tokens"] = response.quantities
        record.set("response", response.text)
        record.set("tokur", tokur)
        return record


def _generation_settings(session: Session, model: Mapping[str, Any], options: DecodingOptions) -> dict[str, Any]:
    """Return what the records have under ``tokur.generation``, with the settings of what generates."""
    settings = {
        **{name: model[name] for name in session.description.identity},
        "backend": options.engine.backend,
        **{name: getattr(options, name) for name in ("temperature", "top_p", "top_k", "min_p", "max_new_tokens")},
        "stop": list(options.stop),
        **session.form.settings(session.tokenizer),
        "seed": options.seed,
        "version": __version__,
    }
    settings = with_model_digests(settings, known=model)
    if guidance := options.guidance:
        settings |= {
            **vars(guidance),
            "guide_temperature": "auto" if guidance.temperature is None else guidance.temperature,
            "step_end": list(guidance.ends),
            "particles": options.samples,  # a sample depends on the others
            "posterior": model["posterior"],
        }
    return settings


def settings_of(record: Record) -> dict[str, Any]:
    """Return the settings that a response was generated with, and scored with if it was."""
    return {**record.computed("generation"), **(settings_of_scores(record) if "run" in record.tokur else {})}


def _unanswered(record: Record) -> Record:
    """Return a record without what is about the response that it has: labels, ``tokur``, a turn of messages."""
    has_turn = isinstance(record.get("messages"), list) and split_messages(record)[1] is not None
    if not has_turn and record.get("response") is None:
        return record
    if any(record.get(name) is not None for name in ("messages", "question", "prompt")):  # that is asked anew
        record = record.copy(without=["tokur"])
    marks = bool, int, float, type(None), list
    labels = {**dict.fromkeys(LABELS, marks), "claims": (list,)}
    record = record.copy(without=[name for name, types in labels.items() if isinstance(record.get(name), types)])
    if has_turn:
        record.set("messages", record.fields["messages"][:-1])
    return record


def _lost(task: Iterable[DecodingRequest | None]) -> Iterator[tuple[DecodingRequest, TokurError]]:
    """Yield the errors of requests that no worker outlives."""
    reason = f"{DEATHS} workers died while they answered it, or a question beside it: is there too little memory?"
    return ((request, TokurError(reason)) for request in task if request is not None)


def about_resampling(questions: Sequence[Sequence[Lineage]]) -> Iterator[str]:
    """Yield what to say of guided questions: how much the weights differed, and how many lineages are left."""
    shares = [size / len(lineages) for lineages in questions for size in lineages[0].ess]  # effective particles of one
    if questions and not shares:
        yield "all responses ended in their first step: give fewer --set step_tokens, or another step_end"
    if not shares:
        return
    share = sum(shares) / len(shares)
    left = sum(len({lineage.root for lineage in lineages}) for lineages in questions) / len(questions)
    particles = sum(map(len, questions)) / len(questions)
    yield (
        f"{len(shares):,} resamplings: effective sample size {share:.1%} of the particles on average; {left:.1f} of "
        f"{particles:g} lineages are left at the end"
    )
    if share >= _HARDLY_DIFFER:
        yield (
            "the weights hardly differ, so chance decides what is copied: --guide-temperature auto sets rewards apart, "
            "--set resample=systematic loses fewer lineages by chance"
        )
