"""Generation with the mean weights: responses to many prompts in one batch that is refilled as they end.

Where tokens are scored as they are generated, the mean weights choose them, and the draws beside them are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal
from weakref import WeakSet

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tokur_cli.engine.forward.batching import clear_device_cache, is_out_of_memory
from tokur_cli.engine.forward.rope import rescaling
from tokur_cli.engine.generation.cache import SPARE_COLUMNS, KeptText, KVCache, kept_bytes
from tokur_cli.engine.generation.sampling import RandomStream, Sampling, choose_tokens
from tokur_cli.engine.generation.scoring import ScoredTokens, TokenScorer
from tokur_cli.records.errors import TokurError

_FREE_TO_JOIN = 1 / 8  # of the rows: fewer are not worth a pass over prompts
_ENDED_TO_LEAVE = 1 / 16  # of the rows: fewer may run along
_INSTEAD = "try --dtype float32"

FinishReason = Literal["stop", "length", "stop_string", "step"]


@dataclass(frozen=True)
class DecodingRequest:
    """A prompt and the samples wanted of it.

    Args:
        index: the caller's number for it.
        key: what its random numbers depend on, besides the seed and the sample: the question's id.
        prompt_ids: at least one token id.
        samples: numbers of the samples.
        begun: what their responses begin with, if they are to be continued.
        step: which step of theirs this is; None for responses in one go.
        scored: of what is there already, if tokens are scored.
        kept: of what is there already but for the last token; computed where it is None or was given up.
    """

    index: int
    key: str
    prompt_ids: Sequence[int]
    samples: Sequence[int]
    begun: Sequence[int] = ()
    step: int | None = None
    scored: ScoredTokens | None = None
    kept: KeptText | None = None

    @property
    def length(self) -> int:
        """Tokens that are there already."""
        return len(self.prompt_ids) + len(self.begun)

    @property
    def is_kept(self) -> bool:
        """Whether nothing need be computed of what is there."""
        return self.kept is not None and self.kept.layers is not None


@dataclass(frozen=True)
class DecodedResponse:
    """One generated response.

    Args:
        index: its request's.
        sample: its number among the question's.
        token_ids: all generated ids, with an end-of-sequence token and the tokens of a stop string.
        text: what they spell without special tokens, up to a stop string.
        finish_reason: ``stop`` (the model ended it), ``length`` or ``stop_string``; ``step`` where only a step ended.
        scored: of all its tokens, if they are scored.
        kept: of prompt and response but for the last token, where only a step ended.
    """

    index: int
    sample: int
    token_ids: list[int]
    text: str
    finish_reason: FinishReason
    scored: ScoredTokens | None = None
    kept: KeptText | None = None


@dataclass
class _Row:
    """A response under way.

    Args:
        request, sample: what it answers, and as which sample.
        random: its random words.
        limit: tokens that it may have, or have at the end of this step.
        ids: its tokens.
        scored: of these tokens, if they are scored.
        done: whether it has ended.
    """

    request: DecodingRequest
    sample: int
    random: RandomStream
    limit: int
    ids: list[int] = field(default_factory=list)
    scored: ScoredTokens | None = None
    done: bool = False

    @property
    def new_ids(self) -> list[int]:
        return self.ids[len(self.request.begun) :]


class Decoder:
    """Generates responses; each depends on (seed, key, sample) and the prompt alone, up to floating-point ties.

    Args:
        model: the model, in evaluation mode.
        decode: ids to text without special tokens.
        sampling: how tokens are chosen.
        end_ids: the tokens that end a response.
        max_new_tokens: the longest response, its end token included.
        context_length: positions of the model; None for any number.
        stop: strings that end a response where they first appear.
        step_ends: strings that end a step where they first appear in it.
        step_tokens: the longest step; None for any length.
        max_rows: responses generated at once; halved for good when memory does not suffice.
        prefill_tokens: padded positions of the prompts that are processed at once.
        cache_bytes: what is kept of the responses may take, at their longest; None for any amount.
        choose: from logits (B, V), the settings and B random words to B ids: ``choose_tokens``.
        progress: called with how many tokens a step has generated.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        decode: Callable[[Sequence[int]], str],
        sampling: Sampling,
        *,
        end_ids: frozenset[int],
        max_new_tokens: int,
        context_length: int | None = None,
        stop: tuple[str, ...] = (),
        step_ends: tuple[str, ...] = (),
        step_tokens: int | None = None,
        max_rows: int = 64,
        prefill_tokens: int = 4096,
        cache_bytes: int | None = None,
        choose: Callable[[Tensor, Sampling, Sequence[int]], Tensor] = choose_tokens,
        progress: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        self.model, self.decode, self.sampling, self.choose, self.progress = model, decode, sampling, choose, progress
        self.end_ids, self.stop = end_ids, stop
        self.step_ends, self.step_tokens = step_ends, step_tokens
        self.max_new_tokens, self.context_length = max_new_tokens, context_length
        self.max_rows, self.prefill_tokens, self.cache_bytes = max_rows, prefill_tokens, cache_bytes
        self._stop_window = max((len(text.encode()) for text in (*stop, *step_ends)), default=0) + 4
        self._rows: list[_Row] = []
        self._scorer: TokenScorer | None = None
        self._cache = self._new_cache()
        self._kept: WeakSet[KeptText] = WeakSet()
        self._waiting: deque[DecodingRequest] = deque()
        self._rescaling = rescaling(model)
        self._refused: list[tuple[DecodingRequest, TokurError]] = []
        self._exhausted = False  # whether no more requests come

    def score_tokens(self, scorer: TokenScorer) -> None:
        """Have every token be scored as it is generated."""
        self._scorer = scorer
        self._cache = self._new_cache()

    def run(
        self, requests: Iterable[DecodingRequest]
    ) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError]]:
        """Yield responses as they end, in no particular order; see ``serve``."""
        return (result for result in self.serve(requests) if result is not None)

    @torch.inference_mode()
    def serve(
        self, requests: Iterable[DecodingRequest | None]
    ) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError] | None]:
        """Yield responses as they end, in no particular order.

        Args:
            requests: read no further ahead than there is room for; None says that there are no more for the moment.

        Yields:
            Responses; a request with an error where memory does not suffice for one response alone, the model's numbers
            are not finite, or its rotary embedding would change on the way; None where nothing is left to do before
            another request comes.
        """
        source = iter(requests)
        self._exhausted = False
        while True:
            try:
                yield from self._join(source)
                if self._rows:
                    yield from self._step()
                elif self._exhausted:
                    return
                else:
                    yield None
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            else:
                continue
            failed = self._start_over_with_half()
            clear_device_cache(garbage_collection=True)
            if failed is not None:
                message = f"too little memory for a response after a prompt of {len(failed.prompt_ids)} tokens"
                yield failed, TokurError(message)

    def _start_over_with_half(self) -> DecodingRequest | None:
        """Put the unfinished responses back, to be generated again from their beginnings in a smaller batch.

        Returns:
            The request to give up, if even a batch of one response did not fit.
        """
        rows = [row for row in self._rows if not row.done]
        given_up = [text.give_up() for text in list(self._kept)]
        self._rows, self._cache = [], self._new_cache()
        by_request = {id(row.request): row.request for row in rows}
        for request in reversed(by_request.values()):
            samples = [row.sample for row in rows if row.request is request]
            self._waiting.appendleft(replace(request, samples=samples))
        if self.max_rows == 1 and not any(given_up):
            return self._waiting.popleft()
        self.max_rows = max(1, min(self.max_rows, len(rows)) // 2)
        return None

    def _join(
        self, source: Iterator[DecodingRequest | None]
    ) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError]]:
        """Evict ended rows and take in waiting requests, if there is enough of either to be worth it."""
        ended = sum(row.done for row in self._rows)
        free = self.max_rows - (len(self._rows) - ended)
        joining: list[DecodingRequest] = []
        if ended == len(self._rows) or free >= self.max_rows * _FREE_TO_JOIN:
            joining = self._next_requests(source, [row for row in self._rows if not row.done])
            refused, self._refused = self._refused, []
            yield from refused
        if ended and (joining or ended >= len(self._rows) * _ENDED_TO_LEAVE):
            try:
                self._evict()
            except BaseException:  # for lack of memory: nothing is lost then
                self._waiting.extendleft(reversed(joining))
                raise
        kept = [request for request in joining if request.is_kept]
        others = sorted((r for r in joining if not r.is_kept), key=lambda request: -request.length)
        # Before anything can fail for lack of memory: nothing is lost then
        new_rows = self._rows_of(others)
        self._rows += [*self._rows_of(kept), *new_rows]
        if kept:
            texts = [request.kept for request in kept if request.kept is not None]
            self._cache.admit(texts, [len(request.samples) for request in kept])
        if others:
            yield from self._add_tokens(new_rows, self._prefill(others))

    def _rows_of(self, requests: Sequence[DecodingRequest]) -> list[_Row]:
        rows = []
        for request in requests:
            request_alone = replace(request, kept=None)  # which the batch has from now on
            for sample in request.samples:
                random = RandomStream(self.sampling.seed, request.key, sample, request.step)
                limit = self._limit(request)
                if request.step is not None and self.step_tokens is not None:
                    limit = min(limit, len(request.begun) + self.step_tokens)
                rows.append(_Row(request_alone, sample, random, limit, list(request.begun), request.scored))
        return rows

    def _evict(self) -> None:
        """Drop the rows that have ended."""
        order = [index for index, row in enumerate(self._rows) if not row.done]
        self._rows = [self._rows[index] for index in order]
        if order:
            self._cache.select_rows(order)
        else:
            self._cache = self._new_cache()

    def _new_cache(self) -> KVCache:
        draws, stepwise = (self._scorer.draws, self._scorer.stepwise) if self._scorer else (None, False)
        return KVCache(self.model, self.context_length, draws, stepwise=stepwise)

    def _limit(self, request: DecodingRequest) -> int:
        if self.context_length is None:
            return self.max_new_tokens
        return min(self.max_new_tokens, max(1, self.context_length - len(request.prompt_ids)))

    def _next_requests(self, source: Iterator[DecodingRequest | None], kept: list[_Row]) -> list[DecodingRequest]:
        """Take requests in order, as many as there is room for; one too large for the batch is cut."""
        joining: list[DecodingRequest] = []
        count = len(kept)
        longest = max((len(row.request.prompt_ids) + self._limit(row.request) for row in kept), default=0)
        prefilled = widest = 0
        while True:
            if not self._waiting:
                try:
                    following = next(source)
                except StopIteration:
                    self._exhausted = True
                    return joining
                if following is None:
                    return joining
                if (error := self._refusal(following)) is not None:
                    self._refused.append((following, error))
                    continue
                self._waiting.append(following)
            request = self._waiting[0]
            length = len(request.prompt_ids) + self._limit(request)
            room = max(1, min(self.max_rows, self.most_rows(length)))
            if len(request.samples) > room:
                self._waiting.popleft()
                for first in range(0, len(request.samples), room)[::-1]:
                    some = request.samples[first : first + room]
                    self._waiting.appendleft(replace(request, samples=some))
                continue
            count += len(request.samples)
            longest = max(longest, length)
            if not request.is_kept:
                prefilled += 1
                widest = max(widest, request.length)
            fits = count <= min(self.max_rows, self.most_rows(longest))
            if kept:  # they wait meanwhile; without any, those that begin together stay of one length
                fits = fits and prefilled * widest <= self.prefill_tokens
            if not fits and (joining or kept):
                return joining
            joining.append(self._waiting.popleft())

    def _refusal(self, request: DecodingRequest) -> TokurError | None:
        """Return the error of a request whose responses may reach where the rotary embedding changes."""
        length = len(request.prompt_ids) + self._limit(request)
        if self._rescaling is None or length <= self._rescaling.beyond:
            return None
        return TokurError(
            f"prompt and response may have {length:,} tokens; with this model's {self._rescaling.name} RoPE, at most "
            f"{self._rescaling.beyond:,} can be generated: ask for fewer new tokens, or shorten the prompt"
        )

    def most_rows(self, length: int) -> int:
        """Return how many responses of so many tokens, prompts included, may be kept at once."""
        if self.cache_bytes is None:
            return self.max_rows
        of_token, of_text = self._kept_bytes
        return self.cache_bytes // (((length + SPARE_COLUMNS) * of_token + of_text) * self._cache.num_weights)

    @cached_property
    def _kept_bytes(self) -> tuple[int, int]:
        return kept_bytes(self.model)

    def _prefill(self, requests: list[DecodingRequest]) -> Tensor:
        """Process prompts, some at a time, and append rows for their samples: the logits (W, R, V) of what follows."""
        logits = []
        while requests:
            count = max(1, self.prefill_tokens // requests[0].length)  # the longest comes first
            some, requests = requests[:count], requests[count:]
            copies = [len(request.samples) for request in some]
            texts = [[*request.prompt_ids, *request.begun] for request in some]
            kept, following = self._cache.prefill(texts, [len(request.prompt_ids) for request in some])
            self._cache.admit(kept, copies)
            logits.append(following.repeat_interleave(torch.tensor(copies, device=following.device), dim=1))
        return torch.cat(logits, dim=1)

    def _step(self) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError]]:
        """Generate one token per row; rows that have ended run along until the batch is next put together."""
        ids = [max(0, row.ids[-1]) for row in self._rows]
        logits = self._cache.step(ids, [len(row.ids) - 1 for row in self._rows])
        yield from self._add_tokens(self._rows, logits)

    def _add_tokens(
        self, rows: list[_Row], logits: Tensor
    ) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError]]:
        """Choose tokens for these rows, the batch's last ones, from logits (W, R, V)."""
        words = [0 if row.done else row.random.at(len(row.new_ids)) for row in rows]
        tokens = self.choose(logits[0], self.sampling, words).tolist()
        running = [place for place, row in enumerate(rows) if not row.done]
        if self._scorer:
            before = [rows[place].scored for place in running]
            chosen = [max(0, tokens[place]) for place in running]
            some = logits if len(running) == len(rows) else logits[:, running]
            for place, scored in zip(running, self._scorer.score(some, chosen, before), strict=True):
                rows[place].scored = scored
        self.progress(len(running))
        first = len(self._rows) - len(rows)
        for place in running:
            row = rows[place]
            row.ids.append(tokens[place])
            if tokens[place] < 0:
                row.done = True
                count = len(row.request.prompt_ids) + len(row.ids) - 1
                message = f"the model's numbers after {count} tokens are not finite: {_INSTEAD}"
                yield row.request, TokurError(message)
            elif (reason := self._finish_reason(row)) is not None:
                row.done = True
                yield self._response(row, reason, first + place)

    def _finish_reason(self, row: _Row) -> FinishReason | None:
        if row.ids[-1] in self.end_ids:
            return "stop"
        if self.stop and any(stop in self.decode(row.ids[-self._stop_window :]) for stop in self.stop):
            return "stop_string"
        if len(row.ids) >= self._limit(row.request):
            return "length"
        return "step" if self._ends_step(row) else None

    def _ends_step(self, row: _Row) -> bool:
        if row.request.step is None:
            return False
        text = self.decode(row.new_ids[-self._stop_window :])
        return len(row.ids) == row.limit or any(end in text for end in self.step_ends)

    def _response(self, row: _Row, reason: FinishReason, place: int) -> DecodedResponse:
        text = text_of(self.decode, row.ids, reason, self.stop)
        kept = self._cache.take(place) if reason == "step" else None
        if kept is not None:
            self._kept.add(kept)
        return DecodedResponse(row.request.index, row.sample, list(row.ids), text, reason, row.scored, kept)


def text_of(
    decode: Callable[[Sequence[int]], str], ids: Sequence[int], reason: FinishReason, stop: Sequence[str]
) -> str:
    """Return a response's text, without what ended it: an end token, special or not, or one of the stop strings."""
    text = decode(ids[:-1] if reason == "stop" else ids)
    return _text_before(text, stop if reason == "stop_string" else ())


def _text_before(text: str, stop: Sequence[str]) -> str:
    """Return the text up to where the first of the stop strings begins, all of it if there is none."""
    return text[: min((place for place in map(text.find, stop) if place >= 0), default=len(text))]
