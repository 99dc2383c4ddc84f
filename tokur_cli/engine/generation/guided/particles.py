"""Generation guided by what the responses so far are worth: particle filtering (Puri et al. 2025).

N particles a question, each a response that grows step by step. A round grows every particle by a step, judges what
each has written so far, and resamples them by a softmax of these rewards; the next round begins with the copies. Rows
of many questions share the decoder's batch, and a question's round waits for its own particles only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.guided.resampling import Resampling, Weights
from tokur_cli.engine.uncertainty.growing import GrowingScorer, Growth, Scored
from tokur_cli.engine.uncertainty.scorer import Quantities
from tokur_cli.records.errors import TokurError

_IN_STEPS = 2  # as many particles are under way as the batch has rows: some wait for the others of their question
_HOLLOW = 4  # rounds are judged as soon as this part of the batch waits for them


@dataclass(frozen=True)
class Guide:
    """What particles are judged by.

    Args:
        score: from the per-token quantities of a response so far, (T,) each, and where its last step begins, to its
            score.
        sign: 1 if a higher score is better, −1 if a lower one is.
        resampling: how they are resampled by sign · score.
        of_step: whether a score is of the last step alone, so that those of rounds without resampling count as well.
    """

    score: Callable[[Quantities, int], float]
    sign: int
    resampling: Resampling
    of_step: bool


@dataclass(frozen=True)
class Lineage:
    """How a response became what it is. Slots are the N places of a question's particles, rounds count from 0.

    Args:
        ends: tokens that it had after each round.
        scores: its score after each round.
        slot_scores: those of what its slot held after each round, which may have been replaced since.
        ancestors: the slot that its slot was filled from after each round but the last.
        ess: effective sample size of the question's particles at each resampling.
        root: the slot that it began in.
        copies: how many of the question's responses are the same as this one, itself included.
    """

    ends: tuple[int, ...]
    scores: tuple[float, ...]
    slot_scores: tuple[float, ...]
    ancestors: tuple[int, ...]
    ess: tuple[float, ...]
    root: int
    copies: int


@dataclass(frozen=True)
class GuidedResponse(DecodedResponse):
    """A response and what is known of it.

    Args:
        lineage: how it became what it is.
        quantities: per-token quantities, (T,) each.
    """

    lineage: Lineage
    quantities: Quantities


@dataclass(frozen=True)
class _Particle:
    """A response so far."""

    root: int
    response: DecodedResponse
    scored: Scored | None = None
    ends: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()

    @property
    def growing(self) -> bool:
        return self.response.finish_reason == "step"

    @property
    def last_step(self) -> int:
        """Index of the token that the last step begins with."""
        earlier = [end for end in self.ends if end < len(self.response.token_ids)]
        return earlier[-1] if earlier else 0


@dataclass
class _Question:
    """A question under way."""

    request: DecodingRequest
    particles: list[_Particle]
    awaited: int
    slot_scores: list[list[float]] = field(default_factory=list)  # (rounds, N)
    ancestors: list[list[int]] = field(default_factory=list)  # (rounds − 1, N)
    ess: list[float] = field(default_factory=list)
    weights: Weights | None = None  # of earlier rounds that were left as they are

    @property
    def round(self) -> int:
        return len(self.slot_scores)


class ParticleFilter:
    """Generates responses in steps between which they are resampled by how sure the model is of them.

    A question's responses depend on (seed, key, N) and the settings alone, up to floating-point ties: token numbers on
    (seed, key, slot, round), those of resampling on (seed, key, round).

    Args:
        decoder: generates, with steps.
        scorer: judges, under the draws if the guide's score needs them.
        guide: what the particles are judged by.
    """

    def __init__(self, decoder: Decoder, scorer: GrowingScorer, guide: Guide) -> None:
        self.decoder, self.scorer, self.guide = decoder, scorer, guide
        self._questions: dict[int, _Question] = {}
        self._queue: deque[DecodingRequest] = deque()
        self._grown: list[_Question] = []

    def serve(
        self, requests: Iterable[DecodingRequest | None]
    ) -> Iterator[GuidedResponse | tuple[DecodingRequest, TokurError] | None]:
        """Yield all responses to a question as it ends, the questions in no particular order; see ``Decoder.serve``."""
        for result in self.decoder.serve(self._growths(iter(requests))):
            if isinstance(result, tuple):
                yield from self._give_up(result[0].index, result[1])
            elif result is not None:
                self._note(result)
            waiting = sum(len(question.particles) for question in self._grown)
            enough = min(self.decoder.max_rows, self._under_way) / _HOLLOW
            if self._grown and (result is None or waiting >= enough):
                yield from self._end_rounds()
            elif result is None and not self._questions:
                yield None

    def _growths(self, source: Iterator[DecodingRequest | None]) -> Iterator[DecodingRequest | None]:
        """Yield the next steps of particles, those of questions under way first; None where there are none yet."""
        exhausted = False
        while not exhausted or self._questions:
            if self._queue:
                yield self._queue.popleft()
                continue
            if exhausted or self._is_full():
                yield None
                continue
            try:
                following = next(source)
            except StopIteration:
                exhausted = True
                continue
            if following is None:
                yield None
            else:
                self._begin(following)

    def _is_full(self) -> bool:
        """Return whether another question would be too much for the batch or for the memory of keys and values."""
        if not self._questions:
            return False
        requests = [question.request for question in self._questions.values()]
        most = _IN_STEPS * self.decoder.max_rows
        if self.decoder.cache_bytes is not None:
            length = max(len(request.prompt_ids) for request in requests) + self.decoder.max_new_tokens
            # A particle's stand in the decoder's batch and, under all members, in the scorer's pieces
            most = min(most, self.decoder.most_rows(length) // (1 + self.scorer.members))
        return self._under_way + len(requests[-1].samples) > most

    @property
    def _under_way(self) -> int:
        """Particles of the questions under way."""
        return sum(len(question.particles) for question in self._questions.values())

    def _begin(self, request: DecodingRequest) -> None:
        empty = DecodedResponse(request.index, 0, [], "", "step")
        particles = [_Particle(slot, replace(empty, sample=slot)) for slot in request.samples]
        self._questions[request.index] = _Question(request, particles, 0)
        self._grow(self._questions[request.index])

    def _grow(self, question: _Question) -> None:
        """Have every particle that has not ended grow by a step."""
        alike: dict[int, list[int]] = {}  # slots that hold the same particle
        for slot, particle in enumerate(question.particles):
            if particle.growing:
                alike.setdefault(id(particle) if particle.scored else 0, []).append(slot)
        question.awaited = sum(map(len, alike.values()))
        for slots in alike.values():
            particle = question.particles[slots[0]]
            self._queue.append(
                replace(
                    question.request,
                    samples=slots,
                    begun=particle.response.token_ids,
                    round=question.round,
                    states=particle.scored.states if particle.scored else (),
                )
            )

    def _note(self, response: DecodedResponse) -> None:
        """Note that a particle has grown."""
        question = self._questions.get(response.index)
        if question is None:  # another particle of the question has failed
            return
        particle = question.particles[response.sample]
        question.particles[response.sample] = replace(particle, response=response)
        question.awaited -= 1
        if not question.awaited:
            self._grown.append(question)

    def _give_up(self, index: int, error: TokurError) -> Iterator[tuple[DecodingRequest, TokurError]]:
        question = self._questions.pop(index, None)
        if question is not None:
            self._queue = deque(request for request in self._queue if request.index != index)
            self._grown = [other for other in self._grown if other is not question]
            yield question.request, error

    def _end_rounds(self) -> Iterator[GuidedResponse | tuple[DecodingRequest, TokurError]]:
        """Judge the particles of all questions whose round has ended, and go on with the next round."""
        grown, self._grown = self._grown, []
        for question, error in self._judge(grown):
            if error is not None:
                yield from self._give_up(question.request.index, error)
                continue
            while any(particle.growing for particle in question.particles):
                self._resample(question)
                if any(particle.growing for particle in question.particles):
                    self._grow(question)
                    break
                self._keep_scores(question)  # ended ones have replaced all others: nothing grows in this round
            else:
                del self._questions[question.request.index]
                yield from _responses(question)

    def _judge(self, questions: Sequence[_Question]) -> Iterator[tuple[_Question, TokurError | None]]:
        """Compute the scores of all particles that have grown."""
        places = [
            (question, slot)
            for question in questions
            for slot, particle in enumerate(question.particles)
            if len(particle.response.token_ids) > (particle.ends[-1] if particle.ends else 0)
        ]
        errors: dict[int, TokurError] = {}
        grown = [(question, question.particles[slot]) for question, slot in places]
        growths = [Growth(question.request.prompt_ids, p.response.token_ids, p.scored) for question, p in grown]
        for index, result in self.scorer.score(growths):
            question, slot = places[index]
            if isinstance(result, TokurError):
                errors[id(question)] = result
            else:
                question.particles[slot] = replace(question.particles[slot], scored=result)
        for question in questions:
            error = errors.get(id(question))
            if error is None:
                self._keep_scores(question)
                if not all(map(math.isfinite, question.slot_scores[-1])):
                    error = TokurError("the model's numbers for a response so far are not finite: try --dtype float32")
            yield question, error

    def _keep_scores(self, question: _Question) -> None:
        """Note the scores and lengths of all particles at the end of a round."""
        judged = []
        for particle in question.particles:
            assert particle.scored is not None
            score = self.guide.score(particle.scored.quantities, particle.last_step)
            ends = (*particle.ends, len(particle.response.token_ids))
            judged.append(replace(particle, ends=ends, scores=(*particle.scores, score)))
        question.particles = judged
        question.slot_scores.append([particle.scores[-1] for particle in judged])

    def _resample(self, question: _Question) -> None:
        key = (self.decoder.sampling.seed, "resample", question.request.key, question.round - 1)
        rewards = [self.guide.sign * score for score in question.slot_scores[-1]]
        resampled = self.guide.resampling.resample(rewards, key, question.weights)
        question.particles = [question.particles[ancestor] for ancestor in resampled.ancestors]
        question.ancestors.append(resampled.ancestors)
        question.ess.append(resampled.size)
        question.weights = resampled.weights if self.guide.of_step else None


def _responses(question: _Question) -> Iterator[GuidedResponse]:
    """Yield the responses of a question that has ended."""
    texts = [tuple(particle.response.token_ids) for particle in question.particles]
    for slot, particle in enumerate(question.particles):
        lineage = Lineage(
            ends=particle.ends,
            scores=particle.scores,
            slot_scores=tuple(scores[slot] for scores in question.slot_scores),
            ancestors=tuple(ancestors[slot] for ancestors in question.ancestors),
            ess=tuple(question.ess),
            root=particle.root,
            copies=texts.count(texts[slot]),
        )
        fields = {**vars(particle.response), "sample": slot}
        assert particle.scored is not None
        yield GuidedResponse(**fields, lineage=lineage, quantities=particle.scored.quantities)
