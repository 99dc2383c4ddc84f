"""Generation guided by what the responses so far are worth: particle filtering (Puri et al. 2025).

N particles a question, each a response that grows step by step. A round grows every particle by a step, judges what
each has written so far, and resamples them by a softmax of these rewards; the next round begins with the copies. Rows
of many questions share the decoder's batch, and their rounds go together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tokur_cli.engine.forward.prefix_tree import has_latent_attention
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.resampling import Resampling, Weights
from tokur_cli.engine.scoring.scorer import Quantities, Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

_END = object()  # of requests
_IN_STEPS = 2  # times as many particles are under way as the batch has rows: it is refilled as steps end


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


@dataclass
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


@dataclass(frozen=True)
class _Particle:
    """A response so far.

    Args:
        response: it.
        root: the slot that it began in.
        step: the token that its last step begins with.
        ends, scores: as in ``Lineage``.
    """

    response: DecodedResponse
    root: int
    step: int = 0
    ends: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()

    @property
    def is_growing(self) -> bool:
        return self.response.finish_reason == "step"

    @property
    def quantities(self) -> Quantities:
        """Per-token quantities, T first in their shapes."""
        scored = self.response.scored
        return {name: np.array([token[name] for token in scored]) for name in scored[0] if name != "draw_log_p"}


@dataclass
class _Question:
    """A question under way."""

    request: DecodingRequest
    particles: list[_Particle]  # N
    slot_scores: list[tuple[float, ...]] = field(default_factory=list)  # (rounds, N)
    ancestors: list[list[int]] = field(default_factory=list)  # (rounds − 1, N)
    ess: list[float] = field(default_factory=list)
    weights: Weights | None = None  # of earlier rounds that were left as they are
    error: TokurError | None = None  # why it is given up

    @property
    def is_growing(self) -> bool:
        return any(particle.is_growing for particle in self.particles)

    def next_steps(self) -> Iterator[DecodingRequest]:
        """Yield what is to be generated in a round, the copies of a particle in one request."""
        slots_of: dict[int, list[int]] = {}  # of the same response
        for slot, particle in enumerate(self.particles):
            if particle.is_growing:
                slots_of.setdefault(id(particle.response), []).append(slot)
        for slots in slots_of.values():
            begun = self.particles[slots[0]].response
            yield replace(self.request, samples=slots, begun=begun, step=len(self.slot_scores))

    def take(self, response: DecodedResponse) -> None:
        """Note that a particle has grown."""
        particle = self.particles[response.sample]
        step = len(particle.response.token_ids)
        self.particles[response.sample] = replace(particle, response=response, step=step)

    def response(self, slot: int) -> GuidedResponse:
        """Return what a slot holds at the end."""
        particle = self.particles[slot]
        texts = [other.response.token_ids for other in self.particles]
        lineage = Lineage(
            ends=particle.ends,
            scores=particle.scores,
            slot_scores=tuple(scores[slot] for scores in self.slot_scores),
            ancestors=tuple(ancestors[slot] for ancestors in self.ancestors),
            ess=tuple(self.ess),
            root=particle.root,
            copies=texts.count(texts[slot]),
        )
        fields = {**vars(particle.response), "sample": slot, "scored": []}
        return GuidedResponse(**fields, lineage=lineage, quantities=particle.quantities)


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
            decoder.scorer = scorer

    def serve(self, requests: Iterable[DecodingRequest | None]) -> Iterator[Guided | None]:
        """Yield all responses to a question as it ends, the questions in no particular order; see ``Decoder.serve``."""
        source = iter(requests)
        questions: list[_Question] = []
        exhausted = False
        while questions or not exhausted:
            while not exhausted and not self._is_full(questions):
                following = next(source, _END)
                exhausted = following is _END
                if not isinstance(following, DecodingRequest):
                    break
                empty = DecodedResponse(following.index, 0, [], "", "step")
                questions.append(_Question(following, [_Particle(empty, n) for n in range(len(following.samples))]))
            if questions:
                questions = yield from self._round(questions)
            elif not exhausted:
                yield None

    def _is_full(self, questions: Sequence[_Question]) -> bool:
        """Return whether another question would be too much for the batch or for the memory of keys and values."""
        if not questions:
            return False
        requests = [question.request for question in questions]
        under_way = sum(len(request.samples) for request in requests)
        length = max(len(request.prompt_ids) for request in requests) + self.decoder.max_new_tokens
        most = min(_IN_STEPS * self.decoder.max_rows, self.decoder.most_rows(length))
        return under_way + len(requests[-1].samples) > most

    def _round(self, questions: Sequence[_Question]) -> Generator[Guided, None, list[_Question]]:
        """Grow all particles by a step; yield the responses to questions that end, and return the others, resampled."""
        by_index = {question.request.index: question for question in questions}
        for result in self.decoder.serve(request for question in questions for request in question.next_steps()):
            if isinstance(result, DecodedResponse):
                by_index[result.index].take(result)
            elif result is not None:
                by_index[result[0].index].error = result[1]
        going_on = []
        for question in questions:
            if question.error is None:
                self._judge(question)
            if question.error is not None:
                yield question.request, question.error
            elif question.is_growing:
                self._resample(question)
                going_on.append(question)
            else:
                yield from map(question.response, range(len(question.particles)))
        return going_on

    def _judge(self, question: _Question) -> None:
        """Compute the scores of all particles at the end of a round."""
        responses = [particle.response for particle in question.particles]
        unscored = [response for response in responses if len(response.scored) < len(response.token_ids)]
        whole = [TokenizedResponse(question.request.prompt_ids, response.token_ids) for response in unscored]
        for index, quantities in self.scorer.score(whole):
            if isinstance(quantities, TokurError):
                question.error = quantities
                return
            count = len(unscored[index].token_ids)
            unscored[index].scored = [{name: values[t] for name, values in quantities.items()} for t in range(count)]
        for slot, particle in enumerate(question.particles):
            score = self.guide.score(particle.quantities, particle.step)
            ends = (*particle.ends, len(particle.response.token_ids))
            question.particles[slot] = replace(particle, ends=ends, scores=(*particle.scores, score))
        question.slot_scores.append(tuple(particle.scores[-1] for particle in question.particles))
        if not all(map(math.isfinite, question.slot_scores[-1])):
            question.error = TokurError("the model's numbers for a response so far are not finite: try --dtype float32")

    def _resample(self, question: _Question) -> None:
        key = (self.decoder.sampling.seed, "resample", question.request.key, len(question.slot_scores) - 1)
        rewards = [self.guide.sign * score for score in question.slot_scores[-1]]
        ancestors, size, weights = self.guide.resampling.resample(rewards, key, question.weights)
        question.particles = [question.particles[ancestor] for ancestor in ancestors]
        question.ancestors.append(ancestors)
        question.ess.append(size)
        question.weights = weights if self.guide.of_step else None
