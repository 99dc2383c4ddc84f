"""Generation guided by what the responses so far are worth: particle filtering (Puri et al. 2025).

N particles a question, each a response that grows step by step. A round grows every particle by a step, judges what
each has written so far, and resamples them by a softmax of these rewards; the next round begins with the copies. Rows
of many questions share the decoder's batch, and their rounds go together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tokur_cli.engine.forward.prefix_tree import has_latent_attention
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.noise import uniform
from tokur_cli.engine.scoring.scorer import Quantities, Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

Weights = npt.NDArray[np.float64]
Scheme = Literal["multinomial", "systematic"]
_END = object()  # of requests
_IN_STEPS = 2  # times as many particles are under way as the batch has rows: it is refilled as steps end


class Resampling(NamedTuple):
    """How particles are resampled; the defaults are the paper's (appendix "Particle Filtering")."""

    temperature: float | None = 1.0  # T of softmax(rewards / T); None for the rewards' standard deviation in each round
    # ``multinomial`` (N independent draws in every round) or ``systematic`` (one draw, N places at equal distances,
    # only where the effective sample size is below N/2: fewer lineages are lost by chance)
    scheme: Scheme = "multinomial"

    def resample(
        self, rewards: Sequence[float], key: tuple[object, ...], earlier: Weights | None = None
    ) -> tuple[list[int], float, Weights | None]:
        """Resample one round.

        Args:
            rewards: (N,) of the particles, finite; more is better.
            key: what the random numbers belong to.
            earlier: (N,) weights of the rounds before, which were left as they are; None for equal ones.

        Returns:
            The particle that each slot goes on with, (N,); the effective sample size; and the weights (N,) where the
            round is left as it is, None where they are equal from now on.
        """
        weights = softmax_weights(np.array(rewards, dtype=np.float64), self.temperature)
        if earlier is not None:
            weights = weights * earlier
            weights = weights / weights.sum() if weights.any() else np.full(len(weights), 1 / len(weights))
        count = len(weights)
        size = min(float(1 / np.square(weights).sum()), float(count))  # from 1 (one has all the weight) to N
        if self.scheme == "systematic" and size >= count / 2:
            return list(range(count)), size, weights
        return draw(weights, self.scheme, key), size, None


def softmax_weights(rewards: Weights, temperature: float | None) -> Weights:
    """Return softmax(rewards / T), (N,); with no T its standard deviation, and equal weights where that is 0."""
    scale = float(rewards.std()) if temperature is None else temperature
    powers = np.exp((rewards - rewards.max()) / scale) if scale else np.ones(len(rewards))
    weights: Weights = powers / powers.sum()
    return weights


def draw(weights: Weights, scheme: Scheme, key: tuple[object, ...]) -> list[int]:
    """Draw N of N indices by their weights, with the random numbers of ``key``."""
    count = len(weights)
    numbers = uniform(key, count if scheme == "multinomial" else 1)
    shares = numbers if scheme == "multinomial" else (np.arange(count) + numbers) / count
    cumulated = weights.cumsum()
    indices: list[int] = np.searchsorted(cumulated, shares * cumulated[-1], side="right").clip(max=count - 1).tolist()
    return indices


class Guide(NamedTuple):
    """What particles are judged by."""

    # From the per-token quantities of a response so far, (T,) each, and where its last step begins, to its score
    score: Callable[[Quantities, int], float]
    sign: int  # 1 if a higher score is better, −1 if a lower one is
    resampling: Resampling  # how they are resampled by sign · score
    of_step: bool  # whether a score is of the last step alone, so that those of rounds without resampling count as well


@dataclass(frozen=True)
class Lineage:
    """How a response became what it is. Slots are the N places of a question's particles, rounds count from 0."""

    ends: tuple[int, ...]  # tokens that it had after each round
    scores: tuple[float, ...]  # its score after each round
    slot_scores: tuple[float, ...]  # those of what its slot held after each round, which may have been replaced since
    ancestors: tuple[int, ...]  # the slot that its slot was filled from after each round but the last
    ess: tuple[float, ...]  # effective sample size of the question's particles at each resampling
    root: int  # the slot that it began in
    copies: int  # how many of the question's responses are the same as this one, itself included


@dataclass
class GuidedResponse(DecodedResponse):
    """A response and what is known of it."""

    lineage: Lineage = field(kw_only=True)  # how it became what it is
    quantities: Quantities = field(kw_only=True)  # per-token quantities, (T,) each


Guided = GuidedResponse | tuple[DecodingRequest, TokurError]
"""A response, or a question that cannot be answered and why."""


@dataclass
class _Question:
    """A question under way, with N slots."""

    request: DecodingRequest
    responses: list[DecodedResponse]  # what the slots hold
    # Tokens and score of what each slot held after each round, (rounds, N)
    ends: list[list[int]] = field(default_factory=list)
    scores: list[list[float]] = field(default_factory=list)
    # The slot that each was filled from after each round but the last, (rounds − 1, N)
    ancestors: list[list[int]] = field(default_factory=list)
    ess: list[float] = field(default_factory=list)  # effective sample size at each resampling
    weights: Weights | None = None  # of earlier rounds that were left as they are
    error: TokurError | None = None  # why the question is given up

    def next_steps(self) -> Iterator[DecodingRequest]:
        """Yield what is to be generated in a round, the copies of a response in one request."""
        slots_of: dict[int, list[int]] = {}  # of the same response
        for slot, response in enumerate(self.responses):
            if response.finish_reason == "step":
                slots_of.setdefault(id(response), []).append(slot)
        for slots in slots_of.values():
            yield replace(self.request, samples=slots, begun=self.responses[slots[0]], step=len(self.scores))

    def response(self, slot: int) -> GuidedResponse:
        """Return what a slot holds at the end."""
        path = [slot]  # where it was after each round
        for ancestors in reversed(self.ancestors):
            path.insert(0, ancestors[path[0]])
        texts = [response.token_ids for response in self.responses]
        lineage = Lineage(
            ends=tuple(ends[place] for ends, place in zip(self.ends, path, strict=True)),
            scores=tuple(scores[place] for scores, place in zip(self.scores, path, strict=True)),
            slot_scores=tuple(scores[slot] for scores in self.scores),
            ancestors=tuple(ancestors[slot] for ancestors in self.ancestors),
            ess=tuple(self.ess),
            root=path[0],
            copies=texts.count(texts[slot]),
        )
        response = self.responses[slot]
        fields = {**vars(response), "sample": slot, "scored": []}
        return GuidedResponse(**fields, lineage=lineage, quantities=_quantities(response))


def _quantities(response: DecodedResponse) -> Quantities:
    """Return per-token quantities, T first in their shapes."""
    names = [name for name in response.scored[0] if name != "draw_log_p"]
    return {name: np.array([token[name] for token in response.scored]) for name in names}


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
            while not (exhausted or (questions and self._is_full(questions))):
                following = next(source, _END)
                exhausted = following is _END
                if not isinstance(following, DecodingRequest):
                    break
                questions.append(_Question(following, [following.begun] * len(following.samples)))
            if questions:
                questions = yield from self._round(questions)
            elif not exhausted:
                yield None

    def _is_full(self, questions: Sequence[_Question]) -> bool:
        """Return whether another question would be too much for the batch or for the memory of keys and values."""
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
                by_index[result.index].responses[result.sample] = result
            elif result is not None:
                by_index[result[0].index].error = result[1]
        going_on = []
        for question in questions:
            if question.error is None:
                self._judge(question)
            if question.error is not None:
                yield question.request, question.error
            elif any(response.finish_reason == "step" for response in question.responses):
                self._resample(question)
                going_on.append(question)
            else:
                yield from map(question.response, range(len(question.responses)))
        return going_on

    def _judge(self, question: _Question) -> None:
        """Compute the scores of all particles at the end of a round."""
        unscored = [response for response in question.responses if len(response.scored) < len(response.token_ids)]
        whole = [TokenizedResponse(question.request.prompt_ids, response.token_ids) for response in unscored]
        for index, quantities in self.scorer.score(whole):
            if isinstance(quantities, TokurError):
                question.error = quantities
                return
            count = len(unscored[index].token_ids)
            unscored[index].scored = [{name: values[t] for name, values in quantities.items()} for t in range(count)]
        question.scores.append([self.guide.score(_quantities(one), one.step_start) for one in question.responses])
        question.ends.append([len(response.token_ids) for response in question.responses])
        if not all(map(math.isfinite, question.scores[-1])):
            question.error = TokurError("the model's numbers for a response so far are not finite: try --dtype float32")

    def _resample(self, question: _Question) -> None:
        key = (self.decoder.sampling.seed, "resample", question.request.key, len(question.ancestors))
        rewards = [self.guide.sign * score for score in question.scores[-1]]
        ancestors, size, weights = self.guide.resampling.resample(rewards, key, question.weights)
        question.responses = [question.responses[ancestor] for ancestor in ancestors]
        question.ancestors.append(ancestors)
        question.ess.append(size)
        question.weights = weights if self.guide.of_step else None
