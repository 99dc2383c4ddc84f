"""Attention of one query a row as two batched products: on a CPU, PyTorch's own kernel has a small one for each row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


@contextmanager
def attention_of_steps() -> Iterator[None]:
    """Have models whose attention is PyTorch's attend by batched products within the context, where they can."""
    ALL_ATTENTION_FUNCTIONS["sdpa"] = _attend
    try:
        yield
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]  # the one for all instances holds again


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Return what queries (R, heads, 1, d) read of keys and values (R, kv_heads, L, d): (R, 1, heads, d), and None."""
    is_step = query.shape[2] == 1 and query.device.type == "cpu"
    has_more = any(more.get(name) is not None for name in ("softcap", "position_bias"))  # as only some families have
    if not is_step or has_more or attention_mask is None or attention_mask.dtype != torch.bool:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **more)
    group = query.unflatten(1, (key.shape[1], -1)).squeeze(3)  # of heads that share keys: (R, kv_heads, group, d)
    scores = (group * (query.shape[-1] ** -0.5 if scaling is None else scaling)) @ key.mT
    scores.masked_fill_(~attention_mask, float("-inf"))
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    return (weights.to(value.dtype) @ value).flatten(1, 2)[:, None], None
