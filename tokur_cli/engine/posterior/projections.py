"""The linear maps that a text goes through in a model, by name, with fused weights told apart into their parts."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from accelerate.utils import align_module_device
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tokur_cli.engine.body import parts_of
from tokur_cli.engine.posterior.description import layer_slice
from tokur_cli.records.errors import TokurError

DEFAULT_TARGETS = "q_proj,k_proj"


@dataclass(frozen=True)
class Projection:
    """One linear map x ↦ Wx, or the rows of a fused one that compute it.

    Args:
        name: dotted path in the model; a part of a fused weight has its part's name at the end
            (``transformer.h.0.attn.c_attn.q_proj``).
        module_name: that of the module.
        module: the ``nn.Linear`` or ``Conv1D`` that holds the weight.
        rows: indices into the module's output features, ascending; None for all of them.
        linear: whether it belongs to linear attention, which has no softmax.
    """

    name: str
    module_name: str
    module: nn.Module
    rows: Tensor | None
    linear: bool

    @property
    def layer(self) -> tuple[str, int] | None:
        """Name of the list of layers that it is in and the place there (``("model.layers", 3)``); None outside."""
        return _layer(self.name)

    def weight(self) -> Tensor:
        """Return W as (out × in) in the module's dtype, wherever accelerate keeps it."""
        with align_module_device(self.module):
            weight = cast(Tensor, self.module.weight).detach()
            if isinstance(self.module, Conv1D):
                weight = weight.T
            return weight.clone() if self.rows is None else weight[self.rows.to(weight.device)]


def find_projections(
    model: PreTrainedModel, targets: str = DEFAULT_TARGETS, layers: str | None = None
) -> list[Projection]:
    """Return the projections that a pattern names, in the model's order.

    Args:
        model: any causal language model.
        targets: comma-separated; each item is the end of a projection's dotted name (``q_proj``, ``attn.wq``) or a
            glob over the whole name (``*.layers.1?.*.q_proj``). Fused weights of known layout offer parts named
            ``q_proj``, ``k_proj`` and ``v_proj``, so the default means queries and keys in every family. A name
            without a dot means no projection of linear attention, whose queries and keys meet no softmax.
        layers: which layers, as a slice: ``15:`` is layer 15 (the sixteenth) and all above, ``:4`` the lowest four,
            ``-8:`` the highest eight; None for all.

    Raises:
        TokurError: an item matches nothing, there are no such layers, or a matched weight is quantised.
    """
    patterns = [item.strip() for item in targets.split(",") if item.strip()]
    projections = list(_projections(model))
    chosen = [p for p in projections if any(_matches(p, pattern) for pattern in patterns)]
    unmatched = [pattern for pattern in patterns if not any(_matches(p, pattern) for p in projections)]
    if unmatched or not chosen:
        found = ", ".join(sorted({p.name.rpartition(".")[2] for p in projections})) or "none"
        what = ", ".join(f'"{pattern}"' for pattern in unmatched) or f'"{targets}"'
        raise TokurError(
            f"no projection of this model ({model.config.model_type}) is named {what}. It has: {found}. "
            "Name its query and key projections with --targets, as ends of names or globs."
        )
    if layers is not None:
        count = 1 + max((p.layer[1] for p in projections if p.layer is not None), default=-1)
        chosen = _in_layers(chosen, layers, count)
    for projection in chosen:
        dtype = cast(Tensor, projection.module.weight).dtype
        if not dtype.is_floating_point or dtype.itemsize < 2:
            raise TokurError(f"{projection.name} is quantised ({dtype}); the posterior needs floating-point weights")
    return chosen


def _in_layers(projections: list[Projection], layers: str, count: int) -> list[Projection]:
    """Keep what is in the layers of a slice over the model's ``count`` layers."""
    wanted = range(count)[layer_slice(layers)]
    chosen = [p for p in projections if p.layer is not None and p.layer[1] in wanted]
    if not chosen:
        raise TokurError(f'layers "{layers}" hold none of the projections; this model has layers 0 to {count - 1}')
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
    modules = dict(model.named_modules())
    working = parts_of(model).working
    config = model.config.get_text_config(decoder=True)
    kinds = getattr(config, "layer_types", None) or ()
    for name, module in modules.items():
        if not isinstance(module, (nn.Linear, Conv1D)) or module is head or not _works(name, modules, working):
            continue
        layer = _layer(name)
        linear = layer is not None and layer[1] < len(kinds) and kinds[layer[1]] == "linear_attention"
        layout = _LAYOUTS.get((config.model_type, name.rpartition(".")[2]))
        if layout is None or linear:
            yield Projection(name, name, module, None, linear)
            continue
        width = module.nf if isinstance(module, Conv1D) else module.out_features
        parts = layout(config)
        if sum(len(rows) for rows in parts.values()) != width:
            raise TokurError(f"{name} has {width} output features, which its family's layout does not explain")
        for part, rows in parts.items():
            yield Projection(f"{name}.{part}" if part else name, name, module, rows, linear)


def _layer(name: str) -> tuple[str, int] | None:
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.isdecimal():
            return ".".join(parts[:place]), int(part)
    return None


def _works(name: str, modules: Mapping[str, nn.Module], working: Collection[str]) -> bool:
    """Tell whether a text goes through a module: it was seen to, or it is one of several experts, others of which were.

    Towers for images and sound and layers that attend to them stand still, and are not of the text's model.
    """
    while name not in working:
        above = name.rpartition(".")[0]
        if isinstance(modules[above], nn.ModuleList):
            others = modules[above].named_children()
            return any(f"{above}.{other}" in working for other, module in others if type(module) is type(modules[name]))
        if above == "" or above in working:
            return False
        name = above
    return True


# Layouts of fused weights: configuration → rows of each part, "" for the one that has the module's own name


def _head_size(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _one_after_another(q: int, k: int, v: int) -> dict[str, Tensor]:
    rows = torch.arange(q + k + v)
    return {"q_proj": rows[:q], "k_proj": rows[q : q + k], "v_proj": rows[q + k :]}


def _equal_thirds(config: Any) -> dict[str, Tensor]:
    return _one_after_another(config.hidden_size, config.hidden_size, config.hidden_size)


def _grouped_query(config: Any) -> dict[str, Tensor]:
    size = _head_size(config)
    kv = config.num_key_value_heads * size
    return _one_after_another(config.num_attention_heads * size, kv, kv)


def _head_by_head(config: Any) -> dict[str, Tensor]:
    rows = torch.arange(3 * config.hidden_size).view(config.num_attention_heads, 3, _head_size(config))
    return {part: rows[:, i].flatten() for i, part in enumerate(("q_proj", "k_proj", "v_proj"))}


def _falcon(config: Any) -> dict[str, Tensor]:
    if not config.new_decoder_architecture and not config.multi_query:
        return _head_by_head(config)
    groups = config.num_kv_heads if config.new_decoder_architecture else 1
    heads = config.num_attention_heads // groups
    size = _head_size(config)
    rows = torch.arange(groups * (heads + 2) * size).view(groups, heads + 2, size)
    return {"q_proj": rows[:, :-2].flatten(), "k_proj": rows[:, -2].flatten(), "v_proj": rows[:, -1].flatten()}


def _gated(config: Any) -> dict[str, Tensor]:
    rows = torch.arange(2 * config.num_attention_heads * _head_size(config))
    rows = rows.view(config.num_attention_heads, 2, _head_size(config))
    return {"": rows[:, 0].flatten(), "output_gate": rows[:, 1].flatten()}


_LAYOUTS: dict[tuple[str, str], Callable[[Any], dict[str, Tensor]]] = {
    ("gpt2", "c_attn"): _equal_thirds,
    ("mpt", "Wqkv"): _equal_thirds,
    ("phi3", "qkv_proj"): _grouped_query,
    ("gpt_neox", "query_key_value"): _head_by_head,
    ("bloom", "query_key_value"): _head_by_head,
    ("falcon", "query_key_value"): _falcon,
    ("qwen3_next", "q_proj"): _gated,
    ("qwen3_5_text", "q_proj"): _gated,
    ("qwen3_5_moe_text", "q_proj"): _gated,
    ("qwen4_exp_text", "q_proj"): _gated,
}
