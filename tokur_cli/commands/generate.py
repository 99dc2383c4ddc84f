"""``tokur generate``: questions in, N responses each out, as records that ``score`` takes as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tokur_cli import __version__
from tokur_cli.commands.baselines.baselines import check_baseline_options
from tokur_cli.commands.options.model import DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, OutputOptions
from tokur_cli.commands.score.pipeline import Scoring
from tokur_cli.commands.shared.decoding import make_decoder
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.model import describe, load
from tokur_cli.commands.shared.posterior import check_posterior_options
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.prompts import PromptForm, question_id, with_ids_of
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.loading.models import LanguageModel, ModelDescription
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.records.writer import RecordWriter, open_output

COMMAND = "generate"


def generate(
    source: InputOptions,
    model: ModelOptions,
    prompts: PromptOptions,
    decoding: DecodingOptions,
    scoring: ScoringOptions | None,
    baselines: BaselineOptions,
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
    form = PromptForm(prompts)
    items = read_input(source)
    with Progress(COMMAND) as progress:
        if decoding.backend == "vllm":
            if scoring:
                raise UsageError("--score needs the weights at hand, which vLLM keeps to itself: pipe into tokur score")
            backend = _with_vllm(model, decoding, progress)
            scorer = None
        else:
            language_model = load(model, model_of_posterior, progress)
            backend = _with_transformers(language_model, decoding)
            scorer = Scoring(COMMAND, scoring, baselines, form, language_model, progress) if scoring else None
        generation = _Generation(backend, decoding, prompts, form)
        invalid = InvalidRecords(COMMAND, source.skip_invalid)
        with open_output(
            target.path,
            resume=target.resume,
            settings={**generation.settings, **(scorer.settings if scorer else {})},
            settings_of=lambda tokur: {
                **tokur.get("generation", {}),
                **(Scoring.settings_of(tokur) if "run" in tokur else {}),
            },
            inputs=[source.path],
            identity=lambda record: (record.id, record.sample),
        ) as writer:
            lines = count_lines(source.path)
            progress.start(None if lines is None else lines * decoding.samples)
            responses = generation.run(items, writer, invalid.skip)
            if scorer:
                scorer.run(responses, writer.write, invalid)
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


@dataclass(frozen=True)
class _Backend:
    """A model to generate with.

    Args:
        model: its name, revision and dtype.
        tokenizer: its tokenizer.
        decoder: generates the responses.
    """

    model: ModelDescription
    tokenizer: ResponseTokenizer
    decoder: Decoder | VllmDecoder


def _with_transformers(language_model: LanguageModel, options: DecodingOptions) -> _Backend:
    tokenizer = ResponseTokenizer(language_model.tokenizer, language_model.context_length, language_model.end_ids)
    decoder = make_decoder(
        language_model,
        tokenizer,
        _sampling(options),
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        max_rows=options.batch_size,
        max_memory_gib=options.max_memory,
    )
    return _Backend(language_model, tokenizer, decoder)


def _with_vllm(model: ModelOptions, options: DecodingOptions, progress: Progress) -> _Backend:
    description = describe(model, None, progress)
    tokenizer = ResponseTokenizer(description.tokenizer, description.context_length)
    decoder = VllmDecoder(
        description,
        tokenizer.decode,
        _sampling(options),
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        trust_remote_code=model.trust_remote_code,
        cache_bytes=None if options.max_memory is None else int(options.max_memory * 2**30),
        tell=partial(say, COMMAND),
    )
    return _Backend(description, tokenizer, decoder)


def _sampling(options: DecodingOptions) -> Sampling:
    return Sampling(options.temperature, options.top_k, options.top_p, options.min_p, options.seed)


class _Generation:
    """Questions through the decoder and, as records, back in the input's order."""

    def __init__(self, backend: _Backend, options: DecodingOptions, prompts: PromptOptions, form: PromptForm) -> None:
        self.options, self.form, self.model_name = options, form, backend.model.name
        self.tokenizer, self.decoder = backend.tokenizer, backend.decoder
        self.settings: dict[str, Any] = {
            "model": backend.model.name,
            "revision": backend.model.revision,
            "dtype": backend.model.dtype,
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
        for result in self.decoder.run(self._requests(items, writer, skip_invalid)):
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


def _numbered(question: Record, sample: int) -> Record:
    twin = question.copy()
    twin.set("tokur", {"sample": sample})
    return twin
