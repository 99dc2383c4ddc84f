"""What tells the content of files from another content, for settings that name files: those of an edited one differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DIGITS = 16
_OF_A_MODEL = (".json", ".safetensors", ".bin", ".pt", ".pth", ".model", ".tiktoken", ".txt", ".py", ".gguf")
_CHAT_TEMPLATE = "chat_template"
_WHOLE = 1 << 25  # a file of more bytes, which holds weights, counts with its size and some of them
_PIECES, _PIECE = 1024, 1 << 12


def content_digest(content: Any) -> str:
    """Return the beginning of the SHA-256 of a text, or of what JSON can say."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def model_digest(name: str) -> str | None:
    """Return what tells the files of a local model from others; None for a model of the hub, which its commit tells.

    Names and contents count, of files of more than 32 MiB 1,024 pieces of 4 KiB at even distances: training changes
    nearly all numbers of a weight. Chat templates do not, for only what is asked depends on them.
    """
    path = Path(name).expanduser()
    if not path.exists():
        return None
    files = sorted(file for file in path.iterdir() if file.suffix in _OF_A_MODEL) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        if file.name.startswith(_CHAT_TEMPLATE) or not file.is_file():
            continue
        size = file.stat().st_size
        digest.update(f"{file.name if path.is_dir() else ''} {size}\n".encode())
        with file.open("rb", buffering=0) as stream:
            if size <= _WHOLE:
                digest.update(stream.read())
                continue
            for piece in range(_PIECES):
                stream.seek((size - _PIECE) * piece // (_PIECES - 1))
                digest.update(stream.read(_PIECE))
    return digest.hexdigest()[:_DIGITS]


def with_model_digests(settings: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return settings with a digest of each local model that they name, unless known settings have it already."""
    found = dict(settings)
    for name in ("model", "base", "nli_model", "similarity_model"):
        if name in settings:
            digest = (known or {}).get(f"{name}_digest") or model_digest(settings[name])
            found |= {} if digest is None else {f"{name}_digest": digest}
    return found
