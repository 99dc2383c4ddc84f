"""The strength that suits a model: against brute force in float64, and what it does not depend on."""

import copy
import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from tests.engine import oracle
from tests.engine.oracle import same_projected_noise
from tests.tiny import CONTEXT_LENGTH, QUIET, quieten, tiny_model, tiny_tokenizer
from tokur_cli.engine.posterior import strength
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import MOST_KL, PosteriorSettings
from tokur_cli.engine.posterior.strength import PRECISION, SWEEPS, largest_sigma, suitable_strength
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError

TOKENIZER = ResponseTokenizer(tiny_tokenizer(), CONTEXT_LENGTH)
START = TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", 257)])
TOKENIZER.tokenizer.backend_tokenizer.post_processor = START


def sensitive(factor=1.0):
    """A tiny Llama that the paper's strength moves too far: of the same outputs for each factor, moved less by it."""
    model = tiny_model("llama")
    quieten(model, factor)
    return model


@pytest.fixture
def measured(monkeypatch):
    """The strengths that were tried."""
    tried = []
    draws = strength.Draws

    def counted(posterior, members):
        tried.append(posterior.sigma)
        return draws(posterior, members)

    monkeypatch.setattr(strength, "Draws", counted)
    return tried


def found(model, cache, **settings):
    posterior = build_posterior(model, PosteriorSettings(**settings))
    return suitable_strength(model, posterior, TOKENIZER, batch_tokens=4096, cache=cache)


def divergence(model, sigma, texts):
    """Mean KL(p_0 ‖ p_m) of a token by weights that are really perturbed at each step, in float64."""
    posterior = build_posterior(model, PosteriorSettings(sigma=sigma))
    exact, values = copy.deepcopy(model).double(), []
    for text in texts:
        prompt, ids = text[:1], text[1:]
        base = oracle.log_probabilities(exact, prompt, ids)
        for member in range(2):
            noise = same_projected_noise(posterior, member)
            drawn = oracle.stepwise_log_probabilities(model, posterior, member, prompt, ids, noise)
            values.append((base.exp() * (base - drawn)).sum(-1).numpy())
    return np.concatenate(values).mean()


@pytest.mark.parametrize("factor", [1, QUIET])
def test_suitable_strength_measures_weights_really_perturbed(factor, tmp_path, monkeypatch):
    texts = ("Tom has 3 apples.", "2 + 2 = 4")
    monkeypatch.setattr(strength, "TEXTS", texts)
    model = sensitive(factor)
    ids = [TOKENIZER.tokenize_prompt(text, special_tokens=True) for text in texts]
    got = found(model, tmp_path)
    assert got.paper_kl == pytest.approx(divergence(model, 0.1, ids), rel=1e-4)
    assert divergence(model, got.sigma, ids) <= MOST_KL * (1 + 1e-4)


def test_suitable_strength_is_the_papers_where_that_moves_the_model_little_enough(tmp_path, measured):
    got = found(sensitive(QUIET), tmp_path)
    assert (got.sigma, measured) == (0.1, [0.1])
    assert got.paper_kl <= MOST_KL


def test_suitable_strength_of_a_sensitive_model_is_the_largest_within_the_bound(tmp_path):
    """To two digits: the next one up is beyond it."""
    model = sensitive()
    got = found(model, tmp_path)
    assert got.paper_kl > MOST_KL
    assert float(f"{got.sigma:.2g}") == got.sigma < 0.1
    ids = [TOKENIZER.tokenize_prompt(text, special_tokens=True) for text in strength.TEXTS]
    at, higher = (replace(build_posterior(model), sigma=sigma) for sigma in (got.sigma, 1.07 * got.sigma))
    assert _mean_kl(model, at, ids) <= MOST_KL < _mean_kl(model, higher, ids)


def _mean_kl(model, posterior, ids):
    scorer = strength.Scorer(model, strength.Draws(posterior, 2), compare=True)
    responses = [strength.TokenizedResponse(text[:1], text[1:]) for text in ids]
    return np.concatenate([quantities["kl"] for _, quantities in scorer.score(responses)]).mean()


def test_suitable_strength_is_measured_once_for_a_model_and_what_is_perturbed(tmp_path, measured, monkeypatch):
    monkeypatch.setattr(strength, "TEXTS", ("Tom has 3 apples.", "2 + 2 = 4"))
    model = sensitive()
    first = found(model, tmp_path)
    tries = len(measured)
    assert 1 < tries <= 10
    assert found(sensitive(), tmp_path, seed=5, sigma=0.7) == first
    assert len(measured) == tries, "neither seed nor strength matter"
    assert found(sensitive(), tmp_path / "anew", seed=5, sigma=0.7) == first
    for settings in ({"rank": 1}, {"targets": "v_proj"}, {"layers": "1:"}):
        assert found(model, tmp_path, **settings) != first
    assert len(measured) > tries


def test_suitable_strength_takes_what_is_not_finite_as_too_far():
    """A strength under which a layer overflows is none; within 5 % of the bound is near enough."""
    overflowing = {0.1: float("nan")}
    chosen = strength._suitable(lambda sigma: overflowing.get(sigma, 12 * sigma**2))
    assert 0.05 / 1.05 <= chosen.sigma <= 0.05
    assert chosen.paper_kl is None, "JSON has no such number"
    within, beyond = (strength._suitable(lambda sigma, kl=kl: kl * sigma**2) for kl in (2.9, 4.0))
    assert beyond.sigma < within.sigma == 0.1
    for low in (0.0499, 0.0):
        steep = largest_sigma(lambda sigma, low=low: low if sigma < 0.12 else 50.0, 0.05)
        assert 0.12 / 1.06 < steep < 0.12, "where it jumps, each sweep still cuts off a tenth"


@given(
    scale=st.floats(1e-3, 1e3), power=st.floats(1.5, 3.0), ceiling=st.floats(1.0, 10.0), tolerance=st.floats(0.005, 0.3)
)
@example(scale=0.001, power=2.0, ceiling=1.0, tolerance=0.1875)  # levels off far below where the search begins
def test_largest_sigma_is_found_from_below_in_a_dozen_sweeps(scale, power, ceiling, tolerance):
    """A divergence that grows as a power and levels off, as a language model's does."""
    calls = []

    def divergence(sigma):
        calls.append(sigma)
        return ceiling * -math.expm1(-((sigma / scale) ** power) / ceiling)

    exact = scale * (-ceiling * math.log1p(-tolerance / ceiling)) ** (1 / power)
    found = largest_sigma(divergence, tolerance)
    assert exact / (PRECISION * 1.05) <= found == max(sigma for sigma in calls if sigma <= exact)
    assert len(calls) <= SWEEPS <= 12


@pytest.mark.parametrize(
    ("scale", "then"),
    [(0, (3, 90)), (1, (0.11 * 5**0.5, 0.05**0.5)), (20, (0.045, 0.05)), (math.inf, (1 / 300, 1 / 9000))],
)
def test_largest_sigma_steps_past_where_the_square_law_says_at_most_thirtyfold_and_then_meets_it(scale, then):
    tried = []
    with suppress(TokurError):
        largest_sigma(lambda sigma: tried.append(sigma) or scale * sigma**2, 0.05)
    assert tried[:3] == pytest.approx([0.1, *then])


def test_largest_sigma_says_where_there_is_none():
    with pytest.raises(TokurError, match=r"even σ = [\d.e-]+ moves the model by 1 nats a token, more than 0\.05"):
        largest_sigma(lambda sigma: 1.0, 0.05)
    with pytest.raises(TokurError, match=r"even σ = [\d.e+]+ moves the model by 0 nats a token, less than 0\.05"):
        largest_sigma(lambda sigma: 0.0, 0.05)
