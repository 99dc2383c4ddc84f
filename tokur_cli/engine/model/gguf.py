"""GGUF files, converted once to a folder that loads fast.

transformers takes many seconds to parse and dequantise a GGUF file, every time; the same weights as safetensors load in
about one.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.model.cache_dir import cache_folder, cached_model
from tokur_cli.engine.model.imports import import_transformers
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CONVERSION = "2"
"""Part of every converted folder's name; a change of what `convert_gguf` writes must change it."""

SPECIAL_TOKENS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def converted_gguf(file: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder of safetensors made from a GGUF file, from the cache if this very file was converted before.

    Raises:
        TokurError: it isn't a GGUF file.
    """
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise TokurError(f"{file} isn't a GGUF file; a model is a folder, a GGUF file or a Hugging Face hub id")
    status = file.stat()
    identity = f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    name = f"{file.stem}-{key}-{CONVERSION}"
    return cached_model(name, lambda folder: convert_gguf(file, folder, file.name, progress))


def convert_gguf(file: Path, folder: Path, name: str, progress: Callable[[str], None]) -> None:
    """Write a GGUF file's model and tokenizer into `folder`: float32 safetensors, fast tokenizer, chat template."""
    progress(f"converting {name} (once; it is kept in {cache_folder()})")
    import_transformers()
    import torch
    import transformers

    model: Any = transformers.AutoModelForCausalLM
    unpacking = transformers.GgufConfig(dequantize=True)
    with redirect_stderr(io.StringIO()):  # the dequantising bar can't be turned off otherwise
        _load_tokenizer(file).save_pretrained(folder)
        model = model.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype=torch.float32, quantization_config=unpacking
        )
    model.save_pretrained(folder)


def _load_tokenizer(file: Path) -> PreTrainedTokenizerBase:
    """Load a GGUF file's tokenizer, mending what transformers drops.

    All versions drop the single digits; 5.17 also mistakes the end of sequence, drops the padding and decodes ``▁``, a
    character like any other to a byte-level tokenizer, to a space.
    """
    from gguf import GGUFReader
    from tokenizers import decoders, pre_tokenizers
    from transformers import AutoTokenizer

    reader = GGUFReader(file)

    def written(field: str) -> Any:
        found = reader.get_field(f"tokenizer.ggml.{field}")
        return None if found is None else found.contents()

    tokenizer: Any = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    for role, field in SPECIAL_TOKENS.items():
        if (token_id := written(field)) is not None:
            setattr(tokenizer, role, tokenizer.convert_ids_to_tokens(token_id))
    if written("model") == "gpt2":  # over bytes
        tokenizer.clean_up_tokenization_spaces = False
        tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    if written("pre") == "smollm":  # as GPT-2 splits text, but for digits, each of which stands alone
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    loaded: PreTrainedTokenizerBase = tokenizer
    return loaded
