"""From a model's name to the model and its tokenizer, ready for the engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.default_model import DEFAULT_MODEL, default_model_folder
from tokur_cli.engine.gguf import converted_gguf
from tokur_cli.engine.hardware import place_weights, resolve_dtype

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["DEFAULT_MODEL", "LanguageModel", "load_language_model"]


@dataclass(frozen=True)
class LanguageModel:
    """A causal language model in evaluation mode, without gradients.

    Args:
        model: the model, on its device or devices.
        tokenizer: its tokenizer.
        name: as records name it: what the user typed.
        revision: the hub commit that was loaded, None for local files.
        dtype: of the weights: ``bfloat16``, ``float32`` or ``float16``.
        context_length: in tokens, None for a model without a limit.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    revision: str | None
    dtype: str
    context_length: int | None

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the input embeddings."""
        weight: torch.Tensor = self.model.get_input_embeddings().weight
        return weight.device


def _silent(message: str) -> None:
    """Drop a progress message."""


def load_language_model(
    name: str,
    *,
    dtype: str = "auto",
    device_map: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: Callable[[str], None] = _silent,
) -> LanguageModel:
    """Load a causal language model by hub id, folder, GGUF file or the embedded default's name.

    Args:
        name: what the user typed.
        dtype: ``bfloat16``, ``float32``, ``float16``, or ``auto``: bfloat16 where it is fast, else float32.
        device_map: ``auto``, ``balanced``, ``balanced_low_0``, ``sequential`` or a torch device.
        revision: a hub branch, tag or commit; only for hub ids.
        trust_remote_code: run the model's own Python code.
        progress: called with short sentences on what is being done.

    Raises:
        TokurError: the model can't be had, or isn't one that can be used; says what to do.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    torch_dtype = resolve_dtype(dtype, device_map)
    _quieten_libraries()
    source, options = _locate(name, revision, progress)
    options["trust_remote_code"] = trust_remote_code
    progress(f"loading {name}")
    config = AutoConfig.from_pretrained(source, **options)
    tokenizer = AutoTokenizer.from_pretrained(source, **options)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config, dtype=torch_dtype, trust_remote_code=trust_remote_code)
    weights_bytes = sum(parameter.nbytes for parameter in empty.parameters())
    model = AutoModelForCausalLM.from_pretrained(
        source,
        config=config,
        dtype=torch_dtype,
        use_safetensors=True,
        **place_weights(device_map, weights_bytes),
        **options,
    )
    model.eval().requires_grad_(False)
    return LanguageModel(
        model=model,
        tokenizer=tokenizer,
        name=name,
        revision=getattr(config, "_commit_hash", None),
        dtype=str(torch_dtype).removeprefix("torch."),
        context_length=_context_length(config),
    )


def _locate(name: str, revision: str | None, progress: Callable[[str], None]) -> tuple[str, dict[str, Any]]:
    """Turn what the user typed into what ``from_pretrained`` takes: a folder or hub id, and options."""
    path = Path(name).expanduser()
    if name == DEFAULT_MODEL:
        return str(default_model_folder(progress)), {}
    if path.is_file():
        return str(converted_gguf(path, progress)), {}
    return (str(path) if path.is_dir() else name), {"revision": revision or "main"}


def _context_length(config: PreTrainedConfig) -> int | None:
    for part in (config, config.get_text_config(decoder=True)):
        for field in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
            if isinstance(length := getattr(part, field, None), int):
                return length
    return None


def _quieten_libraries() -> None:
    """Keep the libraries' bars and advice off standard error, unless ``TOKUR_DEBUG=1`` asks for everything."""
    if os.environ.get("TOKUR_DEBUG") == "1":
        return
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
