"""Questions through a model, and its responses as records: what ``generate`` does once a model is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tokur_cli import __version__
from tokur_cli.commands.generate import guided
from tokur_cli.commands.options.guided import Guidance
from tokur_cli.commands.options.model import DecodingOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.score.pipeline import Scoring
from tokur_cli.commands.score.windows import ScoringTask, windows
from tokur_cli.commands.shared.arrivals import Pause
from tokur_cli.commands.shared.decoding import make_decoder
from tokur_cli.commands.shared.digests import with_model_digests
from tokur_cli.commands.shared.errors import say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import WORD_FOR_WORD, PromptForm, question_id, with_ids_of
from tokur_cli.commands.workers.pool import DEATHS, InProcess, Pool
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.guided.particles import GuidedResponse, ParticleFilter
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.loading.models import LanguageModel, ModelDescription
from tokur_cli.engine.posterior.settings import DRAW_SETTINGS
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import SCHEMA, Record

_COMMAND = "generate"
_RESPONSES_TOGETHER = 128  # handed out to a worker at once


class Responding:
    """A model that answers requests and, where that is asked for, scores what became of them.

    Args:
        model: the model.
        decoder: what generates.
        scoring: judges responses; None where nothing does.
        guidance: how responses are guided by it while they grow; None for responses in one go.
        score: whether what it says goes into the records.
    """

    def __init__(
        self,
        model: ModelDescription,
        decoder: Decoder | VllmDecoder,
        scoring: Scoring | None,
        guidance: Guidance | None,
        *,
        score: bool = False,
    ) -> None:
        self.model, self.scoring = model, scoring
        self.decoder: Decoder | VllmDecoder | ParticleFilter = decoder
        self.settings = dict(model.settings)
        if scoring and score:  # prompts are made here, and responses come to be scored with their ids
            self.settings = Scoring.settings_for(scoring.settings, {"prompt_token_ids": []})
        if guidance:
            assert scoring is not None
            assert isinstance(decoder, Decoder)
            self.decoder = guided.particle_filter(decoder, scoring.scorer, guidance)
            self.settings["posterior"] = {name: scoring.run_settings[name] for name in DRAW_SETTINGS}

    def answer(self, task: Iterable[DecodingRequest | None] | ScoringTask) -> Iterator[Any]:
        """Yield responses as they end, or what scoring yields."""
        if isinstance(task, ScoringTask):
            assert self.scoring is not None
            return self.scoring.answer(task)
        return self.decoder.serve(task)


def make_responding(
    model: ModelDescription,
    decoding: DecodingOptions,
    form: PromptForm,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    progress: Progress,
    note: Callable[[str], None],
    *,
    score: bool = False,
    trust_remote_code: bool = False,
) -> Responding:
    """Return what answers, with a scoring where responses are to be judged: while they grow or afterwards.

    Raises:
        TokurError: a posterior that this model cannot have, or a model that cannot generate as it is done here.
    """
    decoder: Decoder | VllmDecoder  # made first: a model that cannot generate is refused before it is perturbed
    if isinstance(model, LanguageModel):
        decoder = _with_transformers(model, decoding, note)
    else:
        decoder = _with_vllm(model, decoding, trust_remote_code, note)
    judge = None
    if isinstance(model, LanguageModel) and (score or decoding.guidance):
        wanted = scoring if score else replace(scoring, scores="ll")
        needs = guided.needs_of(decoding.guidance)
        judge = Scoring(wanted, baselines, form, model, progress, note, guided_by=needs)
    return Responding(model, decoder, judge, decoding.guidance, score=score)


def _with_transformers(model: LanguageModel, options: DecodingOptions, note: Callable[[str], None]) -> Decoder:
    return make_decoder(
        model,
        _tokenizer(model),
        _sampling(options),
        note=note,
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        step_ends=options.guidance.step_end if options.guidance else (),
        step_tokens=options.guidance.step_tokens if options.guidance else None,
        max_rows=options.batch_size,
        max_memory_gib=options.max_memory,
    )


def _with_vllm(
    model: ModelDescription, options: DecodingOptions, trust_remote_code: bool, tell: Callable[[str], None]
) -> VllmDecoder:
    return VllmDecoder(
        model,
        _tokenizer(model).decode,
        _sampling(options),
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        trust_remote_code=trust_remote_code,
        cache_bytes=None if options.max_memory is None else int(options.max_memory * 2**30),
        tell=tell,
    )


def _tokenizer(model: ModelDescription) -> ResponseTokenizer:
    return ResponseTokenizer(model.tokenizer, model.context_length, model.end_ids, model.vocabulary_size)


def _sampling(options: DecodingOptions) -> Sampling:
    return Sampling(options.temperature, options.top_k, options.top_p, options.min_p, options.seed)


class Generation:
    """Questions through the decoders and, as records, back in the input's order.

    Args:
        force: who answers, by ``Responding``.
        found: the model that workers have; None for one in this process.
        options: how responses are generated.
        form: how a question becomes a prompt.
        score: whether the records are scored afterwards.

    Attributes:
        settings: what the records have under ``tokur.generation``.
        course: how it went, where it was guided.
    """

    def __init__(
        self,
        force: InProcess | Pool,
        found: ModelDescription | None,
        options: DecodingOptions,
        form: PromptForm,
        *,
        score: bool = False,
    ) -> None:
        model = force.pipeline.model if isinstance(force, InProcess) else found
        assert isinstance(model, ModelDescription)
        self.force, self.options, self.form, self.model_name = force, options, form, model.name
        self.tokenizer = _tokenizer(model)
        self.settings: dict[str, Any] = {
            "model": model.name,
            "revision": force.settings["revision"],
            "dtype": force.settings["dtype"],
            "backend": options.backend,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "top_k": options.top_k,
            "min_p": options.min_p,
            "max_new_tokens": options.max_new_tokens,
            "stop": list(options.stop),
            **form.settings(self.tokenizer),
            "seed": options.seed,
            "version": __version__,
        }
        self.settings = with_model_digests(self.settings)
        if options.guidance:
            self.settings |= guided.settings_of(options.guidance, options.samples)
            self.settings["posterior"] = force.settings["posterior"]
        self.course = guided.Course()
        self._has_said = False
        self._score = score
        self._questions: dict[int, tuple[Record, DecodingRequest, list[int]]] = {}  # with the samples to be written
        self._responses: dict[int, dict[int, DecodedResponse]] = {}
        self._ready: dict[int, list[Record | RecordError]] = {}
        self._pausing = False

    @staticmethod
    def settings_of(tokur: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that a response was generated with, and scored with if it was."""
        generation = tokur.get("generation")
        return {
            **(generation if isinstance(generation, dict) else {}),
            **(Scoring.settings_of(tokur) if "run" in tokur else {}),
        }

    def busy(self) -> bool:
        """Return whether this process is answering questions."""
        return isinstance(self.force, InProcess) and bool(self._questions)

    def run(
        self,
        items: Iterable[Record | RecordError | Pause],
        skip_invalid: bool,
        already_written: Callable[[Record], bool] = lambda _: False,
    ) -> Iterator[Record | RecordError | Pause]:
        """Yield a question's responses when they are all there, questions and samples in order.

        Where bad records are not skipped, the first one is the last thing yielded. A pause of the questions is passed
        on when all of them have been answered.
        """
        turn = 0
        requests = self._requests(items, skip_invalid, already_written)
        together = itertools.repeat(max(1, _RESPONSES_TOGETHER // self.options.samples))
        # A decoder refills its batch as responses end; one in this process is given all there is
        if isinstance(self.force, InProcess):
            tasks: Iterable[Iterable[DecodingRequest | None]] = [requests]
        else:
            tasks = windows((Pause() if request is None else request for request in requests), together)
        for _, results in self.force.map(tasks, _lost):
            for result in results:
                if result is not None:
                    self._take(result)
                while turn in self._ready:
                    yield from self._ready.pop(turn)
                    turn += 1
                if self._pausing and not self._questions:
                    yield Pause()
        while turn in self._ready:
            yield from self._ready.pop(turn)
            turn += 1
        if self._questions:
            raise RuntimeError(f"{len(self._questions)} questions were lost")

    def _requests(
        self,
        items: Iterable[Record | RecordError | Pause],
        skip_invalid: bool,
        already_written: Callable[[Record], bool],
    ) -> Iterator[DecodingRequest | None]:
        """Yield what is to be generated, None for a pause; what is bad or written already is ready at once."""
        indices = itertools.count()
        for item in items:
            self._pausing = isinstance(item, Pause)
            if isinstance(item, Pause):
                yield None
                continue
            index = next(indices)
            question = item if isinstance(item, RecordError) else _unanswered(item)
            request = question if isinstance(question, RecordError) else self._request(index, question, already_written)
            if isinstance(request, RecordError):
                self._ready[index] = [request]
                if not skip_invalid:
                    return
            elif not request.samples:
                self._ready[index] = []
            else:
                assert isinstance(question, Record)
                missing = list(request.samples)
                if self.options.guidance:  # they grow together
                    request = replace(request, samples=range(self.options.samples))
                self._questions[index] = question, request, missing
                self._responses[index] = {}
                yield request

    def _request(
        self, index: int, record: Record, already_written: Callable[[Record], bool]
    ) -> DecodingRequest | RecordError:
        try:
            asked = with_ids_of(record, self.model_name)
            prompt, special_tokens = self.form.apply(asked, self.tokenizer)
            if not self._has_said and self.form.is_word_for_word(asked.prompt, self.tokenizer):
                say(_COMMAND, WORD_FOR_WORD)
                self._has_said = True
            prompt_ids = self.tokenizer.tokenize_prompt(prompt, special_tokens=special_tokens)
            if record.id is None:
                record.set("id", question_id(record, prompt_ids))
            samples = [n for n in range(self.options.samples) if not already_written(_numbered(record, n))]
        except RecordError as error:
            return error
        except TokurError as error:
            return record.error(str(error))
        return DecodingRequest(index, str(record.id), prompt_ids, samples)

    def _take(self, result: DecodedResponse | tuple[DecodingRequest, TokurError]) -> None:
        """Note a response; with its last one a question is ready."""
        if isinstance(result, tuple):
            request, error = result
            if request.index in self._questions:
                record, _, _ = self._questions.pop(request.index)
                del self._responses[request.index]
                self._ready[request.index] = [record.error(str(error))]
            return
        if result.index not in self._questions:  # another sample of the question has failed
            return
        self._responses[result.index][result.sample] = result
        record, request, missing = self._questions[result.index]
        if len(self._responses[result.index]) == len(request.samples):
            del self._questions[result.index]
            responses = self._responses.pop(result.index)
            self._ready[result.index] = [self._record(record, request, responses[n]) for n in missing]
            if self.options.guidance:
                self.course.add([r for r in responses.values() if isinstance(r, GuidedResponse)])

    def _record(self, question: Record, request: DecodingRequest, response: DecodedResponse) -> Record:
        record = question.copy()
        record.set("response", response.text)
        record.set(
            "tokur",
            {
                "schema": SCHEMA,
                "model": self.model_name,
                "sample": response.sample,
                "seed": self.options.seed,
                "finish_reason": response.finish_reason,
                "prompt_token_ids": list(request.prompt_ids),
                "token_ids": response.token_ids,
                "generation": self.settings,
                **(guided.fields_of(response, self._score) if isinstance(response, GuidedResponse) else {}),
            },
        )
        return record


def _unanswered(record: Record) -> Record | RecordError:
    """Return a record without what is about the response that it has: labels, and the turn that ends its messages."""
    try:
        has_turn = isinstance(record.get("messages"), list) and record.split_messages()[1] is not None
    except RecordError as error:
        return error
    if not has_turn and record.get("response") is None:
        return record
    labels: dict[str, Any] = {"correct": (bool, type(None)), "quality": (int, float, type(None)), "claims": list}
    record = record.without(*(name for name, types in labels.items() if isinstance(record.get(name), types)))
    if has_turn:
        record.set("messages", record.fields["messages"][:-1])
    return record


def _lost(task: Iterable[DecodingRequest | None]) -> Iterator[tuple[DecodingRequest, TokurError]]:
    """Yield the errors of requests that no worker outlives."""
    reason = f"{DEATHS} workers died while they answered it, or a question beside it: is there too little memory?"
    return ((request, TokurError(reason)) for request in task if request is not None)


def _numbered(question: Record, sample: int) -> Record:
    twin = question.copy()
    twin.set("tokur", {"sample": sample})
    return twin
