"""Generation with the mean weights: responses to many prompts in one batch that is refilled as they end.

On a GPU a step is asked for before the tokens of the one before it are read, so that it never waits for what is done
with them here: rows run along for a step after they have ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tokur_cli.engine.body import input_device
from tokur_cli.engine.generation.cache import RollingCache, kept_bytes
from tokur_cli.engine.generation.paged import PagedCache
from tokur_cli.engine.generation.sampling import NUCLEUS, UNSEEN, RandomStream, Sampling, choose_tokens
from tokur_cli.engine.memory import clear_device_cache, is_out_of_memory
from tokur_cli.engine.rotary import rescaling
from tokur_cli.engine.transfers import Arriving, sent
from tokur_cli.engine.uncertainty.packing import KeysAndValues, longest_packed
from tokur_cli.records.errors import TokurError

_FREE_TO_JOIN = 1 / 8  # of the rows: fewer are not worth a pass over prompts
_ENDED_TO_LEAVE = 1 / 16  # of the rows: fewer may run along
_AHEAD = {"cuda": 1}  # steps whose tokens are not read yet when the next one is asked for
_WIDER = 4  # times as many tokens are looked at, once a nucleus has been found to have more
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
        round: which step of theirs this is; None for responses in one go.
        states: keys and values of what is there, but for the last token's, part after part, as ``PagedCache.resume``
            takes them; empty if they are to be computed.
    """

    index: int
    key: str
    prompt_ids: Sequence[int]
    samples: Sequence[int]
    begun: Sequence[int] = ()
    round: int | None = None
    states: Sequence[KeysAndValues] = ()

    @property
    def length(self) -> int:
        """Tokens that are there already."""
        return len(self.prompt_ids) + len(self.begun)


@dataclass(frozen=True)
class DecodedResponse:
    """One generated response.

    Args:
        index: its request's.
        sample: its number among the question's.
        token_ids: all generated ids, with an end-of-sequence token and the tokens of a stop string.
        text: what they spell without special tokens, up to a stop string.
        finish_reason: ``stop`` (the model ended it), ``length`` or ``stop_string``; ``step`` where only a step ended.
    """

    index: int
    sample: int
    token_ids: list[int]
    text: str
    finish_reason: FinishReason


@dataclass
class _Row:
    """A response under way: a row of the batch.

    Args:
        request, sample: what it answers, and as which sample.
        random: its random words.
        most: new tokens that it may have.
        ids: its tokens, as far as they are read.
        asked: new tokens that were asked for, read or not.
        done: whether it has ended.
    """

    request: DecodingRequest
    sample: int
    random: RandomStream
    most: int
    ids: list[int] = field(default_factory=list)
    asked: int = 0
    done: bool = False

    def __post_init__(self) -> None:
        self.ids += self.request.begun

    def next_word(self) -> int:
        """Return the random word of the next token, which is asked for."""
        self.asked += 1
        return 0 if self.done else self.random.at(self.asked - 1)


class _Asked(NamedTuple):
    """Tokens (R,) that were asked for, one for each of these rows."""

    rows: list[_Row]
    tokens: Arriving


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
        choose: from logits (B, V), the settings, B random words and the size of a nucleus to B ids: ``choose_tokens``.
        told: called with how many tokens a step has generated.
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
        choose: Callable[[Tensor, Sampling, Sequence[int], int], Tensor] = choose_tokens,
        told: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        self.model, self.decode, self.sampling, self.choose, self.told = model, decode, sampling, choose, told
        self.end_ids, self.stop = end_ids, stop
        self.step_ends, self.step_tokens = step_ends, step_tokens
        self.max_new_tokens, self.context_length = max_new_tokens, context_length
        self.max_rows, self.prefill_tokens, self.cache_bytes = max_rows, prefill_tokens, cache_bytes
        self.device = input_device(model)
        self._stop_window = max((len(text.encode()) for text in (*stop, *step_ends)), default=0) + 4
        self._rows: list[_Row] = []
        kind = PagedCache if longest_packed(model) is None else RollingCache
        self._new_cache: Callable[[], PagedCache | RollingCache] = partial(kind, model, context_length)
        self._ahead = _AHEAD.get(self.device.type, 0)
        self._nucleus = NUCLEUS
        self._last: Tensor  # (R,) the rows' last tokens
        self._asked: deque[_Asked]
        self._forget()
        self._waiting: deque[DecodingRequest] = deque()
        self._rescaling = rescaling(model)
        self._refused: list[tuple[DecodingRequest, TokurError]] = []
        self._exhausted = False  # whether no more requests come

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
            yield from self._take_tokens(0)  # what was asked for before is there, and may have ended responses
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
        is_in_vain = bool(self._rows) and not rows  # nobody needed the step that did not fit
        self._rows = []
        self._forget()
        self._put_back(rows)
        if is_in_vain:
            return None
        if self.max_rows == 1:
            return self._waiting.popleft()
        self.max_rows = max(1, min(self.max_rows, len(rows)) // 2)
        return None

    def _put_back(self, rows: Sequence[_Row]) -> None:
        """Have responses be generated again, from where their requests begin."""
        by_request = {id(row.request): row.request for row in rows}
        for request in reversed(by_request.values()):
            samples = [row.sample for row in rows if row.request is request]
            self._waiting.appendleft(replace(request, samples=samples))

    def _join(
        self, source: Iterator[DecodingRequest | None]
    ) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError]]:
        """Drop ended rows and take in waiting requests, if there is enough of either to be worth it."""
        ended = sum(row.done for row in self._rows)
        free = self.max_rows - (len(self._rows) - ended)
        joining: list[DecodingRequest] = []
        if ended == len(self._rows) or free >= self.max_rows * _FREE_TO_JOIN:
            joining = self._admit(source, [row for row in self._rows if not row.done])
            refused, self._refused = self._refused, []
            yield from refused
        if ended and (joining or ended >= len(self._rows) * _ENDED_TO_LEAVE):
            try:
                self._leave()
            except BaseException:  # for lack of memory: nothing is lost then
                self._waiting.extendleft(reversed(joining))
                raise
        if not joining:
            return
        joining.sort(key=lambda request: -request.length)
        resumed = [request for request in joining if self._is_resumed(request)]
        prefilled = [request for request in joining if not self._is_resumed(request)]
        resumed_rows, new_rows = self._rows_of(resumed), self._rows_of(prefilled)
        # Before anything can fail for lack of memory: nothing is lost then. Those that wait for tokens stay as many
        self._rows = [*self._rows, *resumed_rows, *new_rows]
        if resumed:
            assert isinstance(self._cache, PagedCache)
            self._cache.resume([request.states for request in resumed], [len(request.samples) for request in resumed])
            last = np.array([row.ids[-1] for row in resumed_rows])
            self._last = torch.cat([self._last, sent(last, self.device)])
        if prefilled:
            logits = self._prefill(prefilled)
            prompts = np.repeat(np.arange(len(prefilled)), [len(request.samples) for request in prefilled])
            self._ask_for_tokens(new_rows, logits[sent(prompts, logits.device)])
            yield from self._take_tokens(self._ahead)

    def _is_resumed(self, request: DecodingRequest) -> bool:
        return bool(request.states) and isinstance(self._cache, PagedCache)

    def _rows_of(self, requests: Sequence[DecodingRequest]) -> list[_Row]:
        return [
            _Row(r, sample, RandomStream(self.sampling.seed, r.key, sample, r.round), self._most(r))
            for r in requests
            for sample in r.samples
        ]

    def _leave(self) -> None:
        """Drop the rows that have ended."""
        order = [index for index, row in enumerate(self._rows) if not row.done]
        self._rows = [self._rows[index] for index in order]
        if order:
            self._cache.gather(order)
            self._last = self._last[sent(np.array(order), self._last.device)]
        else:
            self._forget()

    def _forget(self) -> None:
        self._cache = self._new_cache()
        self._last = torch.zeros(0, dtype=torch.long, device=self.device)
        self._asked = deque()

    def _limit(self, request: DecodingRequest) -> int:
        if self.context_length is None:
            return self.max_new_tokens
        return min(self.max_new_tokens, self.context_length - len(request.prompt_ids))

    def _most(self, request: DecodingRequest) -> int:
        """Return how many tokens may be new in a response, or in the step of it that is asked for."""
        most = self._limit(request) - len(request.begun)
        if request.round is not None and self.step_tokens is not None:
            most = min(most, self.step_tokens)
        return max(1, most)

    def _admit(self, source: Iterator[DecodingRequest | None], kept: list[_Row]) -> list[DecodingRequest]:
        """Take requests in order, as many as there is room for; one too large for the batch is cut in parts."""
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
                    part = request.samples[first : first + room]
                    self._waiting.appendleft(replace(request, samples=part))
                continue
            count += len(request.samples)
            longest = max(longest, length)
            prefilled += not self._is_resumed(request)
            widest = widest if self._is_resumed(request) else max(widest, request.length)
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
        columns = -(-length // self._cache.width) * self._cache.width
        return self.cache_bytes // (columns * of_token + of_text)

    @cached_property
    def _kept_bytes(self) -> tuple[int, int]:
        return kept_bytes(self.model)

    def _prefill(self, requests: list[DecodingRequest]) -> Tensor:
        """Process prompts, in parts, and append rows for their samples: the logits (B, V) of what follows."""
        logits = []
        while requests:
            count = max(1, self.prefill_tokens // requests[0].length)  # the longest comes first
            begun = [[*request.prompt_ids, *request.begun] for request in requests[:count]]
            logits.append(self._cache.join(begun, [len(request.samples) for request in requests[:count]]))
            requests = requests[count:]
        return torch.cat(logits)

    def _step(self) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError]]:
        """Generate one token per row; rows that have ended run along until the batch is next put together."""
        ahead = 0
        if any(row.asked < row.most for row in self._rows if not row.done):
            last, self._last = self._last, self._last[:0]
            self._ask_for_tokens(self._rows, self._cache.step(last))
            ahead = self._ahead
        yield from self._take_tokens(ahead)

    def _ask_for_tokens(self, rows: list[_Row], logits: Tensor) -> None:
        """Choose tokens for these rows, the batch's last ones, from logits (B, V)."""
        chosen = self.choose(logits, self.sampling, [row.next_word() for row in rows], self._nucleus)
        self._last = torch.cat([self._last, chosen.clamp(min=0).to(self.device)])
        self._asked.append(_Asked(rows, Arriving(chosen)))

    def _take_tokens(self, ahead: int) -> Iterator[DecodedResponse | tuple[DecodingRequest, TokurError]]:
        """Add tokens that were asked for to their rows, all but the last ``ahead`` times."""
        unseen: list[_Row] = []
        while len(self._asked) > ahead:
            rows, tokens = self._asked.popleft()
            running = [pair for pair in zip(rows, tokens.wait().tolist(), strict=True) if not pair[0].done]
            self.told(len(running))
            for row, token in running:
                row.ids.append(token)
                if token == UNSEEN:
                    row.done = True
                    unseen.append(row)
                elif token < 0:
                    row.done = True
                    count = len(row.request.prompt_ids) + len(row.ids) - 1
                    message = f"the model's numbers after {count} tokens are not finite: {_INSTEAD}"
                    yield row.request, TokurError(message)
                elif (response := self._ended(row)) is not None:
                    row.done = True
                    yield response
        if unseen:
            self._nucleus *= _WIDER
            self._put_back(unseen)

    def _ended(self, row: _Row) -> DecodedResponse | None:
        reason: FinishReason | None = None
        if row.ids[-1] in self.end_ids:
            reason = "stop"
        elif self.stop and any(stop in self.decode(row.ids[-self._stop_window :]) for stop in self.stop):
            reason = "stop_string"
        elif len(row.ids) >= self._limit(row.request):
            reason = "length"
        elif self._ends_step(row):
            reason = "step"
        if reason is None:
            return None
        text = text_of(self.decode, row.ids, reason, self.stop)
        return DecodedResponse(row.request.index, row.sample, list(row.ids), text, reason)

    def _ends_step(self, row: _Row) -> bool:
        if row.request.round is None:
            return False
        step = row.ids[len(row.request.begun) :]
        text = self.decode(step[-self._stop_window :])
        return len(step) == self.step_tokens or any(end in text for end in self.step_ends)


def text_of(
    decode: Callable[[Sequence[int]], str], ids: Sequence[int], reason: FinishReason, stop: Sequence[str]
) -> str:
    """Return a response's text, without what ended it: an end token, special or not, or one of the stop strings."""
    text = decode(ids[:-1] if reason == "stop" else ids)
    return _text_before(text, stop if reason == "stop_string" else ())


def _text_before(text: str, stop: Sequence[str]) -> str:
    """Return the text up to where the first of the stop strings begins, all of it if there is none."""
    return text[: min((place for place in map(text.find, stop) if place >= 0), default=len(text))]
