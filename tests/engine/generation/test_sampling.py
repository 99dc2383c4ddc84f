import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from tokur_cli.engine.generation.sampling import Sampling, choose_tokens, random_word
from tokur_cli.engine.noise import words


def random_words(count, name="test"):
    return words((name,), 0, count).view("int64").tolist()


def counts(logits, sampling, draws=20_000):
    """How often each token is chosen with as many random words: (V,)."""
    chosen = choose_tokens(logits.expand(draws, -1), sampling, random_words(draws))
    return torch.bincount(chosen, minlength=logits.shape[-1]).numpy()


def assert_distributed(found, p):
    """Assert that counts (V,) are those of draws from p (V,), by Pearson's test; rare tokens are counted together."""
    assert not found[p == 0].any()
    expected = p / p.sum() * found.sum()
    often = expected >= 5
    found, expected = (np.append(v[often], v[~often].sum()) for v in (found, expected))
    some = expected > 0
    assert some.sum() == 1 or chisquare(found[some], expected[some]).pvalue > 1e-3


SETTINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=1.5, top_k=5),
    Sampling(temperature=1.0, top_p=0.6),
    Sampling(temperature=0.8, top_p=0.95),
    Sampling(temperature=1.0, min_p=0.2),
    Sampling(temperature=1.2, top_k=40, top_p=0.8, min_p=0.05),
    Sampling(temperature=1.0, top_p=0.0),
    Sampling(temperature=1.0, top_k=4, top_p=0.7),
]


@pytest.mark.parametrize("sampling", SETTINGS)
def test_choose_tokens_has_the_distribution_of_transformers_logits_processors(sampling):
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    logits = 2 * torch.randn(1, 300, generator=torch.Generator().manual_seed(300))
    warpers = [TemperatureLogitsWarper(sampling.temperature)]
    warpers += [TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
    warpers += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
    warpers += [MinPLogitsWarper(sampling.min_p)] if sampling.min_p else []
    expected = LogitsProcessorList(warpers)(None, logits.clone()).softmax(-1)[0].double().numpy()
    assert_distributed(counts(logits, sampling), expected)


@pytest.mark.parametrize("size", [17, 5000])
@pytest.mark.parametrize("sampling", [Sampling(), SETTINGS[0], SETTINGS[5]])
def test_choose_tokens_chooses_none_of_numbers_that_are_not_finite(sampling, size):
    logits = torch.randn(5, size, generator=torch.Generator().manual_seed(1))
    random = random_words(5)
    expected = choose_tokens(logits, sampling, random).tolist()
    logits[0, size // 2] = float("nan")
    logits[2] = float("nan")
    logits[3] = float("inf")
    assert choose_tokens(logits, sampling, random).tolist() == [-1, expected[1], -1, -1, expected[4]]


@pytest.mark.parametrize("filters", [{}, {"top_p": 0.9}])
@pytest.mark.parametrize("temperature", [1e-30, 5e-324])
def test_choose_tokens_takes_the_likeliest_at_a_tiny_temperature(filters, temperature):
    logits = 20 * torch.randn(4, 300, generator=torch.Generator().manual_seed(2))
    chosen = choose_tokens(logits, Sampling(temperature, **filters), random_words(4))
    assert chosen.tolist() == logits.argmax(-1).tolist()


WORD = 1 << 64


def mixed(bits):
    """SplitMix64's mixing of 64 bits, in Python's whole numbers."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % WORD
    return bits ^ (bits >> 31)


def gumbel(word, place):
    uniform = ((mixed(word % WORD ^ mixed(place % WORD)) >> 12) + 0.5) * 2.0**-52
    return -math.log(-math.log(uniform))


def kept_weights(logits, sampling):
    """Weights of all tokens in float64, by sorting."""
    p = (logits.double() / sampling.temperature).softmax(-1)
    values, ids = p.sort(descending=True, stable=True)
    if sampling.top_k:
        values[:, sampling.top_k :] = 0
        values /= values.sum(-1, keepdim=True)
    keep = (values.cumsum(-1) - values < sampling.top_p) & (values >= sampling.min_p * values[:, :1])
    return torch.zeros_like(p).scatter(-1, ids, torch.where(keep, values, 0))


def first_of_race(weights, word):
    """The group of 256 with the largest log weight + Gumbel number, then the token in it, and by how much they won."""
    groups = [weights[first : first + 256] for first in range(0, len(weights), 256)]
    scores = sorted((math.log(sum(w)) + gumbel(word, -1 - i), i) for i, w in enumerate(groups) if sum(w))
    place = scores[-1][1]
    members = enumerate(groups[place], 256 * place)
    within = sorted((math.log(w) + gumbel(word, token), token) for token, w in members if w)
    leads = [ranked[-1][0] - ranked[-2][0] for ranked in (scores, within) if len(ranked) > 1]
    return within[-1][1], min(leads, default=1)


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(0.7, 50), Sampling(0.9, 0, 0.9), Sampling(1, min_p=0.1)])
@pytest.mark.parametrize("size", [255, 1000, pytest.param(49152, marks=pytest.mark.slow)])
def test_choose_tokens_is_a_race_in_float64_up_to_ties(sampling, size):
    logits = 4 * torch.randn(20, size, generator=torch.Generator().manual_seed(size))
    chosen = choose_tokens(logits, sampling, random_words(20)).tolist()
    for weights, word, token in zip(kept_weights(logits, sampling).tolist(), random_words(20), chosen, strict=True):
        expected, lead = first_of_race(weights, word)
        assert token == expected or lead < 1e-5


@pytest.mark.parametrize("size", [3, 256, 49152])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_choose_tokens_takes_the_first_of_the_most_likely(size, dtype):
    logits = torch.randn(40, size, generator=torch.Generator().manual_seed(size)).to(dtype)
    largest = logits.amax(-1, keepdim=True)
    first = [row.index(top) for row, (top,) in zip(logits.tolist(), largest.tolist(), strict=True)]
    assert choose_tokens(logits, Sampling(), [0] * 40).tolist() == first


@pytest.mark.parametrize(
    "sampling", [Sampling(1.0), Sampling(0.8, top_p=0.9), Sampling(0.8, 50), Sampling(1, min_p=0.1)]
)
def test_choose_tokens_depends_on_neither_padding_nor_rows_beside(sampling):
    """A vocabulary that is padded, and a batch that is cut otherwise."""
    logits = 3 * torch.randn(30, 4100, generator=torch.Generator().manual_seed(3))
    random = random_words(30)
    whole = choose_tokens(logits, sampling, random).tolist()
    padded = torch.nn.functional.pad(logits, (0, 4000), value=-1e4)
    assert choose_tokens(padded, sampling, random).tolist() == whole
    assert [choose_tokens(logits[i : i + 1], sampling, random[i : i + 1]).item() for i in range(30)] == whole


@pytest.mark.parametrize("sampling", [Sampling(1.0, top_k=3), Sampling(1.0, top_p=0.5), Sampling(1.0, top_p=0.0)])
def test_choose_tokens_keeps_equally_likely_ones_together(sampling):
    """bfloat16 makes many of them: an order among them would be another on another device."""
    logits = torch.full((1, 700), -6.0)
    logits[0, [5, 200, 300, 650]] = 2.0 if sampling.top_p else 3.0
    logits[0, 400] = 3.0
    found = counts(logits, sampling, 5000)
    expected = np.zeros(700)
    expected[[5, 200, 300, 400, 650]] = np.exp(logits[0, [5, 200, 300, 400, 650]].double().numpy())
    assert_distributed(found, expected)


def test_random_word_numbers_of_tokens_groups_and_steps_are_independent():
    """Two tokens in a group, two in two groups, and two steps: every pair of outcomes comes with its product."""
    logits = torch.full((1, 600), float("-inf"))
    logits[0, [0, 1, 256, 599]] = 0.0
    numbers = [random_word(0, "q", 0, token) for token in range(16_000)]
    first, second = (choose_tokens(logits.expand(8000, -1), Sampling(1.0), numbers[begin::2]) for begin in (0, 1))
    pairs = torch.bincount(first * 600 + second, minlength=360_000).view(600, 600)
    four = pairs[[0, 1, 256, 599]][:, [0, 1, 256, 599]].flatten().numpy()
    assert four.sum() == 8000
    assert chisquare(four).pvalue > 1e-3


def test_random_word_is_another_for_each_seed_question_sample_step_and_token():
    found = [random_word(0, "q1", 3, token) for token in range(200)]
    found += [random_word(*of, 0) for of in ((1, "q1", 3), (0, "q2", 3), (0, "q1", 4))]
    found += [random_word(0, "q1", 3, 0, step) for step in range(2)]
    assert len(set(found)) == 205
    assert -(2**63) <= min(found) < -(2**61) < 2**61 < max(found) < 2**63
