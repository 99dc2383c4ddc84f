"""``tokur generate``: questions in, N responses each out, as records that ``score`` takes as they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tokur_cli import __version__
from tokur_cli.commands.baselines.baselines import check_baseline_options
from tokur_cli.commands.options.model import DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, OutputOptions
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.score.pipeline import Scoring, ScoringTask
from tokur_cli.commands.score.windows import score_records, windows
from tokur_cli.commands.shared.decoding import make_decoder
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import describe, load, model_name
from tokur_cli.commands.shared.posterior import check_posterior_options
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.prompts import PromptForm, question_id, with_ids_of
from tokur_cli.commands.workers.pool import DEATHS, InProcess, Pool, workforce
from tokur_cli.commands.workers.worker import Note
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.loading.models import LanguageModel, ModelDescription
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.records.writer import RecordWriter, open_output

COMMAND = "generate"
_RESPONSES_TOGETHER = 128  # handed out to a worker at once


def generate(
    source: InputOptions,
    model: ModelOptions,
    prompts: PromptOptions,
    decoding: DecodingOptions,
    scoring: ScoringOptions | None,
    baselines: BaselineOptions,
    workers: WorkerOptions,
    target: OutputOptions,
) -> None:
    """Generate responses to a stream of questions, and score them too if ``scoring`` is given.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    if decoding.temperature == 0 and decoding.samples > 1:
        raise UsageError(f"-n {decoding.samples} needs --temperature above 0: at 0 all samples are the same")
    if "" in decoding.stop:
        raise UsageError('--stop "" ends every response before it begins: give a text')
    model_of_posterior = check_posterior_options(scoring.posterior) if scoring else None
    check_baseline_options(baselines)
    if scoring and baselines.over == "samples" and target.resume:
        raise UsageError(
            "--over samples compares all samples of a question, --resume generates only those that are missing: leave "
            "--score out and pipe the finished file into tokur score"
        )
    if scoring and decoding.backend == "vllm":
        raise UsageError("--score needs the weights at hand, which vLLM keeps to itself: pipe into tokur score")
    form = PromptForm(prompts)
    items = read_records(source.path, format=source.format, mapping=source.mapping)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    model = replace(model, name=model_name(model, model_of_posterior))
    make = partial(_Responding, model, decoding, prompts, scoring, baselines)
    # The prompts are made here; besides, it is fetched and unpacked once, before the workers all look for it
    found = None if workers.in_process else describe(model, None, Progress(COMMAND))
    with Progress(COMMAND) as progress, workforce(COMMAND, workers, model.device_map, make, progress) as force:
        generation = _Generation(force, found, decoding, prompts, form)
        with open_output(
            target.path,
            resume=target.resume,
            settings={**generation.settings, **force.settings},
            settings_of=lambda tokur: {
                **tokur.get("generation", {}),
                **(Scoring.settings_of(tokur) if "run" in tokur else {}),
            },
            inputs=[source.path],
            identity=lambda record: (record.id, record.sample),
            standard_output=force.standard_output,
        ) as writer:
            lines = count_lines(source.path)
            progress.start(None if lines is None else lines * decoding.samples)
            responses = generation.run(items, writer, invalid.skip)
            if scoring:
                score_records(responses, force, scoring, baselines, writer.write_line, invalid, progress)
            else:
                _write(responses, writer, invalid, progress)
            writer.finish()
    invalid.finish()


def _write(
    responses: Iterable[Record | RecordError], writer: RecordWriter, invalid: InvalidRecords, progress: Progress
) -> None:
    for item in responses:
        if isinstance(item, RecordError):
            invalid.skip_or_raise(item)
        else:
            writer.write(item)
            progress.advance(1, len(item.token_ids or ()))


class _Responding:
    """A model that answers requests and, if ``scoring`` is given, scores what became of them."""

    def __init__(
        self,
        model: ModelOptions,
        decoding: DecodingOptions,
        prompts: PromptOptions,
        scoring: ScoringOptions | None,
        baselines: BaselineOptions,
        progress: Progress,
        note: Note,
    ) -> None:
        self.scoring: Scoring | None = None
        self.model: ModelDescription
        self.decoder: Decoder | VllmDecoder
        if decoding.backend == "vllm":
            self.model, self.decoder = _with_vllm(model, decoding, progress)
        else:
            language_model = load(model, None, progress)
            self.model, self.decoder = language_model, _with_transformers(language_model, decoding)
            if scoring:
                self.scoring = Scoring(scoring, baselines, PromptForm(prompts), language_model, progress, note)
        of_model = {"model": self.model.name, "revision": self.model.revision, "dtype": self.model.dtype}
        self.settings = self.scoring.settings if self.scoring else {**of_model, "version": __version__}

    def answer(self, task: Iterable[DecodingRequest] | ScoringTask) -> Iterator[Any]:
        """Yield responses as they end, or what scoring yields."""
        if isinstance(task, ScoringTask):
            assert self.scoring is not None
            return self.scoring.answer(task)
        return self.decoder.run(task)


def _tokenizer(model: ModelDescription) -> ResponseTokenizer:
    return ResponseTokenizer(model.tokenizer, model.context_length, model.end_ids)


def _with_transformers(language_model: LanguageModel, options: DecodingOptions) -> Decoder:
    return make_decoder(
        language_model,
        _tokenizer(language_model),
        _sampling(options),
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        max_rows=options.batch_size,
        max_memory_gib=options.max_memory,
    )


def _with_vllm(
    model: ModelOptions, options: DecodingOptions, progress: Progress
) -> tuple[ModelDescription, VllmDecoder]:
    description = describe(model, None, progress)
    decoder = VllmDecoder(
        description,
        _tokenizer(description).decode,
        _sampling(options),
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        trust_remote_code=model.trust_remote_code,
        cache_bytes=None if options.max_memory is None else int(options.max_memory * 2**30),
    )
    return description, decoder


def _sampling(options: DecodingOptions) -> Sampling:
    return Sampling(options.temperature, options.top_k, options.top_p, options.min_p, options.seed)


class _Generation:
    """Questions through the decoders and, as records, back in the input's order."""

    def __init__(
        self,
        force: InProcess | Pool,
        found: ModelDescription | None,
        options: DecodingOptions,
        prompts: PromptOptions,
        form: PromptForm,
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
            "template": prompts.template,
            "system": prompts.system,
            "few_shot": prompts.few_shot,
            "seed": options.seed,
            "version": __version__,
        }
        self._questions: dict[int, tuple[Record, DecodingRequest]] = {}
        self._responses: dict[int, dict[int, DecodedResponse]] = {}
        self._ready: dict[int, list[Record | RecordError]] = {}

    def run(
        self, items: Iterable[Record | RecordError], writer: RecordWriter, skip_invalid: bool
    ) -> Iterator[Record | RecordError]:
        """Yield a question's responses when they are all there, questions and samples in order.

        Where bad records are not skipped, the first one is the last thing yielded.
        """
        turn = 0
        requests = self._requests(items, writer, skip_invalid)
        together = itertools.repeat(max(1, _RESPONSES_TOGETHER // self.options.samples))
        # A decoder refills its batch as responses end; one in this process is given all there is
        tasks = [requests] if isinstance(self.force, InProcess) else windows(requests, together)
        for _, results in self.force.map(tasks, _lost):
            for result in results:
                self._take(result)
                while turn in self._ready:
                    yield from self._ready.pop(turn)
                    turn += 1
        while turn in self._ready:
            yield from self._ready.pop(turn)
            turn += 1

    def _requests(
        self, items: Iterable[Record | RecordError], writer: RecordWriter, skip_invalid: bool
    ) -> Iterator[DecodingRequest]:
        """Yield what is to be generated; bad records and what is written already are ready at once."""
        for index, item in enumerate(items):
            request = item if isinstance(item, RecordError) else self._request(index, item, writer)
            if isinstance(request, RecordError):
                self._ready[index] = [request]
                if not skip_invalid:
                    return
            elif not request.samples:
                self._ready[index] = []
            else:
                assert isinstance(item, Record)
                self._questions[index] = item, request
                self._responses[index] = {}
                yield request

    def _request(self, index: int, record: Record, writer: RecordWriter) -> DecodingRequest | RecordError:
        try:
            prompt, special_tokens = self.form.apply(with_ids_of(record, self.model_name), self.tokenizer)
            prompt_ids = self.tokenizer.tokenize_prompt(prompt, special_tokens=special_tokens)
            if record.id is None:
                record.set("id", question_id(record, prompt_ids))
            samples = [n for n in range(self.options.samples) if not writer.already_written(_numbered(record, n))]
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
                record, _ = self._questions.pop(request.index)
                del self._responses[request.index]
                self._ready[request.index] = [record.error(str(error))]
            return
        if result.index not in self._questions:  # another sample of the question has failed
            return
        self._responses[result.index][result.sample] = result
        record, request = self._questions[result.index]
        if len(self._responses[result.index]) == len(request.samples):
            del self._questions[result.index]
            responses = self._responses.pop(result.index)
            self._ready[result.index] = [self._record(record, request, responses[n]) for n in request.samples]

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
            },
        )
        return record


def _lost(task: Iterable[DecodingRequest]) -> Iterator[tuple[DecodingRequest, TokurError]]:
    """Yield the errors of requests that no worker outlives."""
    reason = f"{DEATHS} workers died while they answered it, or a question beside it: is there too little memory?"
    return ((request, TokurError(reason)) for request in task)


def _numbered(question: Record, sample: int) -> Record:
    twin = question.copy()
    twin.set("tokur", {"sample": sample})
    return twin
