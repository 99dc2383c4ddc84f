"""Questions through a model, and its responses as records: what ``generate`` does once a model is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokur_cli import __version__
from tokur_cli.commands.options.model import DecodingOptions, PromptOptions
from tokur_cli.commands.score.pipeline import Scoring
from tokur_cli.commands.shared.arrivals import Pause
from tokur_cli.commands.shared.decoding import make_decoder
from tokur_cli.commands.shared.prompts import PromptForm, question_id, with_ids_of
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.loading.models import LanguageModel, ModelDescription
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.records.writer import RecordWriter


@dataclass(frozen=True)
class Backend:
    """A model to generate with.

    Args:
        model: its name, revision and dtype.
        tokenizer: its tokenizer.
        decoder: generates the responses.
    """

    model: ModelDescription
    tokenizer: ResponseTokenizer
    decoder: Decoder | VllmDecoder


def with_transformers(language_model: LanguageModel, options: DecodingOptions) -> Backend:
    """Return a loaded model with tokur's own decoder."""
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
    return Backend(language_model, tokenizer, decoder)


def with_vllm(
    description: ModelDescription, options: DecodingOptions, *, trust_remote_code: bool, tell: Callable[[str], None]
) -> Backend:
    """Return vLLM with a model that it loads by itself."""
    tokenizer = ResponseTokenizer(description.tokenizer, description.context_length)
    decoder = VllmDecoder(
        description,
        tokenizer.decode,
        _sampling(options),
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        trust_remote_code=trust_remote_code,
        cache_bytes=None if options.max_memory is None else int(options.max_memory * 2**30),
        tell=tell,
    )
    return Backend(description, tokenizer, decoder)


def _sampling(options: DecodingOptions) -> Sampling:
    return Sampling(options.temperature, options.top_k, options.top_p, options.min_p, options.seed)


class Generation:
    """Questions through the decoder and, as records, back in the input's order."""

    def __init__(self, backend: Backend, options: DecodingOptions, prompts: PromptOptions, form: PromptForm) -> None:
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

    @staticmethod
    def settings_of(tokur: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that a response was generated with, and scored with if it was."""
        return {**tokur.get("generation", {}), **(Scoring.settings_of(tokur) if "run" in tokur else {})}

    def busy(self) -> bool:
        """Return whether questions are being answered."""
        return bool(self._questions)

    def run(
        self, items: Iterable[Record | RecordError | Pause], writer: RecordWriter, skip_invalid: bool
    ) -> Iterator[Record | RecordError | Pause]:
        """Yield a question's responses when they are all there, questions and samples in order.

        Where bad records are not skipped, the first one is the last thing yielded. A pause of the questions is passed
        on when all of them have been answered.
        """
        turn = 0
        for result in self.decoder.serve(self._requests(items, writer, skip_invalid)):
            if result is not None:
                self._take(result)
            while turn in self._ready:
                yield from self._ready.pop(turn)
                turn += 1
            if result is None:
                yield Pause()
        while turn in self._ready:
            yield from self._ready.pop(turn)
            turn += 1

    def _requests(
        self, items: Iterable[Record | RecordError | Pause], writer: RecordWriter, skip_invalid: bool
    ) -> Iterator[DecodingRequest | None]:
        """Yield what is to be generated, None for a pause; what is bad or written already is ready at once."""
        indices = itertools.count()
        for item in items:
            if isinstance(item, Pause):
                yield None
                continue
            index = next(indices)
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
