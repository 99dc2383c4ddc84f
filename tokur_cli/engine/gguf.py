"""GGUF files, converted once to a folder that loads fast.

transformers takes many seconds to parse and dequantise a GGUF file, every time; the same weights as safetensors load in
about one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from tokur_cli.engine.cache import cache_folder, place_folder

CONVERSION = "1"
"""Part of every converted folder's name; a change of what `convert_gguf` writes must change it."""


def converted_gguf(file: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder of safetensors made from a GGUF file, from the cache if this very file was converted before."""
    status = file.stat()
    identity = f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    key = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]
    target = cache_folder() / "models" / f"{file.stem}-{key}-{CONVERSION}"

    def build(folder: Path) -> None:
        progress(f"converting {file.name} (once, it is kept in {target})")
        convert_gguf(file, folder)

    return place_folder(target, build)


def convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF file's model and tokenizer into `folder`: float32 safetensors, fast tokenizer, chat template."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

    place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    AutoTokenizer.from_pretrained(**place).save_pretrained(folder)
    unpacked = AutoModelForCausalLM.from_pretrained(
        **place, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    # The loaded model counts as quantised, and such a model refuses to be saved; the same weights in a model built from
    # the file's plain config do not.
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(**place), dtype=torch.float32)
    plain.load_state_dict(unpacked.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = unpacked.generation_config
    plain.save_pretrained(folder)
