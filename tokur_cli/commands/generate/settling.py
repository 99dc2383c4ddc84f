"""``--stop-at``: the samples of a question are drawn until its vote is settled; others take their places in the batch.

The rule is that of ``metrics.stopping``. Samples are counted in the order of their numbers, so that which of them are
written depends on their texts alone. Of a question whose vote is open, as many further ones are asked for as could
settle it at the earliest: none of them is drawn in vain, and rows stand idle only where no other question is left. The
prompt is processed again for each such round.

Where votes are weighted by ``p_correct``, the responses of a round are scored once all of them are there, and beside no
others: their numbers, and with them what is decided, depend on their question alone, to the last bit. A response that
is surer than those before it may settle the vote within its round; what was drawn after it is not written.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.answers.judging import LabelRule
from tokur_cli.commands.generate.responses import ResponseRecords
from tokur_cli.commands.score.pipeline import RecordScorer
from tokur_cli.commands.score.windows import ScoredLine, ScoringTask
from tokur_cli.commands.shared.errors import say
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.metrics.stopping import FEWEST, fewest_settled
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.scores.calibration import P_CORRECT

Outcome: TypeAlias = "DecodedResponse | ScoredLine | RecordError"


@dataclass(frozen=True, kw_only=True)
class Poll(DecodingRequest):
    """A request for no more samples than settle the vote.

    Args:
        question: what tells how answers are read.
        written: the responses that are there already, of the samples before the first that may be drawn.
    """

    question: Record
    written: Sequence[Record]


@dataclass(frozen=True)
class Polled:
    """The responses that were still missing to a question, in the order of their samples.

    Args:
        index: its request's.
        outcomes: the responses; where they are scored, what came of that.
        lengths: the tokens of each response that was drawn.
        settled: whether they settled the vote; else there are no more to be drawn.
    """

    index: int
    outcomes: list[Outcome]
    lengths: list[int]
    settled: bool


@dataclass
class _Open:
    """A question whose vote is open.

    Args:
        poll: what was asked.
        asked: how many samples were asked for, those included that are written already.
        begun: the first sample of those that are counted next; of a round that was cut off, some are counted already.
    """

    poll: Poll
    asked: int
    begun: int
    answers: list[str | None] = field(default_factory=list)  # of the samples that are counted
    probabilities: list[float] = field(default_factory=list)
    responses: dict[int, DecodedResponse] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """N."""
        return len(self.poll.written) + len(self.poll.samples)


class Weights:
    """Scores responses, whose votes are weighted by ``p_correct``.

    Args:
        scorer: scores, with a calibration.
        records: makes records of responses.
    """

    def __init__(self, scorer: RecordScorer, records: ResponseRecords) -> None:
        self._scorer, self._records = scorer, records

    def scored(
        self, poll: Poll, responses: Sequence[Record | DecodedResponse]
    ) -> tuple[list[Record], dict[int, Outcome]]:
        """Return records of responses with their scores, and by its place what became of each that is not written yet.

        All are in the batch, so that those of a round have the numbers that they have when none is written.
        """
        wanted = [isinstance(response, DecodedResponse) for response in responses]
        records = [
            response if isinstance(response, Record) else self._records.of(poll.question, poll.prompt_ids, response)
            for response in responses
        ]
        task = ScoringTask([*records], wanted, skip_invalid=True)
        return records, dict(self._scorer.answer(task)) if any(wanted) else {}


class UntilSettled:
    """Generates until votes are settled.

    Args:
        decoder: generates.
        level: how surely the leading answer is to be the most frequent one; with weights, the right one.
        weights: weighs votes; None where each counts as one.
    """

    def __init__(self, decoder: Decoder | VllmDecoder, level: float, weights: Weights | None = None) -> None:
        self._decoder, self._level, self._weights = decoder, level, weights
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
                there = len(poll.written)
                question = self._open[poll.index] = _Open(poll, there, there if self._weights is None else 0)
                self._read(question, 0, poll.written)
                self._count(question)
            if not self._more:
                yield None

    def _take_ended(self) -> Iterator[Polled]:
        ended, self._ended = self._ended, []
        return iter(ended)

    def _count(self, question: _Open) -> None:
        """Count the votes there are; end the question or ask for what could settle it."""
        poll, most = question.poll, question.most
        while True:
            counted = len(question.answers)
            settled = self._fewest(question, counted)
            if settled <= counted or counted >= most:
                del self._open[poll.index]
                samples = range(len(poll.written), min(settled, counted))
                lengths = [len(response.token_ids) for response in question.responses.values()]
                outcomes = [question.outcomes[sample] for sample in samples]
                self._ended.append(Polled(poll.index, outcomes, lengths, settled <= counted))
                return
            end = min(most, self._fewest(question, question.begun))
            if self._weights is not None:
                end = min(end, max(FEWEST, 2 * question.begun))  # little is in vain if surer ones come
            if end <= counted:
                question.begun = end
                continue
            if end > question.asked:
                self._more.append(replace(poll, samples=range(question.asked, end)))
                question.asked = end
            upto = counted + 1 if self._weights is None else end
            samples = range(max(question.begun, len(poll.written)), upto)
            if any(sample not in question.responses for sample in samples):
                return
            drawn = [question.responses[sample] for sample in samples]
            self._read(question, question.begun, [*poll.written[question.begun : upto], *drawn])
            question.begun = upto

    def _fewest(self, question: _Open, count: int) -> int:
        """Return the fewest samples that may settle the vote after the first ones."""
        classes = answer_classes(question.answers, self._equivalence).labels[:count]
        return fewest_settled(
            [-1 if label is None else label for label in classes],
            self._level,
            question.most,
            None if self._weights is None else question.probabilities[:count],
        )

    def _read(self, question: _Open, first: int, responses: Sequence[Record | DecodedResponse]) -> None:
        """Read the answers of samples from the first on, and what they weigh."""
        records, outcomes = (self._weights.scored if self._weights else _unscored)(question.poll, responses)
        answers = map(self._rule.answer, records)
        question.answers[first:] = [None if answer is None else answer.text for answer in answers]
        if self._weights is not None:
            question.probabilities[first:] = map(_probability, records)
        question.outcomes |= {first + place: outcome for place, outcome in outcomes.items()}


def _unscored(poll: Poll, responses: Sequence[Record | DecodedResponse]) -> tuple[list[Record], dict[int, Outcome]]:
    """Return what answers are read of, and the responses themselves; see ``Weights.scored``."""
    records = []
    for response in responses:
        record = poll.question.copy()
        record.set("response", response.response if isinstance(response, Record) else response.text)
        records.append(record)
    return records, {place: one for place, one in enumerate(responses) if isinstance(one, DecodedResponse)}


def _probability(record: Record) -> float:
    """Return how probably a response is right; NaN where that is not known."""
    value = record.number(f'"tokur.scores.{P_CORRECT}"', record.scores.get(P_CORRECT))
    return math.nan if value is None else value


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
        if not (drawn := len(polled.lengths)):
            return
        tokens = sum(polled.lengths)
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
