"""GGUF files, converted once to a folder that loads fast.

transformers takes many seconds to parse and dequantise a GGUF file, every time; the same weights as safetensors load in
about one.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.cache import cache_folder, place_folder
from tokur_cli.engine.hardware import require_memory
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CONVERSION = "1"
"""Part of every converted folder's name; a change of what `convert_gguf` writes must change it."""

MAGIC = b"GGUF"
SINGLE_DIGITS = "smollm"
"""The name GGUF files give to SmolLM's way of splitting text: GPT-2's, but every digit stands alone."""


def converted_gguf(file: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder of safetensors made from a GGUF file, from the cache if this very file was converted before.

    Raises:
        TokurError: it isn't a GGUF file, or there is too little memory or disk space to convert it.
    """
    with file.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise TokurError(f"{file} isn't a GGUF file; a model is a folder, a GGUF file or a Hugging Face hub id")
    status = file.stat()
    identity = f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    target = cache_folder() / "models" / f"{file.stem}-{key}-{CONVERSION}"

    def build(folder: Path) -> None:
        progress(f"converting {file.name} (once, it is kept in {target})")
        convert_gguf(file, folder)

    return place_folder(target, build)


def convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF file's model and tokenizer into `folder`: float32 safetensors, fast tokenizer, chat template.

    Raises:
        TokurError: too little memory or disk space.
    """
    import torch
    import transformers

    auto: Any = transformers.AutoModelForCausalLM
    place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    # The dequantising bar can't be turned off otherwise.
    with nullcontext() if os.environ.get("TOKUR_DEBUG") == "1" else redirect_stderr(io.StringIO()):
        with torch.device("meta"):
            plain = auto.from_config(transformers.AutoConfig.from_pretrained(**place), dtype=torch.float32)
        _require_room(plain, folder)
        _load_tokenizer(file).save_pretrained(folder)
        unpacked = auto.from_pretrained(
            **place, dtype=torch.float32, quantization_config=transformers.GgufConfig(dequantize=True)
        )
    # A model loaded from GGUF counts as quantised and refuses to be saved; a plain one with the same weights doesn't.
    plain.load_state_dict(unpacked.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = unpacked.generation_config
    plain.save_pretrained(folder)


def _require_room(model: Any, folder: Path) -> None:
    needed = sum(parameter.nbytes for parameter in model.parameters())
    require_memory(needed)
    if needed > (free := shutil.disk_usage(folder).free):
        raise TokurError(
            f"the converted model needs {needed / 1e9:.1f} GB, but {folder.parent} has {free / 1e9:.1f} GB left; "
            "set TOKUR_CACHE to a folder on a larger disk"
        )


def _load_tokenizer(file: Path) -> PreTrainedTokenizerBase:
    """Load a GGUF file's tokenizer, with the splitting of digits that transformers leaves out."""
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    splitting = GGUFReader(file).get_field("tokenizer.ggml.pre")
    if splitting is not None and splitting.contents() == SINGLE_DIGITS:
        backend = tokenizer.backend_tokenizer
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer]
        )
    loaded: PreTrainedTokenizerBase = tokenizer
    return loaded
