"""Attention under a mask: literally, in float64."""

from __future__ import annotations

import itertools

import pytest
import torch

from tokur_cli.engine.forward import attention


@pytest.mark.parametrize(("queries", "causal"), [(1, True), (3, True), (70, True), (70, False)])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_attend_gives_what_every_head_reads_of_the_columns_that_its_row_has(kv_heads, queries, causal):
    generator = torch.Generator().manual_seed(kv_heads)
    query = torch.randn(3, 6, queries, 4, generator=generator, dtype=torch.float64)
    key, value = torch.randn(2, 3, kv_heads, queries + 2, 4, generator=generator, dtype=torch.float64)
    mask = torch.ones(3, 1, queries, queries + 2, dtype=torch.bool).tril(2)
    mask[1:, ..., 0] = False
    mask[2, 0, 0, -1] |= not causal
    got, _ = attention._attend(torch.nn.Module(), query, key, value, mask, scaling=0.3)
    for row, head, place in itertools.product(range(3), range(6), range(queries)):
        seen, group = mask[row, 0, place], head // (6 // kv_heads)
        weights = (key[row, group, seen] @ query[row, head, place] * 0.3).softmax(0)
        torch.testing.assert_close(got[row, place, head], weights @ value[row, group, seen], rtol=0, atol=1e-12)


def test_attend_adds_nothing_to_the_rounding_of_what_it_returns():
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(4, heads, 300, 64, generator=generator).bfloat16() for heads in (9, 3, 3))
    inputs, mask = (query[:, :, :1] * 2, key, value), torch.ones(4, 1, 1, 300, dtype=torch.bool)
    got, _ = attention._attend(torch.nn.Module(), *inputs, mask, scaling=0.125)
    exact, _ = attention._attend(torch.nn.Module(), *(each.double() for each in inputs), mask, scaling=0.125)
    assert (got - exact).norm() < 2.5e-3 * exact.norm()  # 2^-9 and some
