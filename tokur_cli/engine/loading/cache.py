"""The folder where tokur keeps what it computed or fetched once."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from tokur_cli.records.errors import TokurError

ABANDONED_AFTER_SECONDS = 24 * 3600
"""For folders that cannot be locked, as on some network file systems: no build takes this long."""
CANNOT_WRITE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT})


def cache_folder() -> Path:
    """Return tokur's cache folder, made if need be: ``TOKUR_CACHE``, ``$XDG_CACHE_HOME/tokur`` or ``~/.cache/tokur``.

    Raises:
        TokurError: the folder can't be made.
    """
    if own := os.environ.get("TOKUR_CACHE"):
        folder = Path(own)
    elif shared := os.environ.get("XDG_CACHE_HOME"):
        folder = Path(shared) / "tokur"
    else:
        folder = Path("~/.cache/tokur")
    try:
        folder = folder.expanduser().absolute()
    except RuntimeError as error:  # a user without a home, as in containers
        raise TokurError(
            f"there is no home folder for the cache ({folder}); set TOKUR_CACHE to a folder that can be written"
        ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def place_folder(target: Path, build: Callable[[Path], None]) -> Path:
    """Make the folder `target` unless it is there; a folder under that name is always complete.

    It is built beside its place and renamed into it, so that a kill at any moment leaves no half-made `target`, and
    of several processes that build it at once the first one wins and the others use its work.

    Args:
        target: where the folder goes, anywhere under `cache_folder`.
        build: fills the empty folder that it is given.

    Raises:
        TokurError: the cache can't be written (read-only, no space).
        Exception: whatever `build` raises; nothing is placed then.
    """
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        unfinished, lock = _begin(target)
    except OSError as error:
        raise _unwritable(target.parent, error) from error
    try:
        build(unfinished)
        open_to_readers(unfinished, unfinished)
        os.rename(unfinished, target)
    except OSError as error:
        if target.is_dir():  # another process placed it first
            return target
        if error.errno in CANNOT_WRITE:
            raise _unwritable(target.parent, error) from error
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if lock is not None:
            os.close(lock)
    return target


def open_to_readers(folder: Path, like: Path) -> None:
    """Give the files under `folder` the permissions of the folder `like`: safetensors makes its own for one user."""
    mode = like.stat().st_mode & 0o666
    for file in folder.rglob("*"):
        if file.is_file():
            file.chmod(mode)


def _unfinished_prefix(target: Path) -> str:
    return f".unfinished-{target.name}-"


def _begin(target: Path) -> tuple[Path, int | None]:
    """Make an empty folder beside `target` and lock it, so that other processes see that someone is at work there."""
    while True:
        unfinished = target.with_name(f"{_unfinished_prefix(target)}{uuid.uuid4().hex}")
        unfinished.mkdir()
        try:
            lock = _lock(unfinished)
        except (BlockingIOError, FileNotFoundError):  # taken for abandoned before it was locked
            continue
        if unfinished.exists():
            return unfinished, lock


def _remove_abandoned(target: Path) -> None:
    """Delete what killed builds of `target` left behind, sparing those that are at work."""
    for leftover in target.parent.glob(f"{_unfinished_prefix(target)}*"):
        try:
            lock = _lock(leftover)
            if lock is not None or time.time() - leftover.stat().st_mtime > ABANDONED_AFTER_SECONDS:
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError:  # at work, done by now, or another user's
            continue
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder for as long as this process lives; return the lock, or None where folders can't be locked.

    Raises:
        BlockingIOError: another holds the lock.
        FileNotFoundError: the folder is gone.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return lock


def _unwritable(folder: Path, error: OSError) -> TokurError:
    return TokurError(
        f"the cache folder {folder} can't be written ({error.strerror or error}); set TOKUR_CACHE to a folder that can"
    )
