"""How strong the perturbation is: as suits a model, or the largest within a tolerance."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.posterior.basis import weight_digest
from tokur_cli.engine.posterior.posterior import Posterior
from tokur_cli.engine.posterior.settings import MOST_KL, PAPER
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.encoding import read_json
from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import replacing

TEXTS = (
    "Question: A baker makes 4 trays of rolls with 9 rolls on each tray, and sells 20 of the rolls before noon. "
    "How many rolls are left?\nAnswer: The baker makes 4 * 9 = 36 rolls. After selling 20 of them, 36 - 20 = 16 rolls "
    "are left. The answer is 16.\n",
    "Question: Which is heavier, a kilogram of iron or a kilogram of feathers?\nAnswer: Both have a mass of one "
    "kilogram, so neither is heavier. The feathers only take up more space.\n",
    "Question: Solve 3x + 5 = 26 for x.\nAnswer: Subtract 5 from both sides to get 3x = 21. Then divide both sides by "
    "3, which gives x = 7.\n",
    "Question: Why does ice float on water?\nAnswer: When water freezes, its molecules form an open lattice that takes "
    "up more room than the liquid. Ice is therefore less dense than water, and it floats.\n",
    "Question: A train leaves at 9:40 and arrives at 12:05. How long is the journey?\nAnswer: From 9:40 to 12:00 it is "
    "2 hours and 20 minutes. With 5 more minutes, the journey takes 2 hours and 25 minutes.\n",
    'Question: What does the word "reluctant" mean?\nAnswer: Someone who is reluctant does not really want to do '
    "something, and does it slowly or only after being asked more than once.\n",
)
"""What the response of a model is measured on, whatever a user has."""
SWEEPS = 12
PRECISION = 1.05  # the smallest strength found too large is at most this many times the one returned
_FARTHEST = 30.0  # how many times the strength changes between two sweeps at most
_NUM_DRAWS = 2  # draws that the mean is over


@dataclass(frozen=True)
class Strength:
    """What was found of a model."""

    sigma: float  # the strength that suits it
    # Mean KL(p_0 ‖ p_m) of a token at the paper's strength, in nats; None where it is not finite
    paper_kl: float | None


def suitable_strength(
    model: PreTrainedModel,
    posterior: Posterior,
    tokenizer: ResponseTokenizer,
    *,
    batch_tokens: int,
    cache: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> Strength:
    """Return the strength that suits a model: the paper's, unless it is further from the model than ``MOST_KL``.

    It depends on the model, on what is perturbed (rank, targets, layers) and on the precision alone: not on records,
    seeds or the number of draws. What was found is kept in the cache.

    Args:
        model: the model with its mean weights W_0.
        posterior: what is drawn from; its strength and its seed do not count.
        tokenizer: the model's.
        batch_tokens: positions in a batch, all draws counted.
        cache: folder of what was found before.
        progress: called when it has to be measured.

    Raises:
        TokurError: no strength suits, or memory does not suffice.
    """
    texts = [tokenizer.tokenize_prompt(text, special_tokens=True) for text in TEXTS]
    responses = [TokenizedResponse(ids[:1], ids[1:]) for ids in texts]
    # What the outcome depends on: the weights, what is perturbed, the texts' ids, the rule
    of = {name: value for name, value in posterior.settings.items() if name not in ("sigma", "seed")}
    parts = (weight_digest(model, ()), str(model.dtype), of, texts, PAPER.sigma, MOST_KL, _NUM_DRAWS)
    kept = cache / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.json"
    with suppress(TokurError):
        return read_json(str(kept), Strength, "tokur score")
    progress("measuring how far draws move this model (once for this model)")

    @functools.cache
    def divergence(sigma: float) -> float:
        draws = Draws(replace(posterior, sigma=sigma, seed=PAPER.seed), _NUM_DRAWS)
        scorer = Scorer(model, draws, batch_tokens=batch_tokens, compare=True)
        values = []
        for _, result in scorer.score(responses):
            if isinstance(result, TokurError):
                raise result
            values.append(result["kl"])
        return float(np.concatenate(values).mean(dtype=np.float64))

    found = _suitable(divergence)
    # A cache that cannot be written costs time at the next start, nothing else
    with suppress(OSError), replacing(kept) as unfinished:
        unfinished.write_text(json.dumps(asdict(found)))
    return found


def _suitable(divergence: Callable[[float], float]) -> Strength:
    """Return the paper's strength or, where that is too much or no number, the largest within ``MOST_KL``."""
    paper_kl = divergence(PAPER.sigma)
    if paper_kl <= MOST_KL:
        return Strength(PAPER.sigma, paper_kl)
    largest = largest_sigma(lambda sigma: divergence(_rounded(sigma)), MOST_KL, start=PAPER.sigma)
    return Strength(_rounded(largest), paper_kl if math.isfinite(paper_kl) else None)


def _rounded(sigma: float) -> float:
    """Return two significant digits: more would only tell one processor's rounding from another's."""
    return float(f"{sigma:.2g}")


def largest_sigma(divergence: Callable[[float], float], tolerance: float, *, start: float = 0.1) -> float:
    """Find the largest σ with divergence(σ) ≤ tolerance, in at most 12 evaluations.

    The divergence grows about as σ² for small σ: steps follow that law until the answer is between two strengths,
    then cut the interval where log divergence, a straight line in log σ, meets the tolerance. With the same
    underlying noise at every σ the divergence is a smooth function of it, so that no evaluation is lost on noise.

    Args:
        divergence: of the draws from the mean weights, in nats; NaN and infinity count as too large.
        tolerance: above 0, in nats.
        start: the σ to begin with.

    Returns:
        A strength whose divergence was evaluated and is within the tolerance.

    Raises:
        TokurError: every strength that was tried is too large, or none is.
    """
    inside: tuple[float, float] | None = None  # (σ, divergence)
    outside: tuple[float, float] | None = None
    sigma = start
    for _ in range(SWEEPS):
        value = divergence(sigma)
        if value <= tolerance:
            inside = sigma, value
            step = min(1.1 * math.sqrt(tolerance / max(value, 1e-12)), _FARTHEST)
        else:
            outside = sigma, value
            step = max(1 / _FARTHEST, 0.9 * math.sqrt(tolerance / value))  # of NaN, max keeps the first
        if inside is None or outside is None:
            sigma *= step  # a little past where σ² says
        elif outside[0] <= inside[0] * PRECISION:
            break
        else:  # where the log-log line through both meets the tolerance, kept away from the interval's ends
            share = 0.5
            if inside[1] > 0 and math.isfinite(outside[1]):
                share = math.log(tolerance / inside[1]) / math.log(outside[1] / inside[1])
            sigma = float(inside[0] * (outside[0] / inside[0]) ** min(max(share, 0.1), 0.9))
    if inside is None or outside is None:
        way = "more" if inside is None else "less"
        tried, value = inside or outside or (sigma, math.nan)
        raise TokurError(f"even σ = {tried:.3g} moves the model by {value:.3g} nats a token, {way} than {tolerance:g}")
    return inside[0]
