"""LongRoPE: all positions of a pass are rotated otherwise as soon as one is beyond a length.

Rows of a batch must not decide on each other's numbers, so those within the length and those beyond it are kept apart.
"""

from __future__ import annotations

import sys
from typing import Any

from transformers import PreTrainedModel


def rescaled_beyond(model: PreTrainedModel) -> int:
    """Return the length of a pass beyond which its positions are rotated otherwise, ``sys.maxsize`` for none.

    Dynamic NTK does the same beyond the model's context, which no text is.
    """
    config = model.config.get_text_config(decoder=True)
    lengths = [sys.maxsize]
    rotary: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    for parameters in [rotary, *(value for value in rotary.values() if isinstance(value, dict))]:
        if (parameters.get("rope_type") or parameters.get("type")) in ("longrope", "su"):
            own = parameters.get("original_max_position_embeddings")
            everywhere = getattr(config, "original_max_position_embeddings", None)
            lengths.append(int(own or everywhere or config.max_position_embeddings))
    return min(lengths)
