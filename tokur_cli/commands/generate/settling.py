"""``--stop-at``: the samples of a question are drawn until its vote is settled; others take their places in the batch.

The rule is that of ``metrics.adaptive_consistency``. Samples are counted in the order of their numbers, so that which
of them are written depends on their texts alone. Of a question whose vote is open, as many further ones are asked for
as could settle it at the earliest: none of them is drawn in vain, and rows stand idle only where no other question is
left. The prompt is processed again for each such round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.answers.grading import LabelRule
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.metrics.adaptive_consistency import fewest_settled
from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record

_END = object()  # of requests


@dataclass(frozen=True, kw_only=True)
class Poll(DecodingRequest):
    """A request for no more samples than settle the vote."""

    question: Record  # what tells how answers are read
    written: Sequence[Record]  # the responses that are there already, of the samples before the first that may be drawn


@dataclass(frozen=True)
class Polled:
    """The responses that were still missing to a request's question, in the order of their samples."""

    index: int
    responses: list[DecodedResponse]
    drawn: int  # how many were drawn
    settled: bool  # whether they settled the vote; else there are no more to be drawn


@dataclass
class _OpenVote:
    """A question whose vote is open."""

    poll: Poll  # what was asked
    asked: int  # how many samples were asked for, those included that are written already
    answers: list[str | None] = field(default_factory=list)  # of the samples that are counted
    responses: dict[int, DecodedResponse] = field(default_factory=dict)


class UntilSettled:
    """Generates until votes are settled: the leading answer is the most frequent one with probability ``level``."""

    def __init__(self, decoder: Decoder | VllmDecoder, level: float) -> None:
        self._decoder, self._level = decoder, level
        self._rule = LabelRule()
        self._open: dict[int, _OpenVote] = {}
        self._more: deque[Poll] = deque()
        self._ended: deque[Polled] = deque()
        self._equivalence: Equivalence

    def serve(
        self, requests: Iterable[DecodingRequest | None]
    ) -> Iterator[Polled | tuple[DecodingRequest, TokurError] | None]:
        """Yield the responses to each poll, the questions in no particular order; see ``Decoder.serve``."""
        with Equivalence() as self._equivalence:
            for result in self._decoder.serve(self._due(iter(requests))):
                if isinstance(result, tuple):
                    self._open.pop(result[0].index, None)
                    yield result
                elif result is not None and (question := self._open.get(result.index)):
                    question.responses[result.sample] = result
                    self._count(question)
                while self._ended:
                    yield self._ended.popleft()
                if result is None and not self._open:
                    yield None

    def _due(self, source: Iterator[DecodingRequest | None]) -> Iterator[Poll | None]:
        """Yield what is to be drawn, of questions whose vote is open first; None where there is nothing yet."""
        is_exhausted = False
        while self._open or not is_exhausted:
            if not self._more and not is_exhausted:
                poll = next(source, _END)
                is_exhausted = poll is _END
                if isinstance(poll, Poll):
                    question = self._open[poll.index] = _OpenVote(poll, len(poll.written))
                    question.answers += [self._answer(poll, record.response) for record in poll.written]
                    self._count(question)
            if self._more or self._open or not is_exhausted:
                yield self._more.popleft() if self._more else None

    def _count(self, question: _OpenVote) -> None:
        """Count the votes there are; end the question or ask for what could settle it."""
        poll, most = question.poll, len(question.poll.written) + len(question.poll.samples)
        for sample in range(len(question.answers), most):
            if sample not in question.responses:
                break
            question.answers.append(self._answer(poll, question.responses[sample].text))
        counted = len(question.answers)
        settled = fewest_settled(answer_classes(question.answers, self._equivalence), self._level, most)
        if settled <= counted or counted >= most:
            del self._open[poll.index]
            counting = [question.responses[sample] for sample in range(len(poll.written), min(settled, counted))]
            self._ended.append(Polled(poll.index, counting, len(question.responses), settled <= counted))
        elif (end := min(most, settled)) > question.asked:
            self._more.append(replace(poll, samples=range(question.asked, end)))
            question.asked = end

    def _answer(self, poll: Poll, response: str) -> str | None:
        """Return the answer that a response states to a question."""
        record = poll.question.copy()
        record.set("response", response)
        answer = self._rule.answer(record)
        return None if answer is None else answer.text
