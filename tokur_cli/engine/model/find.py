"""Where a model comes from: the embedded default, a folder, a GGUF file or the Hugging Face hub; and what it is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.model.embedded import DEFAULT_MODEL, LANGUAGE, embedded_folder
from tokur_cli.engine.model.errors import explained_errors, first_line
from tokur_cli.engine.model.gguf import converted_gguf
from tokur_cli.records.errors import TokurError, UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

HUB_TIMEOUT_SECONDS = 10.0
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TOKENIZER_CONFIG = "tokenizer_config.json"
CAUSAL, MULTIMODAL = "AutoModelForCausalLM", "AutoModelForMultimodalLM"  # of transformers
CAUSAL_CLASS_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
CONTEXT_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True)
class Source:
    """A model's place, as ``from_pretrained`` takes it.

    Args:
        place: a folder, or a hub id.
        revision: the hub commit; None where it is none of the hub's.
        is_adapter: whether it is an adapter on another model.
        has_tokenizer: whether a tokenizer is among its files.
    """

    place: str
    revision: str | None = None
    is_adapter: bool = False
    has_tokenizer: bool = True

    def file(self, name: str) -> Path:
        """Return one of the model's files, fetched from the hub if need be.

        Raises:
            OSError: it has none of that name.
        """
        from transformers.utils.hub import cached_file

        return Path(str(cached_file(self.place, name, revision=self.revision)))


def find_source(name: str, revision: str | None, progress: Callable[[str], None]) -> Source:
    """Find the model that a user named; GGUF files and the embedded default are converted on their first use.

    Raises:
        UsageError: a revision for something that isn't on the hub.
        TokurError: there is no such model.
    """
    path = Path(name).expanduser()
    if revision is not None and (name == DEFAULT_MODEL or path.exists()):
        raise UsageError(f"a revision was asked for, but {name} isn't a model on the Hugging Face hub")
    if name == DEFAULT_MODEL:
        return Source(str(embedded_folder(LANGUAGE, progress)))
    if path.is_dir():
        return Source(str(path), **_kind_of({entry.name for entry in path.iterdir()}))
    if path.is_file():
        return Source(str(converted_gguf(path, progress)))
    with explained_errors(name):
        return _find_on_hub(name, revision, progress)


def _find_on_hub(name: str, revision: str | None, progress: Callable[[str], None]) -> Source:
    """Ask the hub for the commit once, so that config, tokenizer and weights are of the same one.

    transformers would retry an unreachable hub for half a minute before it looks at the local cache; one request with a
    time limit decides it here, and what is in the cache is a folder like others.
    """
    from huggingface_hub import HfApi, is_offline_mode, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]  # httpx's or httpx2's

    if not is_offline_mode():
        try:
            info = HfApi().model_info(name, revision=revision, timeout=HUB_TIMEOUT_SECONDS)
            files = {file.rfilename for file in info.siblings or ()}
            return Source(name, info.sha, **_kind_of(files))
        except HfHubHTTPError:
            raise
        except HTTPError as error:
            progress(f"the Hugging Face hub can't be reached ({first_line(error)}); looking in its local cache")
    cached = Path(snapshot_download(name, revision=revision, local_files_only=True))
    return Source(str(cached), cached.name, **_kind_of({entry.name for entry in cached.iterdir()}))


def _kind_of(files: Collection[str]) -> dict[str, Any]:
    """Return what the names of a model's files say of its kind: transformers, too, takes the adapter where one is."""
    is_adapter = ADAPTER_CONFIG in files
    return {"is_adapter": is_adapter, "has_tokenizer": not is_adapter or TOKENIZER_CONFIG in files}


def causal_config(source: Source, name: str, trust_remote_code: bool) -> PreTrainedConfig:
    """Return a model's config; refuse models that don't predict the next token from the ones before it."""
    from transformers import AutoConfig

    config: PreTrainedConfig = AutoConfig.from_pretrained(
        source.place, revision=source.revision, trust_remote_code=trust_remote_code
    )
    names = getattr(config, "architectures", None) or []
    causal = not names or any(each.endswith(CAUSAL_CLASS_ENDINGS) for each in names) or _has_own_class(config)
    if config.is_encoder_decoder or auto_class(config) is None or not causal:
        what = names[0] if names else config.model_type
        raise TokurError(f"{name} ({what}) isn't a causal language model that this transformers loads")
    return config


def auto_class(config: PreTrainedConfig) -> str | None:
    """Return which of transformers' classes loads a model for texts; None if none does."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or _has_own_class(config):
        return CAUSAL
    return MULTIMODAL if multimodal_class(config) is not None else None


def _has_own_class(config: PreTrainedConfig) -> bool:
    """Tell whether a model's own Python code has a class for texts."""
    return CAUSAL in (getattr(config, "auto_map", None) or {})


def multimodal_class(config: PreTrainedConfig) -> str | None:
    """Return the class of models of this type that take images or sound beside texts."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES

    return MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES.get(config.model_type)


def context_length_of(config: PreTrainedConfig) -> int | None:
    """Return how many positions a model has; None for any number."""
    for each in (config, config.get_text_config(decoder=True)):
        for field in CONTEXT_LENGTH_FIELDS:
            if isinstance(length := getattr(each, field, None), int):
                return length
    return None
