"""Generation with the mean weights: responses to many prompts in one batch that is refilled as they end.

Where tokens are scored as they are generated, the mean weights choose them, and the draws beside them are read.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Literal

import torch
from accelerate.utils.memory import clear_device_cache
from torch import Tensor
from transformers import PreTrainedModel

from tokur_cli.engine.forward.batching import is_out_of_memory
from tokur_cli.engine.forward.rope import rescaled_beyond
from tokur_cli.engine.generation.cache import KeptText, KVCache, columns_for
from tokur_cli.engine.generation.sampling import Sampling, choose_tokens, random_word
from tokur_cli.engine.scoring.scorer import Quantities, Scorer, identity_of
from tokur_cli.records.errors import TokurError

_FREE_TO_JOIN = 1 / 8  # of the rows: fewer are not worth a pass over prompts
_ENDED_TO_STAY = 1 / 64  # of the rows: so many may run along
_SCORED_TO_STAY = 1 / 16  # where others of the 1 + M rows of a response have to be moved
_PREFILL_TOKENS, _CUDA_PREFILL_TOKENS = 1024, 16384  # padded positions of the prompts that are processed at once
_END = object()  # of requests

FinishReason = Literal["stop", "length", "stop_string", "step"]


@dataclass
class DecodedResponse:
    """One generated response."""

    index: int  # its request's
    sample: int  # its number among the question's
    token_ids: list[int]  # all generated ids, with an end-of-sequence token and the tokens of a stop string
    text: str  # what they spell without special tokens, up to a stop string
    # ``stop`` (the model ended it), ``length`` or ``stop_string``; ``step`` where only a step ended
    finish_reason: FinishReason
    # Of each token what ``Scorer.score_next`` gives, if they are scored
    scored: list[Quantities] = field(default_factory=list)
    # Of prompt and response but for the last token, where only a step ended; None once the response goes on
    kept: KeptText | None = None
    step_start: int = 0  # the token that its last step begins with


@dataclass(frozen=True)
class DecodingRequest:
    """A prompt and the samples wanted of it."""

    index: int  # the caller's number for it
    key: str  # what its random numbers depend on, besides the seed and the sample: the question's id
    prompt_ids: Sequence[int]  # at least one token id
    samples: Sequence[int]  # numbers of the samples
    # The response that is to be continued
    begun: DecodedResponse = field(default_factory=lambda: DecodedResponse(-1, -1, [], "", "step"))
    step: int | None = None  # which step of theirs this is; None for responses in one go


Result = DecodedResponse | tuple[DecodingRequest, TokurError]
"""A response, or a request that cannot be answered and why."""


@dataclass(eq=False)
class _Row:
    """A response under way."""

    request: DecodingRequest  # what it answers
    sample: int  # and as which sample
    done: bool = False  # whether it has ended

    def __post_init__(self) -> None:
        begun = self.request.begun
        self.ids, self.scored = [*begun.token_ids], [*begun.scored]  # its tokens, and their scores if they are scored
        self.prompt = begun.kept.prompt if begun.kept else None  # what is kept of what its steps began with

    @property
    def new_ids(self) -> list[int]:
        return self.ids[len(self.request.begun.token_ids) :]


@dataclass(eq=False)
class Decoder:
    """Generates responses; each depends on (seed, key, sample) and the prompt alone, up to floating-point ties."""

    model: PreTrainedModel  # the model, in evaluation mode
    decode: Callable[[Sequence[int]], str]  # ids to text without special tokens
    sampling: Sampling  # how tokens are chosen
    _: KW_ONLY
    end_ids: frozenset[int]  # the tokens that end a response
    max_new_tokens: int  # the longest response, its end token included
    context_length: int | None = None  # positions of the model; None for any number
    stop: tuple[str, ...] = ()  # strings that end a response where they first appear
    step_ends: tuple[str, ...] = ()  # strings that end a step where they first appear in it
    step_tokens: int | None = None  # the longest step; None for any length
    max_rows: int = 64  # responses generated at once; half of those there are, from when memory does not suffice
    cache_bytes: int | None = None  # what is kept of the responses may take, at their longest; None for any amount
    progress: Callable[[int], None] = lambda tokens: None  # called with how many tokens a step has generated
    scorer: Scorer | None = None  # scores every token as it is generated; None for no scores

    def __post_init__(self) -> None:
        self._stop_window = max((len(text.encode()) for text in (*self.stop, *self.step_ends)), default=0) + 4
        self._longest = rescaled_beyond(self.model)

    @torch.inference_mode()
    def serve(self, requests: Iterable[DecodingRequest | None]) -> Iterator[Result | None]:
        """Yield responses as they end, in no particular order.

        Args:
            requests: read no further ahead than there is room for; None says that there are no more for the moment.

        Yields:
            Responses; a request with an error where memory does not suffice for one response alone, the model's numbers
            are not finite, or its rotary embedding would change on the way; None where nothing is left to do before
            another request comes.
        """
        source = iter(requests)
        self._exhausted = False  # whether no more requests come
        self._rows: list[_Row] = []
        self._waiting: deque[DecodingRequest] = deque()
        self._cache.clear()
        while self._rows or not self._exhausted or self._waiting:
            try:
                yield from self._join(source)
                if not all(row.done for row in self._rows):  # rows that have ended run along until they are evicted
                    ids = [max(0, row.ids[-1]) for row in self._rows]
                    logits = self._cache.step(ids, [len(row.ids) - 1 for row in self._rows])
                    yield from self._add_tokens(0, self._rows, logits)
                elif not self._rows and not self._exhausted:
                    yield None
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            yield from self._start_over_with_half()
            clear_device_cache(garbage_collection=True)

    @cached_property
    def _cache(self) -> KVCache:
        return KVCache(self.model, self.context_length, self.scorer)

    def _start_over_with_half(self) -> Iterator[Result]:
        """Put unfinished responses back, for a smaller batch; give one up that did not fit into a batch of its own."""
        rows = [row for row in self._rows if not row.done]
        count, self._rows = len(self._rows), []
        self._cache.clear()
        by_request = {id(row.request): row.request for row in rows}
        for request in reversed(by_request.values()):
            samples = [row.sample for row in rows if row.request is request]
            self._waiting.appendleft(replace(request, samples=samples))
        if self.max_rows == 1:
            failed = self._waiting.popleft()
            message = f"too little memory for a response after a prompt of {len(failed.prompt_ids)} tokens"
            yield failed, TokurError(message)
        self.max_rows = max(1, min(self.max_rows, count) // 2)

    def _join(self, source: Iterator[DecodingRequest | None]) -> Iterator[Result]:
        """Evict ended rows and take in waiting requests, if there is enough of either to be worth it."""
        running = [index for index, row in enumerate(self._rows) if not row.done]
        ended = len(self._rows) - len(running)
        to_stay = len(self._rows) * (_SCORED_TO_STAY if self.scorer else _ENDED_TO_STAY)
        if ended > to_stay or (ended and self._cache.is_full):
            # The last of those that run take the places of those that have ended
            last = [index for index in running if index >= len(running)]
            order = [last.pop() if row.done else index for index, row in enumerate(self._rows[: len(running)])]
            self._rows = [self._rows[index] for index in order]
            self._cache.select_rows(order)
        if self._rows and self.max_rows - len(self._rows) < self.max_rows * _FREE_TO_JOIN:
            return
        joining = yield from self._next_requests(source)
        if not joining:
            return
        others = [request for request in joining if not request.begun.kept]
        others.sort(key=lambda request: -len(request.prompt_ids) - len(request.begun.token_ids))
        continued = [request for request in joining if request.begun.kept]
        # Before anything can fail for lack of memory: nothing is lost then
        self._rows += [_Row(request, sample) for request in (*continued, *others) for sample in request.samples]
        self._cache.reserve(len(self._rows), max(self._length(row.request) for row in self._rows))
        kept = [request.begun.kept for request in continued if request.begun.kept]
        self._cache.admit(kept, [len(request.samples) for request in continued])
        for request in continued:
            request.begun.kept = None  # the batch has it from now on
        yield from self._prefill(others)

    def _limit(self, request: DecodingRequest) -> int:
        return min(self.max_new_tokens, (self.context_length or sys.maxsize) - len(request.prompt_ids))

    def _length(self, request: DecodingRequest) -> int:
        """Return how many tokens a response may have, its prompt included."""
        return len(request.prompt_ids) + self._limit(request)

    def _next_requests(
        self, source: Iterator[DecodingRequest | None]
    ) -> Generator[Result, None, list[DecodingRequest]]:
        """Return requests in order, as many as there is room for, a large one cut; yield what is refused."""
        joining: list[DecodingRequest] = []
        count = len(self._rows)
        longest = max((self._length(row.request) for row in self._rows), default=0)
        while True:
            if not self._waiting:
                following = next(source, _END)
                self._exhausted = following is _END
                if not isinstance(following, DecodingRequest):
                    return joining
                if self._length(following) > self._longest:
                    message = (
                        f"prompt and response may have {self._length(following):,} tokens; with this model's RoPE, "
                        f"at most {self._longest:,}: ask for fewer new tokens, or shorten the prompt"
                    )
                    yield following, TokurError(message)
                    continue
                self._waiting.append(following)
            request = self._waiting[0]
            longest = max(longest, self._length(request))
            room = max(1, min(self.max_rows, self.most_rows(longest)))
            if count and count + len(request.samples) > room:
                return joining
            self._waiting.popleft()
            if len(request.samples) > room:
                self._waiting.appendleft(replace(request, samples=request.samples[room:]))
                request = replace(request, samples=request.samples[:room])
            count += len(request.samples)
            joining.append(request)

    def most_rows(self, length: int) -> int:
        """Return how many responses of so many tokens, prompts included, may be kept at once."""
        if self.cache_bytes is None:
            return sys.maxsize
        of_token, of_text = self._cache.kept_bytes
        return self.cache_bytes // (columns_for(length) * of_token + of_text)

    def _prefill(self, requests: list[DecodingRequest]) -> Iterator[Result]:
        """Process prompts, some at a time, and begin the responses that the last rows are for."""
        first = len(self._rows) - sum(len(request.samples) for request in requests)
        positions = _CUDA_PREFILL_TOKENS if self._cache.device.type == "cuda" else _PREFILL_TOKENS
        while requests:
            texts = [identity_of(request.prompt_ids, request.begun.token_ids) for request in requests]
            count = max(1, positions // len(texts[0]))  # the longest comes first
            some, requests = requests[:count], requests[count:]
            copies = [len(request.samples) for request in some]
            kept, following = self._cache.prefill(texts[:count])
            self._cache.admit(kept, copies)
            begun = [text for text, samples in zip(kept, copies, strict=True) for _ in range(samples)]
            rows = self._rows[first : first + len(begun)]
            for row, text in zip(rows, begun, strict=True):
                row.prompt = text if row.request.step is not None else None
            logits = following.repeat_interleave(torch.tensor(copies, device=following.device), dim=1)
            yield from self._add_tokens(first, rows, logits)
            first += len(rows)

    def _add_tokens(self, first: int, rows: list[_Row], logits: Tensor) -> Iterator[Result]:
        """Choose tokens for these rows, of which one is the batch's ``first``, from logits (W, R, V)."""
        seed = self.sampling.seed
        words = [random_word(seed, r.request.key, r.sample, len(r.new_ids), r.request.step) for r in rows]
        tokens = choose_tokens(logits[0], self.sampling, words).tolist()
        running = [place for place, row in enumerate(rows) if not row.done]
        if self.scorer:
            some = logits if len(running) == len(rows) else logits[:, running]
            chosen = torch.tensor([max(0, tokens[place]) for place in running], device=logits.device)
            found = self.scorer.score_next(some, chosen, [rows[place].scored for place in running])
            for place, quantities in zip(running, found, strict=True):
                rows[place].scored.append(quantities)
        self.progress(len(running))
        for place in running:
            row = rows[place]
            row.ids.append(tokens[place])
            if tokens[place] < 0:
                row.done = True
                count = len(row.request.prompt_ids) + len(row.ids) - 1
                message = f"the model's numbers after {count} tokens are not finite: try --dtype float32"
                yield row.request, TokurError(message)
            elif (reason := self._finish_reason(row)) is not None:
                text = text_of(self.decode, row.ids, reason, self.stop)
                kept = self._cache.take(first + place, row.prompt) if reason == "step" else None
                row.done = True  # only now: where memory was too little for the step, it starts over
                begun = len(row.request.begun.token_ids)
                yield DecodedResponse(row.request.index, row.sample, row.ids, text, reason, row.scored, kept, begun)

    def _finish_reason(self, row: _Row) -> FinishReason | None:
        if row.ids[-1] in self.end_ids:
            return "stop"
        if any(stop in self.decode(row.ids[-self._stop_window :]) for stop in self.stop):
            return "stop_string"
        if len(row.ids) >= self._limit(row.request):
            return "length"
        if row.request.step is None:
            return None
        new_ids = row.new_ids
        text = self.decode(new_ids[-self._stop_window :])
        return "step" if len(new_ids) == self.step_tokens or any(end in text for end in self.step_ends) else None


def text_of(
    decode: Callable[[Sequence[int]], str], ids: Sequence[int], reason: FinishReason, stop: Sequence[str]
) -> str:
    """Return a response's text, without what ended it: an end token, special or not, or one of the stop strings."""
    text = decode(ids[:-1] if reason == "stop" else ids)
    places = [text.find(string) for string in stop] if reason == "stop_string" else []
    return text[: min((place for place in places if place >= 0), default=len(text))]
