"""What a model's config tells before its weights are loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.loading.sources import Source
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

CAUSAL_CLASS_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
CAUSAL, MULTIMODAL = "AutoModelForCausalLM", "AutoModelForMultimodalLM"  # of transformers
MOST_LAYERS = 2000  # twice as many as the deepest transformers that were tried
LAYER_COUNT_ENDINGS = ("layer", "layers", "depth", "blocks")
CONTEXT_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def refuse_endless(config_file: Path, name: str) -> None:
    """Refuse a config that asks for more layers than any model has, before they are built and fill the memory.

    Raises:
        TokurError: it does.
    """

    def check(fields: object) -> None:
        for field, value in fields.items() if isinstance(fields, dict) else ():
            if type(value) is int and value > MOST_LAYERS and field.endswith(LAYER_COUNT_ENDINGS):
                raise TokurError(f"{name}: its config.json has {field} {value:,}; at most {MOST_LAYERS:,} are loaded")
            check(value)

    with suppress(ValueError, RecursionError):  # told by who reads it next
        check(json.loads(config_file.read_bytes()))


def causal_config(source: Source, name: str, trust_remote_code: bool) -> PreTrainedConfig:
    """Return a model's config; refuse models that don't predict the next token from the ones before it."""
    import transformers
    from transformers import AutoConfig

    refuse_endless(source.file(), name)
    config: PreTrainedConfig = AutoConfig.from_pretrained(
        source.place, trust_remote_code=trust_remote_code, **source.options
    )
    architectures = getattr(config, "architectures", None) or []
    known = auto_class(config) is not None
    causal = not architectures or any(architecture.endswith(CAUSAL_CLASS_ENDINGS) for architecture in architectures)
    if config.is_encoder_decoder or not (known and (causal or CAUSAL in _own_classes(config))):
        what = architectures[0] if architectures else config.model_type
        if causal and not config.is_encoder_decoder:
            raise TokurError(
                f"{name} ({what}): transformers {transformers.__version__} loads no causal language model of the type "
                f"{config.model_type}; tokur needs one that predicts the next token"
            )
        raise TokurError(f"{name} ({what}) isn't a causal language model; tokur needs one that predicts the next token")
    return config


def auto_class(config: PreTrainedConfig) -> str | None:
    """Return which of transformers' classes loads a model for texts; None if none does."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or CAUSAL in _own_classes(config):
        return CAUSAL
    return MULTIMODAL if multimodal_class(config) is not None else None


def _own_classes(config: PreTrainedConfig) -> Mapping[str, Any]:
    """Return the classes that a model's own Python code has for transformers' ones."""
    return getattr(config, "auto_map", None) or {}


def multimodal_class(config: PreTrainedConfig) -> str | None:
    """Return the class of models of this type that take images or sound beside texts."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES

    return MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES.get(config.model_type)


def context_length_of(config: PreTrainedConfig) -> int | None:
    """Return how many positions a model has; None for any number."""
    for part in (config, config.get_text_config(decoder=True)):
        for field in CONTEXT_LENGTH_FIELDS:
            if isinstance(length := getattr(part, field, None), int):
                return length
    return None


def architecture(config: PreTrainedConfig) -> str | None:
    """Return the class that a checkpoint was written by, as its config names it."""
    return next(iter(getattr(config, "architectures", None) or []), None)
