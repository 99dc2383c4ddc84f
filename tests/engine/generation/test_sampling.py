import numpy as np
import pytest
import torch

from tokur_cli.engine.generation.sampling import RandomStream, Sampling, choose_tokens


def frequencies(logits, sampling, draws=20_000):
    """How often each token is chosen over an even grid of random numbers: the distribution itself, up to 1/draws."""
    grid = [(i + 0.5) / draws for i in range(draws)]
    chosen = choose_tokens(logits.expand(draws, -1), sampling, grid)
    return torch.bincount(chosen, minlength=logits.shape[-1]).double().numpy() / draws


SETTINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.7),
    Sampling(temperature=1.5, top_k=5),
    Sampling(temperature=1.0, top_p=0.6),
    Sampling(temperature=0.8, top_p=0.95),
    Sampling(temperature=1.0, min_p=0.2),
    Sampling(temperature=1.2, top_k=40, top_p=0.8, min_p=0.05),
    Sampling(temperature=1.0, top_p=0.0),
    Sampling(temperature=1.0, top_k=2, top_p=0.5),
    Sampling(temperature=1.0, top_k=4, top_p=0.7),
]


@pytest.mark.parametrize("sampling", SETTINGS)
@pytest.mark.parametrize("size", [17, 300])
def test_tokens_have_the_distribution_of_transformers_logits_processors(sampling, size):
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    logits = 2 * torch.randn(1, size, generator=torch.Generator().manual_seed(size))
    warpers = [TemperatureLogitsWarper(sampling.temperature)]
    warpers += [TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
    warpers += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
    warpers += [MinPLogitsWarper(sampling.min_p)] if sampling.min_p else []
    expected = LogitsProcessorList(warpers)(None, logits.clone()).softmax(-1)[0].double().numpy()
    assert frequencies(logits, sampling) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("size", [17, 300, 5000])
@pytest.mark.parametrize("sampling", [Sampling(), *SETTINGS])
def test_of_numbers_that_are_not_finite_no_token_is_chosen_and_beside_them_as_ever(sampling, size):
    logits = torch.randn(5, size, generator=torch.Generator().manual_seed(1))
    random = [0.1, 0.5, 0.9, 0.99, 0.3]
    expected = choose_tokens(logits, sampling, random).tolist()
    logits[0, size // 2] = float("nan")
    logits[2] = float("nan")
    logits[3] = float("inf")
    assert choose_tokens(logits, sampling, random).tolist() == [-1, expected[1], -1, -1, expected[4]]


@pytest.mark.parametrize("filters", [{}, {"top_k": 2}, {"top_p": 0.9}, {"min_p": 0.1}])
@pytest.mark.parametrize("temperature", [1e-30, 1e-40, 5e-324])
def test_a_tiny_temperature_takes_the_likeliest_token(filters, temperature):
    logits = 20 * torch.randn(4, 300, generator=torch.Generator().manual_seed(2))
    chosen = choose_tokens(logits, Sampling(temperature, **filters), [0.0, 0.4, 0.8, 1 - 2**-53])
    assert chosen.tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize("filters", [{}, {"top_k": 2}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_the_least_and_the_largest_random_number_choose_the_first_and_the_last_token_there_is(filters):
    never = float("-inf")
    logits = torch.tensor([[never, 2.0, never, 2.5, never]]).expand(2, -1)
    assert choose_tokens(logits, Sampling(1.0, **filters), [0.0, 1 - 2**-53]).tolist() == [1, 3]


def kept_weights(logits, sampling):
    """Weights of all tokens in float64, by sorting."""
    p = (logits.double() / sampling.temperature).softmax(-1)
    values, ids = p.sort(descending=True, stable=True)
    if sampling.top_k:
        values[:, sampling.top_k :] = 0
        values /= values.sum(-1, keepdim=True)
    keep = (values.cumsum(-1) - values < sampling.top_p) & (values >= sampling.min_p * values[:, :1])
    return torch.zeros_like(p).scatter(-1, ids, torch.where(keep, values, 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampling", [Sampling(1.0), Sampling(0.7, 50), Sampling(0.9, 0, 0.9), Sampling(1.0, 0, 1.0, 0.1)]
)
@pytest.mark.parametrize("size", [255, 256, 1000, 49152])
def test_choices_are_those_of_float64_up_to_ties(sampling, size):
    generator = torch.Generator().manual_seed(size)
    logits = 4 * torch.randn(200, size, generator=generator)
    weights = kept_weights(logits, sampling)
    random = torch.rand(200, generator=generator, dtype=torch.float64)
    share = random * weights.sum(-1)
    ends = weights.cumsum(-1)
    chosen = choose_tokens(logits, sampling, random.tolist())[:, None]
    above = ends.gather(-1, chosen)[:, 0]
    below = above - weights.gather(-1, chosen)[:, 0]
    assert bool((weights.gather(-1, chosen) > 0).all())
    assert bool((below - 1e-6 <= share).all() and (share <= above + 1e-6).all())


@pytest.mark.parametrize("size", [3, 256, 700, 49152])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_first_of_the_most_likely_tokens_is_taken(size, dtype):
    logits = torch.randn(40, size, generator=torch.Generator().manual_seed(size)).to(dtype)
    largest = logits.amax(-1, keepdim=True)
    first = [row.index(top) for row, (top,) in zip(logits.tolist(), largest.tolist(), strict=True)]
    assert choose_tokens(logits, Sampling(), [0.0] * 40).tolist() == first


def test_temperature_zero_takes_the_most_likely_token():
    logits = torch.tensor([[0.0, 3.0, 1.0], [5.0, 4.9, -1.0]])
    assert choose_tokens(logits, Sampling(), [0.99, 0.99]).tolist() == [1, 0]


def test_a_tiny_change_of_the_logits_changes_a_choice_only_at_a_border():
    """Two tokens that swap their ranks must not swap their intervals."""
    sampling = Sampling(temperature=1.0, top_p=0.9)
    logits = torch.randn(1, 50)
    logits[0, 3] = logits[0, 7] = logits.max() + 1
    up, down = logits.clone(), logits.clone()
    up[0, 3] += 1e-6
    down[0, 3] -= 1e-6
    grid = [(i + 0.5) / 2000 for i in range(2000)]
    choices = [choose_tokens(x.expand(2000, -1), sampling, grid) for x in (up, down)]
    assert (choices[0] != choices[1]).sum() <= 2


def test_random_numbers_depend_on_seed_question_sample_and_step_alone():
    stream = RandomStream(0, "q1", 3)
    forwards = [stream.at(step) for step in range(200)]
    assert [RandomStream(0, "q1", 3).at(step) for step in (199, 64, 0)] == [forwards[i] for i in (199, 64, 0)]
    assert [stream.at(step) for step in reversed(range(200))] == forwards[::-1]
    assert len(set(forwards)) == 200
    others = [RandomStream(*key).at(0) for key in ((1, "q1", 3), (0, "q2", 3), (0, "q1", 4))]
    assert len({forwards[0], *others}) == 4
    assert 0 <= min(forwards) < max(forwards) < 1
    assert abs(np.mean(forwards) - 0.5) < 0.1
