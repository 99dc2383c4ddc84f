import numpy as np
import pytest
import torch

from tests.engine.oracle import reference_quantities
from tokur_cli.engine.scoring import quantities
from tokur_cli.engine.scoring.quantities import token_quantities
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES


def reduce(logits: torch.Tensor, targets: list[int], counts: list[int], joint: bool = False, **options):
    """Quantities of given logits (1 + M, N, V): the hidden states are the logits themselves."""
    before = torch.zeros(len(counts), len(logits) - 1, dtype=torch.float64) if joint else None
    got = token_quantities(lambda states: states, logits, torch.tensor(targets), counts, before=before, **options)
    got.pop("draw_log_p", None)
    return {name: values.double().numpy() for name, values in got.items()}


@pytest.mark.parametrize("vocabulary_size", [21, 507, 6001])
@pytest.mark.parametrize("block_tokens", [1, 3, 1000])
@pytest.mark.parametrize("joint", [False, True])
def test_token_quantities_in_blocks_of_any_size_are_those_of_float64(vocabulary_size, block_tokens, joint, monkeypatch):
    monkeypatch.setattr(quantities, "_FIRST_BLOCK", min(4, block_tokens))
    monkeypatch.setitem(quantities._BLOCK_BYTES, "cpu", 4 * 4 * vocabulary_size * block_tokens)
    monkeypatch.setitem(quantities._REDUCED_BYTES, "cpu", 4 * 4 * vocabulary_size * min(2, block_tokens))
    generator = torch.Generator().manual_seed(vocabulary_size)
    sizes = [4, 1, 6]
    logits = 5 * torch.randn(4, sum(sizes), vocabulary_size, generator=generator)
    targets = torch.randint(vocabulary_size, (sum(sizes),), generator=generator).tolist()
    got = reduce(logits, targets, sizes, joint)
    assert list(got) == ["logprob", "entropy", "tu", "au", "eu", "self_certainty", "deepconf"]
    assert set(got) == QUANTITIES.keys() - ON_DEMAND
    log_p = logits.double().log_softmax(-1)
    for first, size in zip((0, 4, 5), sizes, strict=True):
        part = slice(first, first + size)
        expected = reference_quantities(log_p[0, part], list(log_p[1:, part]), targets[part], joint=joint)
        for name, values in expected.items():
            assert got[name][part] == pytest.approx(values, abs=2e-5), name


@pytest.mark.parametrize("draws", [0, 2])
def test_token_quantities_margin_is_the_difference_of_the_two_largest_probabilities(draws):
    logits = 3 * torch.randn(1 + draws, 50, 300, generator=torch.Generator().manual_seed(1))
    got = reduce(logits.clone(), [0] * 50, [50], on_demand={"margin"})["margin"]
    largest = logits[0].double().softmax(-1).sort(-1, descending=True).values
    assert got == pytest.approx((largest[:, 0] - largest[:, 1]).numpy(), abs=1e-6)


@pytest.mark.parametrize("draws", [1, 3])
def test_token_quantities_compare_draws_as_float64_does(draws):
    generator = torch.Generator().manual_seed(draws)
    logits = torch.randn(1 + draws, 60, 9, generator=generator)
    targets = torch.randint(9, (60,), generator=generator)
    got = reduce(logits.clone(), targets.tolist(), [60], compare=True)
    base, *others = logits.double().log_softmax(-1).numpy()
    likeliest, places = base.argmax(-1), targets.numpy()
    expected = {
        "kl": [np.sum(np.exp(base) * (base - other), -1) for other in others],
        "top1_agreement": [other.argmax(-1) == likeliest for other in others],
        "accuracy": [other.argmax(-1) == places for other in others],
        "base_accuracy": [likeliest == places],
    }
    assert set(got) == (QUANTITIES.keys() - ON_DEMAND) | expected.keys()
    for name, values in expected.items():
        assert got[name] == pytest.approx(np.mean(values, axis=0), abs=1e-6), name


def test_token_quantities_leave_out_entries_of_probability_zero():
    logits = torch.randn(3, 2, 40)
    padded = torch.cat([logits, torch.full((3, 2, 10), -torch.inf)], dim=-1)
    got, expected = reduce(padded, [1, 2], [2]), reduce(logits, [1, 2], [2])
    for name in ("logprob", "entropy", "tu", "au", "eu", "deepconf"):
        assert got[name] == pytest.approx(expected[name], abs=1e-6), name
    assert np.isinf(got["self_certainty"]).all(), "the mean of log p over the vocabulary is −∞"


@pytest.mark.parametrize("block_tokens", [1, 2, 1000])
@pytest.mark.parametrize("broken", [torch.nan, -torch.inf])
def test_token_quantities_joint_weights_know_nothing_of_earlier_responses(broken, block_tokens, monkeypatch):
    monkeypatch.setattr(quantities, "_FIRST_BLOCK", min(4, block_tokens))
    monkeypatch.setitem(quantities._BLOCK_BYTES, "cpu", 3 * 4 * 40 * block_tokens)
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 7, 40, generator=generator)
    logits[:, 1, 3] = broken  # of the second token, which is token 3
    got = reduce(logits.clone(), [2, 3, 4, 5, 6, 7, 8], [3, 3, 1], joint=True)
    assert np.isnan(got["eu"][2]), "no draw made the first response possible"
    log_p = logits.double().log_softmax(-1)
    for part in (slice(3, 6), slice(6, 7)):
        expected = reference_quantities(
            log_p[0, part], list(log_p[1:, part]), [5, 6, 7, 8][part.start - 3 : part.stop - 3], joint=True
        )
        for name, values in expected.items():
            assert got[name][part] == pytest.approx(values, abs=2e-5), name


def test_token_quantities_show_a_broken_model():
    logits = torch.randn(3, 2, 40)
    logits[:, 1, 3] = torch.nan
    got = reduce(logits, [1, 2], [2])
    for name, values in got.items():
        assert np.isfinite(values[0]), name
        assert np.isnan(values[1]), name


def test_token_quantities_of_equal_draws_disagree_by_rounding():
    """Epistemic uncertainty is a small difference of large entropies."""
    generator = torch.Generator().manual_seed(0)
    for spread in (0.5, 2.0, 6.0):
        logits = (spread * torch.randn(1, 32, 49_152, generator=generator)).repeat(3, 1, 1)
        assert reduce(logits, [0] * 32, [32])["eu"].max() < 4e-6


def test_places_of_largest_are_found_wherever_they_stand():
    generator = torch.Generator().manual_seed(0)
    for size in (25, 5120, 5121, 6143, 20_000):
        values = torch.randn(4, size, generator=generator)
        values[1, -30:] += 10  # all in the last groups and what is left over
        values[2, 64:128] += 10  # more than 20 in one group
        values[3] = 0
        got = values.gather(1, quantities.places_of_largest(values, 20))
        assert torch.equal(got, values.sort(descending=True).values[:, :20])


@pytest.mark.parametrize(("vocabulary_size", "joint", "estimator"), [(9, True, "paper"), (6001, False, "fisher")])
def test_token_quantities_alternatives_are_the_likeliest_of_float64(vocabulary_size, joint, estimator, monkeypatch):
    monkeypatch.setitem(quantities._BLOCK_BYTES, "cpu", 4 * 4 * vocabulary_size * 3)
    generator = torch.Generator().manual_seed(vocabulary_size)
    logits = 4 * torch.randn(4, 11, vocabulary_size, generator=generator)
    targets = torch.randint(vocabulary_size, (11,), generator=generator).tolist()
    options = {"joint": joint, "estimator": estimator}
    got = reduce(logits.clone(), targets, [5, 6], alternatives=5, **options)
    plain = reduce(logits.clone(), targets, [5, 6], **options)
    assert set(got) - set(plain) == set(quantities.ALTERNATIVES)
    undrawn = reduce(logits[:1].clone(), targets, [11], alternatives=5)
    assert undrawn.keys() >= {"likeliest", "likeliest_p"}
    assert not undrawn.keys() & {"likeliest_mean", "of_draws"}
    assert all(np.array_equal(values, got[name]) for name, values in plain.items())
    log_p = logits.double().log_softmax(-1).numpy()
    weights = np.ones((3, 11)) / 3
    if joint:
        for first, end in ((0, 5), (5, 11)):
            for token in range(first, end):
                so_far = [sum(log_p[m, t, targets[t]] for t in range(first, token)) for m in (1, 2, 3)]
                weights[:, token] = np.exp(so_far - np.max(so_far)) / np.exp(so_far - np.max(so_far)).sum()
    for token in range(11):
        likeliest = np.argsort(-log_p[0, token])[:5]
        assert got["likeliest"][token].tolist() == likeliest.tolist()
        assert got["likeliest_p"][token] == pytest.approx(np.exp(log_p[0, token, likeliest]), abs=1e-6)
        mean = sum(weights[m, token] * np.exp(log_p[1 + m, token, likeliest]) for m in range(3))
        assert got["likeliest_mean"][token] == pytest.approx(mean, abs=1e-6)
        assert got["of_draws"][token].tolist() == [log_p[1 + m, token].argmax() for m in range(3)]
