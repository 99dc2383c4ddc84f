"""A basis in tokur's cache: written with its checksum, and used only where it is what was written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tokur_cli.engine.loading.cache import open_to_readers
from tokur_cli.records.outputs import replacing

_CHECKSUM = "blake2b"


def load_basis(
    path: Path, shapes: Mapping[str, tuple[int, ...]], note: Callable[[str], None]
) -> dict[str, Tensor] | None:
    """Return U′ of every matrix, float32, (out, r′); None where it has to be computed.

    Args:
        path: the file.
        shapes: of U′ by the names of the matrices.
        note: told that the file is damaged, in a sentence.
    """
    try:
        with safe_open(path, "pt") as file:
            checksum = (file.metadata() or {}).get(_CHECKSUM)
            bases: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError) as error:  # cut short, a header that is none, or not for this user
        note(f"{path}: cannot be read ({error}): the basis is computed again")
        return None
    if checksum is None:  # of a tokur that wrote none
        return None
    if {name: tuple(basis.shape) for name, basis in bases.items()} == shapes and _checksum(bases) == checksum:
        return bases
    note(f"{path}: is damaged (its checksum does not fit): the basis is computed again")
    return None


def save_basis(path: Path, bases: Mapping[str, Tensor]) -> None:
    """Write the basis; a cache that cannot be written costs time at the next start, nothing else."""
    try:
        with replacing(path) as unfinished:
            save_file(dict(bases), unfinished, metadata={_CHECKSUM: _checksum(bases)})
            open_to_readers(unfinished.parent, path.parent)
    except (OSError, SafetensorError):  # the latter on a full disk
        return


def _checksum(bases: Mapping[str, Tensor]) -> str:
    """Return the BLAKE2b over the names, shapes, dtypes and bytes, in the order of the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name, basis in sorted(bases.items()):
        digest.update(f"{name} {tuple(basis.shape)} {basis.dtype}\n".encode())
        digest.update(basis.contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
