"""Generation guided by what the responses so far are worth: particle filtering (Puri et al. 2025).

N particles a question, each a response that grows step by step. A round grows every particle by a step, judges what
each has written so far, and resamples them by a softmax of these rewards; the next round begins with the copies. Rows
of many questions share the decoder's batch, and a question's round waits for its own particles only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tokur_cli.engine.forward.prefix_tree import has_latent_attention
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.resampling import Resampling, Weights
from tokur_cli.engine.generation.scoring import ScoredTokens
from tokur_cli.engine.scoring.scorer import Quantities, Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

_END = object()  # of requests
_IN_STEPS = 2  # as many particles are under way as the batch has rows: some wait for the others of their question


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

    lineage: Lineage = field(kw_only=True)
    quantities: Quantities = field(kw_only=True)


Guided = GuidedResponse | tuple[DecodingRequest, TokurError]
"""A response, or a question that cannot be answered and why."""


@dataclass
class _Question:
    """A question under way."""

    request: DecodingRequest
    particles: list[DecodedResponse]  # N responses so far
    awaited: int = 0  # particles
    slot_ends: list[list[int]] = field(default_factory=list)  # (rounds, N) tokens
    slot_scores: list[list[float]] = field(default_factory=list)  # (rounds, N)
    ancestors: list[list[int]] = field(default_factory=list)  # (rounds − 1, N)
    ess: list[float] = field(default_factory=list)
    weights: Weights | None = None  # of earlier rounds that were left as they are

    @property
    def is_growing(self) -> bool:
        return any(particle.finish_reason == "step" for particle in self.particles)

    def lineage(self, slot: int) -> Lineage:
        """Return how what a slot holds at the end became what it is."""
        places = [slot]  # of what it was after each round
        for ancestors in reversed(self.ancestors):
            places.insert(0, ancestors[places[0]])
        texts = [particle.token_ids for particle in self.particles]
        return Lineage(
            ends=tuple(ends[place] for ends, place in zip(self.slot_ends, places, strict=True)),
            scores=tuple(scores[place] for scores, place in zip(self.slot_scores, places, strict=True)),
            slot_scores=tuple(scores[slot] for scores in self.slot_scores),
            ancestors=tuple(ancestors[slot] for ancestors in self.ancestors),
            ess=tuple(self.ess),
            root=places[0],
            copies=texts.count(texts[slot]),
        )


class ParticleFilter:
    """Generates responses in steps between which they are resampled by how sure the model is of them.

    A question's responses depend on (seed, key, N) and the settings alone, up to floating-point ties: token numbers on
    (seed, key, slot, round), those of resampling on (seed, key, round).

    Args:
        decoder: generates, with steps.
        scorer: judges, under the draws if the guide's score needs them.
        guide: what the particles are judged by.
    """

    def __init__(self, decoder: Decoder, scorer: Scorer, guide: Guide) -> None:
        self.decoder, self.scorer, self.guide = decoder, scorer, guide
        if scorer.draws is None or not has_latent_attention(scorer.model):  # else each step's end is scored whole
            decoder.score_tokens(scorer)
        self._questions: dict[int, _Question] = {}
        self._queue: deque[DecodingRequest] = deque()

    def serve(self, requests: Iterable[DecodingRequest | None]) -> Iterator[Guided | None]:
        """Yield all responses to a question as it ends, the questions in no particular order; see ``Decoder.serve``."""
        for result in self.decoder.serve(self._growths(iter(requests))):
            if isinstance(result, tuple):
                yield from self._give_up(result[0].index, result[1])
            elif result is not None:
                yield from self._take(result)
            elif not self._questions:
                yield None

    def _growths(self, source: Iterator[DecodingRequest | None]) -> Iterator[DecodingRequest | None]:
        """Yield the next steps of particles, those of questions under way first; None where there are none yet."""
        exhausted = False
        while not exhausted or self._questions:
            if not self._queue and not exhausted and not self._is_full():
                following = next(source, _END)
                exhausted = following is _END
                if isinstance(following, DecodingRequest):
                    self._begin(following)
            if self._questions or not exhausted:
                yield self._queue.popleft() if self._queue else None

    def _is_full(self) -> bool:
        """Return whether another question would be too much for the batch or for the memory of keys and values."""
        if not self._questions:
            return False
        requests = [question.request for question in self._questions.values()]
        under_way = sum(len(request.samples) for request in requests)
        length = max(len(request.prompt_ids) for request in requests) + self.decoder.max_new_tokens
        most = min(_IN_STEPS * self.decoder.max_rows, self.decoder.most_rows(length))
        return under_way + len(requests[-1].samples) > most

    def _begin(self, request: DecodingRequest) -> None:
        empty = DecodedResponse(request.index, 0, [], "", "step")
        question = self._questions[request.index] = _Question(request, [empty] * len(request.samples))
        self._grow(question)

    def _grow(self, question: _Question) -> None:
        """Have every particle that has not ended grow by a step."""
        slots_of: dict[int, list[int]] = {}  # of the same particle
        for slot, particle in enumerate(question.particles):
            if particle.finish_reason == "step":
                slots_of.setdefault(id(particle), []).append(slot)
        question.awaited = sum(map(len, slots_of.values()))
        for slots in slots_of.values():
            step, particle = len(question.slot_scores), question.particles[slots[0]]
            self._queue.append(replace(question.request, samples=slots, begun=particle, step=step))

    def _take(self, response: DecodedResponse) -> Iterator[Guided]:
        """Note that a particle has grown; the last one ends its question's round."""
        question = self._questions.get(response.index)
        if question is None:  # another particle of the question has failed
            return
        question.particles[response.sample] = response
        question.awaited -= 1
        if not question.awaited:
            yield from self._end_round(question)

    def _give_up(self, index: int, error: TokurError) -> Iterator[tuple[DecodingRequest, TokurError]]:
        question = self._questions.pop(index, None)
        if question is not None:
            self._queue = deque(request for request in self._queue if request.index != index)
            yield question.request, error

    def _end_round(self, question: _Question) -> Iterator[Guided]:
        """Judge the particles of a question, and go on with the next round."""
        try:
            self._judge(question)
        except TokurError as error:
            yield from self._give_up(question.request.index, error)
            return
        while question.is_growing:
            self._resample(question)
            if question.is_growing:
                self._grow(question)
                return
            self._keep_scores(question)  # ended ones have replaced all others: nothing grows in this round
        del self._questions[question.request.index]
        for slot, particle in enumerate(question.particles):
            fields = {**vars(particle), "sample": slot, "scored": ScoredTokens()}
            quantities = particle.scored.quantities
            yield GuidedResponse(**fields, lineage=question.lineage(slot), quantities=quantities)

    def _judge(self, question: _Question) -> None:
        """Compute the scores of all particles."""
        unscored = [one for one in question.particles if len(one.scored.tokens) < len(one.token_ids)]
        whole = [TokenizedResponse(question.request.prompt_ids, particle.token_ids) for particle in unscored]
        for index, quantities in self.scorer.score(whole):
            if isinstance(quantities, TokurError):
                raise quantities
            unscored[index].scored.set_quantities(quantities)
        self._keep_scores(question)
        if not all(map(math.isfinite, question.slot_scores[-1])):
            raise TokurError("the model's numbers for a response so far are not finite: try --dtype float32")

    def _keep_scores(self, question: _Question) -> None:
        """Note the scores and lengths of all particles at the end of a round."""
        particles, score = question.particles, self.guide.score
        question.slot_scores.append([score(one.scored.quantities, one.num_begun) for one in particles])
        question.slot_ends.append([len(one.token_ids) for one in particles])

    def _resample(self, question: _Question) -> None:
        key = (self.decoder.sampling.seed, "resample", question.request.key, len(question.slot_scores) - 1)
        rewards = [self.guide.sign * score for score in question.slot_scores[-1]]
        resampled = self.guide.resampling.resample(rewards, key, question.weights)
        question.particles = [question.particles[ancestor] for ancestor in resampled.ancestors]
        question.ancestors.append(resampled.ancestors)
        question.ess.append(resampled.size)
        question.weights = resampled.weights if self.guide.of_step else None
