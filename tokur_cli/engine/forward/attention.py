"""Attention on a CPU under a mask, without the copy of keys that heads share, which transformers makes a layer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.import_utils import is_torch_greater_or_equal

_PARTS, _QUERIES = 8, 32
"""Where most keys are the queries' own, so many parts of these, of a multiple of so many, meet no key behind theirs."""
_SHARES_KEYS = is_torch_greater_or_equal("2.9")  # before, PyTorch has no quick kernel for that on a CPU


@contextmanager
def quick_attention() -> Iterator[None]:
    """Have models whose attention is PyTorch's attend without those copies within the context, where they can."""
    ALL_ATTENTION_FUNCTIONS["sdpa"] = _attend
    try:
        yield
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]  # the one for all instances holds again


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Return what queries (R, heads, L, d) read of keys and values (R, kv_heads, K, d): (R, L, heads, d), and None."""
    has_more = any(more.get(name) is not None for name in ("softcap", "position_bias"))  # as only some families have
    scaling = more.get("scaling")
    if query.device.type != "cpu" or has_more or scaling is None or attention_mask is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **more)
    if query.shape[2] == 1 and attention_mask.shape[1] == 1:  # one product for all heads that share keys
        group = query.unflatten(1, (key.shape[1], -1)).squeeze(3)  # (R, kv_heads, group, d)
        read = functional.scaled_dot_product_attention(group, key, value, attention_mask, scale=scaling)
        return read.flatten(1, 2)[:, None], None
    if not _SHARES_KEYS:
        key, value = (repeat_kv(shared, query.shape[1] // shared.shape[1]) for shared in (key, value))
    length, columns = query.shape[2], key.shape[2]
    can_be_cut = 2 * length > columns and attention_mask.dtype == torch.bool and attention_mask.shape[2] == length
    step = _QUERIES * math.ceil(length / _QUERIES / _PARTS) if can_be_cut else length
    ends = [*range(columns - length + step, columns, step), columns]
    parts = [*zip(query.split(step, 2), attention_mask.split(step, 2), ends, strict=True)]
    if any(seen[..., end:].any() for _, seen, end in parts):  # a query sees what comes after it
        parts = [(query, attention_mask, columns)]
    heads = [
        functional.scaled_dot_product_attention(
            some, key[:, :, :end], value[:, :, :end], seen[..., :end], scale=scaling, enable_gqa=_SHARES_KEYS
        ).transpose(1, 2)
        for some, seen, end in parts
    ]
    return torch.cat(heads, dim=1) if len(heads) > 1 else heads[0].contiguous(), None
