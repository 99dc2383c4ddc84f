"""Rotary embeddings that change beyond a length: all positions of a pass are rotated otherwise as soon as one is there.

Rows of a batch must not decide on each other's numbers, so those within the length and those beyond it are kept apart.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from transformers import PreTrainedModel

_KINDS = ("dynamic", "longrope", "su")


class Rescaling(NamedTuple):
    """How a rotary embedding changes.

    Args:
        beyond: the length in positions, ``sys.maxsize`` where it never does.
        is_dynamic: whether frequencies depend on the longest row of a pass and of those before it, as with dynamic NTK;
            LongRoPE has a second set of them.
    """

    beyond: int = sys.maxsize
    is_dynamic: bool = False


def rescaling(model: PreTrainedModel) -> Rescaling:
    """Return how a model's rotary embedding changes with the length of a pass."""
    config = model.config.get_text_config(decoder=True)
    found = []
    rotary: dict[str, Any] = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    for parameters in [rotary, *(value for value in rotary.values() if isinstance(value, dict))]:
        kind = parameters.get("rope_type") or parameters.get("type")
        if kind in _KINDS:
            own = parameters.get("original_max_position_embeddings")
            everywhere = getattr(config, "original_max_position_embeddings", None)
            beyond = int(own or everywhere or config.max_position_embeddings)
            found.append(Rescaling(beyond, kind == "dynamic"))
    return min(found, key=lambda one: (one.beyond, not one.is_dynamic), default=Rescaling())
