"""Attention of one query a row: literally, in float64."""

from __future__ import annotations

import pytest
import torch

from tokur_cli.engine.generation import cache


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_attend_gives_what_every_head_reads_of_the_columns_that_its_row_has(kv_heads):
    generator = torch.Generator().manual_seed(kv_heads)
    query = torch.randn(3, 6, 1, 4, generator=generator, dtype=torch.float64)
    key, value = torch.randn(2, 3, kv_heads, 5, 4, generator=generator, dtype=torch.float64)
    mask = torch.arange(5) >= torch.tensor([[0], [2], [4]])
    got, _ = cache._attend(torch.nn.Module(), query, key, value, mask[:, None, None], scaling=0.3)
    assert got.shape == (3, 1, 6, 4)
    for row in range(3):
        for head in range(6):
            group = head // (6 // kv_heads)
            keys, values = key[row, group, mask[row]], value[row, group, mask[row]]
            weights = (keys @ query[row, head, 0] * 0.3).softmax(0)
            torch.testing.assert_close(got[row, 0, head], weights @ values, rtol=0, atol=1e-12)
