"""Which rows of a fused weight are of queries, keys and values: as transformers' own code of each family has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Parts = dict[str, Tensor]
"""Rows of each part, ascending; "" for the one that has the module's own name."""

_QUERY_KEY_VALUE = ("q_proj", "k_proj", "v_proj")
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


def _head_size(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _one_after_another(q: int, k: int, v: int) -> Parts:
    rows = torch.arange(q + k + v)
    return {"q_proj": rows[:q], "k_proj": rows[q : q + k], "v_proj": rows[q + k :]}


def _equal_thirds(config: Any) -> Parts:
    return _one_after_another(config.hidden_size, config.hidden_size, config.hidden_size)


def _grouped_query(config: Any) -> Parts:
    size = _head_size(config)
    kv = config.num_key_value_heads * size
    return _one_after_another(config.num_attention_heads * size, kv, kv)


def _head_by_head(config: Any) -> Parts:
    rows = torch.arange(3 * config.hidden_size).view(config.num_attention_heads, 3, _head_size(config))
    return {part: rows[:, i].flatten() for i, part in enumerate(_QUERY_KEY_VALUE)}


def _starcoder(config: Any) -> Parts:
    if not config.multi_query:
        return _head_by_head(config)
    return _one_after_another(config.hidden_size, _head_size(config), _head_size(config))


def _codegen(config: Any) -> Parts:
    """Return queries, values and keys of a quarter of the heads after those of another: four TPU cores made it."""
    rows = torch.arange(3 * config.hidden_size).view(4, 3, -1)
    return {part: rows[:, i].flatten() for i, part in enumerate(("q_proj", "v_proj", "k_proj"))}


def _dbrx(config: Any) -> Parts:
    kv = config.attn_config.kv_n_heads * (config.d_model // config.n_heads)
    return _one_after_another(config.d_model, kv, kv)


def _keys_and_values(config: Any) -> Parts:
    rows = torch.arange(2 * config.num_key_value_heads * config.head_dim)
    return {"k_proj": rows[: len(rows) // 2], "v_proj": rows[len(rows) // 2 :]}


def _latent_keys_and_values(config: Any) -> Parts:
    """Multi-head latent attention: keys without their rotated part, and values, head by head."""
    keys, values = config.qk_nope_head_dim, config.v_head_dim
    rows = torch.arange(config.num_attention_heads * (keys + values)).view(config.num_attention_heads, -1)
    return {"k_proj": rows[:, :keys].flatten(), "v_proj": rows[:, keys:].flatten()}


def _latent_queries(config: Any) -> Parts:
    return {"q_proj": torch.arange(config.num_attention_heads * (config.qk_nope_head_dim + config.qk_rope_head_dim))}


def _falcon(config: Any) -> Parts:
    if not config.new_decoder_architecture and not config.multi_query:
        return _head_by_head(config)
    groups = config.num_kv_heads if config.new_decoder_architecture else 1
    heads = config.num_attention_heads // groups
    size = _head_size(config)
    rows = torch.arange(groups * (heads + 2) * size).view(groups, heads + 2, size)
    return {"q_proj": rows[:, :-2].flatten(), "k_proj": rows[:, -2].flatten(), "v_proj": rows[:, -1].flatten()}


def _gated(config: Any) -> Parts:
    rows = torch.arange(2 * config.num_attention_heads * _head_size(config))
    rows = rows.view(config.num_attention_heads, 2, _head_size(config))
    return {"": rows[:, 0].flatten(), "output_gate": rows[:, 1].flatten()}


_LATENT = {"q_b_proj": _latent_queries, "kv_b_proj": _latent_keys_and_values}  # what leads there is compressed
_LAYOUTS: dict[tuple[str, str], Callable[[Any], Parts]] = {
    ("gpt2", "c_attn"): _equal_thirds,
    ("openai-gpt", "c_attn"): _equal_thirds,
    ("gpt_bigcode", "c_attn"): _starcoder,
    ("codegen", "qkv_proj"): _codegen,
    ("dbrx", "Wqkv"): _dbrx,
    ("mpt", "Wqkv"): _equal_thirds,
    ("phi3", "qkv_proj"): _grouped_query,
    ("phi4_multimodal", "qkv_proj"): _grouped_query,
    ("jetmoe", "kv_proj"): _keys_and_values,
    ("gpt_neox", "query_key_value"): _head_by_head,
    ("gpt_neox_japanese", "query_key_value"): _head_by_head,
    ("persimmon", "query_key_value"): _head_by_head,
    ("bloom", "query_key_value"): _head_by_head,
    ("falcon", "query_key_value"): _falcon,
    ("qwen3_next", "q_proj"): _gated,
    ("qwen3_5_text", "q_proj"): _gated,
    ("qwen3_5_moe_text", "q_proj"): _gated,
    ("qwen4_exp_text", "q_proj"): _gated,
}
