"""Which rows of a fused weight are of queries, keys and values: as transformers' own code of each family has it."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

Parts = dict[str, Tensor]
"""Rows of each part, ascending; "" for the one that has the module's own name."""

_FUSED_NAME = re.compile(r"qkv|kv_b?_?proj|query_key|key_value|q_gate|c_attn|w_?pack|att_proj", re.IGNORECASE)


def layout_of(config: Any, name: str) -> Parts:
    """Return the parts of a fused weight; none if it isn't one, or one whose layout isn't known.

    Args:
        config: of the text's model.
        name: of the module, within its parent.
    """
    if hasattr(config, "qk_nope_head_dim") and hasattr(config, "v_head_dim"):  # latent attention: all is compressed
        plain, rotated = config.qk_nope_head_dim, config.qk_rope_head_dim
        if name == "q_b_proj":
            return _in_groups(1, q_proj=config.num_attention_heads * (plain + rotated))
        if name == "kv_b_proj":  # without the part of the keys that is rotated
            return _in_groups(config.num_attention_heads, k_proj=plain, v_proj=config.v_head_dim)
    if (config.model_type, name) not in _LAYOUTS:
        return {}
    groups, parts = _LAYOUTS[config.model_type, name]
    heads = config.num_attention_heads
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    kv = heads if groups == _PER_HEAD else _key_heads(config)
    count = {_PER_HEAD: heads, _PER_KEY_HEAD: kv}.get(groups, groups)
    sizes = {part: (kv if part in ("k_proj", "v_proj") else heads) * size // count for part in parts}
    return _in_groups(count, **sizes)


def looks_fused(name: str) -> bool:
    """Tell whether a module is named as those are that hold queries, keys or values together."""
    return _FUSED_NAME.search(name) is not None


def _key_heads(config: Any) -> int:
    """Return how many heads of keys there are: as many as of queries if the config is silent."""
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):
        return 1
    own = getattr(config, "num_kv_heads", None) or getattr(config, "num_key_value_heads", None)
    return int(own or config.num_attention_heads)


def _in_groups(groups: int, **sizes: int) -> Parts:
    """Return the rows of parts of these sizes that stand one after another in each of so many groups."""
    rows = torch.arange(groups * sum(sizes.values())).view(groups, -1)
    parts = rows.split(list(sizes.values()), dim=1)
    return {name: part.flatten() for name, part in zip(sizes, parts, strict=True)}


_PER_HEAD, _PER_KEY_HEAD = -1, -2
_QKV, _GATED = ("q_proj", "k_proj", "v_proj"), ("", "output_gate")
# In how many groups its parts stand, or in one for each head of queries or of keys, and the parts in their order
_LAYOUTS: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    ("gpt2", "c_attn"): (1, _QKV),
    ("openai-gpt", "c_attn"): (1, _QKV),
    ("gpt_bigcode", "c_attn"): (_PER_KEY_HEAD, _QKV),
    ("codegen", "qkv_proj"): (4, ("q_proj", "v_proj", "k_proj")),  # four TPU cores made it
    ("dbrx", "Wqkv"): (1, _QKV),
    ("mpt", "Wqkv"): (1, _QKV),
    ("phi3", "qkv_proj"): (1, _QKV),
    ("phi4_multimodal", "qkv_proj"): (1, _QKV),
    ("jetmoe", "kv_proj"): (1, ("k_proj", "v_proj")),
    ("gpt_neox", "query_key_value"): (_PER_HEAD, _QKV),
    ("gpt_neox_japanese", "query_key_value"): (_PER_HEAD, _QKV),
    ("persimmon", "query_key_value"): (_PER_HEAD, _QKV),
    ("bloom", "query_key_value"): (_PER_HEAD, _QKV),
    ("falcon", "query_key_value"): (_PER_KEY_HEAD, _QKV),
    ("qwen3_next", "q_proj"): (_PER_HEAD, _GATED),
    ("qwen3_5_text", "q_proj"): (_PER_HEAD, _GATED),
    ("qwen3_5_moe_text", "q_proj"): (_PER_HEAD, _GATED),
    ("qwen4_exp_text", "q_proj"): (_PER_HEAD, _GATED),
}
