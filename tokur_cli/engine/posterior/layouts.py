"""Which rows of a fused weight are of queries, keys and values: as transformers' own code of each family has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Parts = dict[str, Tensor]
"""Rows of each part, ascending; "" for the one that has the module's own name."""

_FUSED_NAME = re.compile(r"qkv|kv_b?_?proj|query_key|key_value|q_gate|c_attn|w_?pack|att_proj", re.IGNORECASE)


def layout_of(config: Any, name: str) -> Parts | None:
    """Return the parts of a fused weight; None if it isn't one, or one whose layout isn't known.

    Args:
        config: of the text's model.
        name: of the module, within its parent.
    """
    if name in _LATENT and hasattr(config, "qk_nope_head_dim") and hasattr(config, "v_head_dim"):
        return _LATENT[name](config)
    layout = _LAYOUTS.get((config.model_type, name))
    return layout(config) if layout else None


def looks_fused(name: str) -> bool:
    """Tell whether a module is named as those are that hold queries, keys or values together."""
    return _FUSED_NAME.search(name) is not None


def _heads(config: Any) -> tuple[int, int, int]:
    """Return the size of a head, and how many of queries and of keys there are: as many if the config is silent."""
    heads = config.num_attention_heads
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):
        return size, heads, 1
    return size, heads, getattr(config, "num_kv_heads", None) or getattr(config, "num_key_value_heads", None) or heads


def _in_groups(groups: int, **sizes: int) -> Parts:
    """Return the rows of parts of these sizes that stand one after another in each of so many groups."""
    rows = torch.arange(groups * sum(sizes.values())).view(groups, -1)
    parts = rows.split(list(sizes.values()), dim=1)
    return {name: part.flatten() for name, part in zip(sizes, parts, strict=True)}


def _one_after_another(config: Any) -> Parts:
    """Return the rows of all queries, all keys and all values."""
    size, heads, kv = _heads(config)
    return _in_groups(1, q_proj=heads * size, k_proj=kv * size, v_proj=kv * size)


def _key_by_key(config: Any) -> Parts:
    """Return the rows of one head of keys after those of another: queries that share it, keys, values."""
    size, heads, kv = _heads(config)
    return _in_groups(kv, q_proj=heads // kv * size, k_proj=size, v_proj=size)


def _head_by_head(config: Any) -> Parts:
    """Return the same where each head of queries has keys of its own."""
    size, heads, _ = _heads(config)
    return _in_groups(heads, q_proj=size, k_proj=size, v_proj=size)


def _codegen(config: Any) -> Parts:
    """Return queries, values and keys of a quarter of the heads after those of another: four TPU cores made it."""
    size = config.hidden_size // 4
    return _in_groups(4, q_proj=size, v_proj=size, k_proj=size)


def _keys_and_values(config: Any) -> Parts:
    size, _, kv = _heads(config)
    return _in_groups(1, k_proj=kv * size, v_proj=kv * size)


def _latent_keys_and_values(config: Any) -> Parts:
    """Multi-head latent attention: keys without their rotated part, and values, head by head."""
    return _in_groups(config.num_attention_heads, k_proj=config.qk_nope_head_dim, v_proj=config.v_head_dim)


def _latent_queries(config: Any) -> Parts:
    return _in_groups(1, q_proj=config.num_attention_heads * (config.qk_nope_head_dim + config.qk_rope_head_dim))


def _gated(config: Any) -> Parts:
    size, heads, _ = _heads(config)
    return _in_groups(heads, **{"": size, "output_gate": size})


_LATENT = {"q_b_proj": _latent_queries, "kv_b_proj": _latent_keys_and_values}  # what leads there is compressed
_LAYOUTS: dict[tuple[str, str], Callable[[Any], Parts]] = {
    ("gpt2", "c_attn"): _one_after_another,
    ("openai-gpt", "c_attn"): _one_after_another,
    ("gpt_bigcode", "c_attn"): _key_by_key,
    ("codegen", "qkv_proj"): _codegen,
    ("dbrx", "Wqkv"): _one_after_another,
    ("mpt", "Wqkv"): _one_after_another,
    ("phi3", "qkv_proj"): _one_after_another,
    ("phi4_multimodal", "qkv_proj"): _one_after_another,
    ("jetmoe", "kv_proj"): _keys_and_values,
    ("gpt_neox", "query_key_value"): _head_by_head,
    ("gpt_neox_japanese", "query_key_value"): _head_by_head,
    ("persimmon", "query_key_value"): _head_by_head,
    ("bloom", "query_key_value"): _head_by_head,
    ("falcon", "query_key_value"): _key_by_key,
    ("qwen3_next", "q_proj"): _gated,
    ("qwen3_5_text", "q_proj"): _gated,
    ("qwen3_5_moe_text", "q_proj"): _gated,
    ("qwen4_exp_text", "q_proj"): _gated,
}
