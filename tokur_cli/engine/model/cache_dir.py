"""The folder where tokur keeps what it computed or fetched once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import replacing


def cache_folder() -> Path:
    """Return tokur's cache folder, made if need be: ``TOKUR_CACHE``, ``$XDG_CACHE_HOME/tokur`` or ``~/.cache/tokur``.

    Raises:
        TokurError: the folder can't be made.
    """
    shared = os.environ.get("XDG_CACHE_HOME")
    folder = Path(os.environ.get("TOKUR_CACHE") or (Path(shared) / "tokur" if shared else "~/.cache/tokur"))
    try:
        folder = folder.expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # the latter for a user without a home, as in containers
        raise TokurError(f"the cache folder {folder} can't be made ({error}); set TOKUR_CACHE to another") from error
    return folder


def cached_model(name: str, build: Callable[[Path], None]) -> Path:
    """Return a model's folder in the cache, made unless it is there; under its name, it is always complete.

    Args:
        name: of the folder.
        build: fills the empty folder that it is given; nothing is kept if it raises.
    """
    target = cache_folder() / "models" / name
    if not target.is_dir():
        try:
            with replacing(target) as new:
                new.mkdir()
                build(new)
                open_to_readers(new, new)
        except OSError:
            if not target.is_dir():  # else another process placed it first
                raise
    return target


def open_to_readers(folder: Path, like: Path) -> None:
    """Give the files under `folder` the permissions of the folder `like`: safetensors makes its own for one user."""
    mode = like.stat().st_mode & 0o666
    for file in folder.rglob("*"):
        if file.is_file():
            file.chmod(mode)
