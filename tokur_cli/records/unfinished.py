"""Folders in which something is made beside its place: locked while it is, and removed where a kill left them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OLD = "old"
"""What the folder calls that which is being replaced."""
ABANDONED_AFTER_SECONDS = 24 * 3600
"""For folders that cannot be locked, as on some network file systems: nothing takes this long."""
_LONGEST_NAME = 200  # bytes, of the 255 that a name may have


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Give an empty folder beside ``target``; in the end it is removed with what is still in it.

    What killed runs left there for the same target is removed first.

    Raises:
        OSError: it cannot be made.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target)
    folder, held = _begin(target)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def remove_abandoned(target: Path) -> None:
    """Delete what killed runs left behind of ``target``, sparing those that are at work.

    A folder that was about to be replaced goes back to its place.
    """
    for leftover in folders_beside(target):
        try:
            held = _lock(leftover)
            if held is not None or time.time() - leftover.stat().st_mtime > ABANDONED_AFTER_SECONDS:
                if (leftover / OLD).exists() and not target.exists():
                    (leftover / OLD).rename(target)
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError:  # at work, done by now, or another user's
            continue
        if held is not None:
            os.close(held)


def is_being_made(target: Path, but: Path) -> bool:
    """Return whether another run makes ``target``, in another folder than ``but``; False where there are no locks."""
    for folder in folders_beside(target):
        if folder != but:
            try:
                held = _lock(folder)
            except BlockingIOError:
                return True
            except OSError:  # done by now
                continue
            if held is not None:
                os.close(held)
    return False


def folders_beside(target: Path) -> list[Path]:
    """Return the folders in which ``target`` is, or was, being made."""
    name = re.compile(re.escape(_prefix(target)) + "[0-9a-z_]+")
    return [entry for entry in target.parent.iterdir() if name.fullmatch(entry.name) and entry.is_dir()]


def _prefix(target: Path) -> str:
    name = os.fsencode(target.name)
    return f".unfinished-{target.name if len(name) <= _LONGEST_NAME else hashlib.sha256(name).hexdigest()}-"


def _begin(target: Path) -> tuple[Path, int | None]:
    """Make an empty folder beside ``target`` and lock it, so that other processes see that someone is at work there."""
    while True:
        folder = target.with_name(f"{_prefix(target)}{uuid.uuid4().hex[:12]}")
        folder.mkdir()
        try:
            held = _lock(folder)
        except (BlockingIOError, FileNotFoundError):  # taken for abandoned before it was locked
            continue
        if folder.exists():
            return folder, held


def _lock(folder: Path) -> int | None:
    """Lock a folder for as long as this process lives; return the lock, or None where folders can't be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return held
