"""The linear maps that a text goes through in a model, by name, with fused weights told apart into their parts."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from accelerate.utils import align_module_device
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tokur_cli.engine.forward.body import parts_of
from tokur_cli.engine.model.linear import is_linear_map, is_plain, size, weight_of
from tokur_cli.engine.posterior.settings import DEFAULT_TARGETS, layer_slice
from tokur_cli.records.errors import TokurError

_FUSED_NAME = re.compile(r"qkv|kv_b?_?proj|query_key|key_value|q_gate|c_attn|w_?pack|att_proj", re.IGNORECASE)
_PER_HEAD, _PER_KEY_HEAD = -1, -2
_QKV, _GATED = ("q_proj", "k_proj", "v_proj"), ("", "output_gate")
# As transformers' own code of each family has it: in how many groups the parts of a weight stand, or in one for each
# head of queries or of keys, and the parts in their order; "" is the one that has the module's own name
_LAYOUTS: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    (family, module): (groups, parts)
    for families, module, groups, parts in (
        ("gpt2 openai-gpt", "c_attn", 1, _QKV),
        ("gpt_bigcode", "c_attn", _PER_KEY_HEAD, _QKV),
        ("codegen", "qkv_proj", 4, ("q_proj", "v_proj", "k_proj")),  # four TPU cores made it
        ("dbrx mpt", "Wqkv", 1, _QKV),
        ("phi3 phi4_multimodal", "qkv_proj", 1, _QKV),
        ("jetmoe", "kv_proj", 1, ("k_proj", "v_proj")),
        ("gpt_neox gpt_neox_japanese persimmon bloom", "query_key_value", _PER_HEAD, _QKV),
        ("falcon", "query_key_value", _PER_KEY_HEAD, _QKV),
        ("qwen3_next qwen3_5_text qwen3_5_moe_text qwen4_exp_text", "q_proj", _PER_HEAD, _GATED),
    )
    for family in families.split()
}


@dataclass(frozen=True)
class Projection:
    """One linear map x ↦ Wx, or the rows of a fused one that compute it."""

    # Dotted path in the model; a part of a fused weight has its part's name at the end
    # (``transformer.h.0.attn.c_attn.q_proj``)
    name: str
    module_name: str  # that of the module
    # The ``nn.Linear`` or ``Conv1D`` that holds the weight, or another library's, which holds it quantised
    module: nn.Module
    rows: Tensor | None  # indices into the module's output features, ascending; None for all of them
    # Name of the list of layers that it is in and the place there (``("model.layers", 3)``); None outside
    layer: tuple[str, int] | None
    linear: bool  # whether it belongs to linear attention, which has no softmax
    dtype: torch.dtype  # of its inputs

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of output and of input features."""
        outputs, inputs = size(self.module)
        return (outputs if self.rows is None else len(self.rows)), inputs

    def weight(self) -> Tensor:
        """Return W as (out × in) in the module's dtype, wherever accelerate keeps it and however it is quantised."""
        if is_plain(self.module):
            with align_module_device(self.module):
                weight = cast(Tensor, self.module.weight).detach().clone()
            weight = weight.T if isinstance(self.module, Conv1D) else weight
        else:
            weight = weight_of(self.module_name, self.module, self.dtype)
        return weight if self.rows is None else weight[self.rows.to(weight.device)]


def find_projections(
    model: PreTrainedModel, targets: str = DEFAULT_TARGETS, layers: str | None = None
) -> list[Projection]:
    """Return the projections that a pattern names, in the model's order.

    Args:
        model: any causal language model.
        targets: comma-separated; each item is the end of a projection's dotted name (``q_proj``, ``attn.wq``) or a
            glob over the whole name (``*.layers.1?.*.q_proj``). Fused weights of known layout offer parts named
            ``q_proj``, ``k_proj`` and ``v_proj``, so the default means queries and keys in every family. A name
            without a dot means no projection of linear attention or of a state-space layer, which have no softmax.
            A module of which the layers share the weight (Zamba) is a projection of its own in each of its places.
        layers: which layers, as a slice: ``15:`` is layer 15 (the sixteenth) and all above, ``:4`` the lowest four,
            ``-8:`` the highest eight; None for all.

    Raises:
        TokurError: an item matches nothing, there are no such layers, or a matched weight holds queries, keys or
            values together in an order that isn't known.
    """
    patterns = [item.strip() for item in targets.split(",") if item.strip()]
    projections = list(_projections(model))
    chosen = [p for p in projections if any(_matches(p, pattern) for pattern in patterns)]
    unmatched = [pattern for pattern in patterns if not any(_matches(p, pattern) for p in projections)]
    if unmatched or not chosen:
        # Without what stands before its name, a projection of linear attention could not be named
        found = sorted({".".join(p.name.split(".")[-2 if p.linear else -1 :]) for p in projections})
        raise TokurError(
            f"no projection of this model ({model.config.model_type}) is named {', '.join(unmatched or [targets])}; it "
            f"has {', '.join(found) or 'none'}: name queries and keys with --targets, as ends of names or globs"
        )
    if layers is not None:
        count = 1 + max((p.layer[1] for p in projections if p.layer is not None), default=-1)
        wanted = range(count)[layer_slice(layers)]
        chosen = [p for p in chosen if p.layer is not None and p.layer[1] in wanted]
        if not chosen:
            raise TokurError(f'layers "{layers}" hold none of the projections; this model has layers 0 to {count - 1}')
    for projection in chosen:
        if projection.rows is None and _FUSED_NAME.search(projection.name.rpartition(".")[2]):
            raise TokurError(
                f"{projection.name} seems to hold queries, keys or values in one weight, and tokur doesn't know which "
                f"rows are which in {model.config.model_type}: leave it out of --targets, or use another model"
            )
    return chosen


def _matches(projection: Projection, pattern: str) -> bool:
    name = projection.name
    if projection.linear and "." not in pattern and "*" not in pattern:
        return False
    return name == pattern or name.endswith(f".{pattern}") or fnmatch.fnmatchcase(name, pattern)


def count_layers(model: PreTrainedModel, projections: Sequence[Projection]) -> tuple[int, int]:
    """Return how many layers hold some of the projections, and how many there are in the lists that these are in."""
    places = {projection.layer for projection in projections if projection.layer is not None}
    layers = sum(len(list(model.get_submodule(name).children())) for name in {name for name, _ in places})
    return len(places), layers


def _projections(model: PreTrainedModel) -> Iterator[Projection]:
    head = model.get_output_embeddings()
    working = parts_of(model).working  # towers for images and sound stand still
    config = model.config.get_text_config(decoder=True)
    kinds = getattr(config, "layer_types", None) or ()
    whole = "-"  # the last of those that are made of others: a quantised map with an adapter beside it
    for name, module in model.named_modules():
        if not is_linear_map(module) or module is head or name not in working or name.startswith(f"{whole}."):
            continue
        whole = name
        found = re.match(r"(.*?)\.(\d+)(\.|$)", name)
        layer = None if found is None else (found[1], int(found[2]))
        linear = layer is not None and layer[1] < len(kinds) and kinds[layer[1]] == "linear_attention"
        parts = {} if linear else _layout_of(config, name.rpartition(".")[2])
        width, _ = size(module)
        if parts and sum(map(len, parts.values())) != width:
            raise TokurError(f"{name} has {width} output features, which its family's layout does not explain")
        every: dict[str, Tensor | None] = {**parts} or {"": None}
        for part, rows in every.items():
            yield Projection(f"{name}.{part}" if part else name, name, module, rows, layer, linear, model.dtype)


def _layout_of(config: Any, name: str) -> dict[str, Tensor]:
    """Return the rows of each part of a fused weight, ascending; none if its layout isn't known, or it isn't one.

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
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    has_one = getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False)
    own = 1 if has_one else getattr(config, "num_kv_heads", None) or getattr(config, "num_key_value_heads", None)
    kv = heads if groups == _PER_HEAD else int(own or heads)  # as many as of queries if the config is silent
    count = {_PER_HEAD: heads, _PER_KEY_HEAD: kv}.get(groups, groups)
    sizes = {part: (kv if part in ("k_proj", "v_proj") else heads) * width // count for part in parts}
    return _in_groups(count, **sizes)


def _in_groups(groups: int, **sizes: int) -> dict[str, Tensor]:
    """Return the rows of parts of these sizes that stand one after another in each of so many groups."""
    rows = torch.arange(groups * sum(sizes.values())).view(groups, -1)
    parts = rows.split(list(sizes.values()), dim=1)
    return {name: part.flatten() for name, part in zip(sizes, parts, strict=True)}
