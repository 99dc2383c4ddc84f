"""U′ is what NumPy's decomposition in float64 has, however it is computed."""

import numpy as np
import pytest
import torch

from tokur_cli.engine.posterior import singular
from tokur_cli.engine.posterior.singular import left_singular_vectors


def weight_of(rows, columns, values):
    """A weight with these singular values, those at the front the largest."""
    generator = torch.Generator().manual_seed(rows)
    left, right = (torch.linalg.qr(torch.randn(size, len(values), generator=generator))[0] for size in (rows, columns))
    return left * torch.tensor(values) @ right.T


def expected(weight, rank):
    left = np.linalg.svd(weight.double().numpy(), full_matrices=False)[0][:, :rank]
    largest = np.take_along_axis(left, np.abs(left).argmax(0)[None], 0)
    return left * np.sign(largest)


def test_vectors_of_close_singular_values_are_the_same_on_every_machine():
    weight = torch.randn(576, 192, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(left_singular_vectors(weight, 8).numpy(), expected(weight, 8), atol=1e-7)


@pytest.mark.parametrize(
    ("rows", "columns", "values"),
    [
        (1100, 1300, np.arange(1, 1101) ** -0.5),  # falling slowly, as a model's do
        (1300, 700, 0.99 ** np.arange(700)),
        (600, 1100, [3.0, 2.999, 2.998, *(2 * np.arange(1, 598) ** -0.5)]),  # three that nearly coincide
        (1200, 1200, 2.0 ** -np.arange(12)),  # of rank 12, less than a block
    ],
    ids=["slow", "tall", "close", "low rank"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_weight_is_not_decomposed_whole(rows, columns, values, dtype, monkeypatch):
    weight = weight_of(rows, columns, np.asarray(values, np.float32).tolist()).to(dtype)
    at_first = expected(weight.float(), 8)
    monkeypatch.setattr(torch.linalg, "svd", None)
    np.testing.assert_allclose(left_singular_vectors(weight, 8).numpy(), at_first, atol=1e-7)


def test_where_the_vectors_do_not_stand_out_the_whole_is_decomposed(monkeypatch):
    weight = torch.randn(80, 1100, generator=torch.Generator().manual_seed(0))
    assert singular._by_krylov(weight.double(), 8) is None
    np.testing.assert_allclose(left_singular_vectors(weight, 8).numpy(), expected(weight, 8), atol=1e-7)
    most = left_singular_vectors(weight, 80)
    np.testing.assert_allclose(most.T @ most, np.eye(80), atol=1e-5)
