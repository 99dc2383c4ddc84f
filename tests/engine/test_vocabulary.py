import numpy as np
import pytest
import torch

from tests.engine.oracle import reference_quantities
from tokur_cli.engine import vocabulary
from tokur_cli.engine.vocabulary import QUANTITIES, token_quantities


def reduce(logits: torch.Tensor, targets: list[int], starts: list[int], joint: bool = False):
    """Quantities of given logits (1 + M, N, V): the hidden states are the logits themselves."""
    got = token_quantities(lambda states: states, logits, torch.tensor(targets), torch.tensor(starts), joint=joint)
    return {name: values.double().numpy() for name, values in got.items()}


@pytest.mark.parametrize("vocabulary_size", [21, 252, 507, 4099])
@pytest.mark.parametrize("block_tokens", [1, 3, 1000])
@pytest.mark.parametrize("joint", [False, True])
def test_blocks_of_any_size_give_the_float64_numbers(vocabulary_size, block_tokens, joint, monkeypatch):
    monkeypatch.setitem(vocabulary._BLOCK_BYTES, "cpu", 4 * 4 * vocabulary_size * block_tokens)
    generator = torch.Generator().manual_seed(vocabulary_size)
    sizes = [4, 1, 6]
    logits = 5 * torch.randn(4, sum(sizes), vocabulary_size, generator=generator)
    targets = torch.randint(vocabulary_size, (sum(sizes),), generator=generator).tolist()
    starts = [0] * 4 + [4] + [5] * 6
    got = reduce(logits, targets, starts, joint)
    assert tuple(got) == QUANTITIES
    log_p = logits.double().log_softmax(-1)
    for first, size in zip((0, 4, 5), sizes, strict=True):
        part = slice(first, first + size)
        expected = reference_quantities(log_p[0, part], list(log_p[1:, part]), targets[part], joint=joint)
        for name, values in expected.items():
            assert got[name][part] == pytest.approx(values, abs=2e-5), name


def test_vocabulary_entries_of_probability_zero_contribute_nothing():
    logits = torch.randn(3, 2, 40)
    padded = torch.cat([logits, torch.full((3, 2, 10), -torch.inf)], dim=-1)
    got, expected = reduce(padded, [1, 2], [0, 0]), reduce(logits, [1, 2], [0, 0])
    for name in ("logprob", "entropy", "tu", "au", "eu", "deepconf"):
        assert got[name] == pytest.approx(expected[name], abs=1e-6), name
    assert np.isinf(got["self_certainty"]).all(), "the mean of log p over the vocabulary is −∞"


def test_a_broken_model_is_seen_in_the_numbers():
    logits = torch.randn(3, 2, 40)
    logits[:, 1, 3] = torch.nan
    got = reduce(logits, [1, 2], [0, 0])
    for name, values in got.items():
        assert np.isfinite(values[0]), name
        assert np.isnan(values[1]), name


def test_known_distributions():
    """Uniform under one draw, certain under the other: TU, AU and EU by hand."""
    size = 32
    uniform, certain = torch.zeros(size), torch.full((size,), -1e4)
    certain[0] = 0
    got = reduce(torch.stack([uniform, uniform, certain])[:, None], [0], [0])
    mixture = np.array([0.5 + 0.5 / size] + [0.5 / size] * (size - 1))
    total = -(mixture * np.log(mixture)).sum()
    assert got["logprob"] == pytest.approx(-np.log(size))
    assert got["self_certainty"] == pytest.approx(0, abs=1e-6)
    assert got["deepconf"] == pytest.approx(np.log(size))
    assert got["au"] == pytest.approx(np.log(size) / 2)
    assert got["tu"] == pytest.approx(total)
    assert got["eu"] == pytest.approx(total - np.log(size) / 2)
