"""``--stop-at``: the samples of a question are drawn until its vote is settled; others take their places in the batch.

The rule is that of ``metrics.stopping``. Samples are counted in the order of their numbers, so that which of them are
written depends on their texts alone. Of a question whose vote is open, as many further ones are asked for as could
settle it at the earliest: none of them is drawn in vain, and rows stand idle only where no other question is left. The
prompt is processed again for each such round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.answers.judging import LabelRule
from tokur_cli.commands.shared.errors import say
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.metrics.stopping import fewest_settled
from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record


@dataclass(frozen=True, kw_only=True)
class Poll(DecodingRequest):
    """A request for no more samples than settle the vote.

    Args:
        question: what tells how answers are read.
        written: the responses that are there already, of the samples before the first that may be drawn.
    """

    question: Record
    written: Sequence[str]


@dataclass(frozen=True)
class Polled:
    """The responses that were still missing to a question, in the order of their samples.

    Args:
        index: its request's.
        settled: whether they settled the vote; else there are no more to be drawn.
    """

    index: int
    responses: list[DecodedResponse]
    settled: bool


@dataclass
class _Open:
    """A question whose vote is open."""

    poll: Poll
    asked: int
    answers: list[str | None] = field(default_factory=list)  # of the first samples, as far as all are there
    responses: dict[int, DecodedResponse] = field(default_factory=dict)

    def text(self, sample: int) -> str | None:
        """Return a sample's response, if it is there."""
        if sample < len(self.poll.written):
            return self.poll.written[sample]
        response = self.responses.get(sample)
        return None if response is None else response.text


class UntilSettled:
    """Generates until votes are settled.

    Args:
        decoder: generates.
        level: how surely the leading answer is to be the most frequent one.
    """

    def __init__(self, decoder: Decoder | VllmDecoder, level: float) -> None:
        self._decoder, self._level = decoder, level
        self._rule = LabelRule()
        self._open: dict[int, _Open] = {}
        self._more: deque[Poll] = deque()
        self._ended: list[Polled] = []
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
                yield from self._take_ended()
                if result is None and not self._open:
                    yield None
            yield from self._take_ended()

    def _due(self, source: Iterator[DecodingRequest | None]) -> Iterator[Poll | None]:
        """Yield what is to be drawn, of questions whose vote is open first; None where there is nothing yet."""
        is_exhausted = False
        while self._open or not is_exhausted:
            if self._more:
                yield self._more.popleft()
                continue
            poll = None
            if not is_exhausted:
                try:
                    poll = next(source)
                except StopIteration:
                    is_exhausted = True
                    continue
            if poll is not None:
                assert isinstance(poll, Poll)
                question = self._open[poll.index] = _Open(poll, len(poll.written))
                self._count(question)
            if not self._more:
                yield None

    def _take_ended(self) -> Iterator[Polled]:
        ended, self._ended = self._ended, []
        return iter(ended)

    def _count(self, question: _Open) -> None:
        """Count the votes there are; end the question or ask for what could settle it."""
        poll, answers = question.poll, question.answers
        most = len(poll.written) + len(poll.samples)
        while True:
            needed = fewest_settled(
                [-1 if label is None else label for label in answer_classes(answers, self._equivalence).labels],
                self._level,
            )
            is_settled = needed <= len(answers)
            if is_settled or len(answers) == most:
                del self._open[poll.index]
                samples = range(len(poll.written), len(answers))
                self._ended.append(Polled(poll.index, [question.responses[n] for n in samples], is_settled))
                return
            if (text := question.text(len(answers))) is None:
                break
            twin = poll.question.copy()
            twin.set("response", text)
            answer = self._rule.answer(twin)
            answers.append(None if answer is None else answer.text)
        needed = min(needed, most)
        if needed > question.asked:
            self._more.append(replace(poll, samples=range(question.asked, needed)))
            question.asked = needed


class Savings:
    """How much was drawn, beside all samples of all questions.

    Args:
        samples: N.
    """

    def __init__(self, samples: int) -> None:
        self._most = samples
        self._questions = self._settled = self._samples = self._tokens = 0
        self._of_all = 0.0

    def add(self, polled: Polled, written: int) -> None:
        """Count what was drawn to a question, which had so many responses already."""
        if not (drawn := len(polled.responses)):
            return
        tokens = sum(len(response.token_ids) for response in polled.responses)
        self._questions += 1
        self._settled += polled.settled
        self._samples += drawn
        self._tokens += tokens
        self._of_all += tokens / drawn * (self._most - written)

    def tell(self, command: str) -> None:
        """Say on standard error how many votes were settled, and what that saved."""
        if not self._questions:
            return
        say(
            command,
            f"{self._settled:,} of {self._questions:,} questions settled; drew {self._samples:,} samples with "
            f"{self._tokens:,} tokens, {self._tokens / self._of_all:.1%} of about {self._of_all:,.0f} for all "
            f"{self._most} samples of each",
        )
