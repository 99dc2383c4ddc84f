"""Outputs: which would be written over an input or over each other; and how one appears whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tokur_cli.records.streams import STDIN


def overwritten(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> str | None:
    """Return the first output that is also an input; None if there is none.

    Files are told apart by device and inode, so every link to a file is that file; one that is not there yet is told by
    its path. Devices and pipes can be both.

    Args:
        outputs: names; None is no output, and ``-`` is standard output, which is left alone.
        inputs: names; None is no input, and ``-`` is standard input, whatever file that comes from.
    """
    read = {_file(path) for path in inputs if path is not None}
    written = (path for path in outputs if path is not None and path != STDIN)
    return next((path for path in written if _file(path) in read and not _is_device(path)), None)


def written_twice(outputs: Sequence[str]) -> str | None:
    """Return the first output that is also another one, ``-`` being standard output; None if there is none."""
    files = [path if path == STDIN else _file(path) for path in outputs]
    return next((path for path, file in zip(outputs, files, strict=True) if files.count(file) > 1), None)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give the name of a file or a folder to make; when all went well, it takes the place of ``target`` as a whole.

    It is made beside its place, and nothing of it stays when something went wrong.

    Raises:
        OSError: it cannot be written.
    """
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    prefix = f".unfinished-{target.name}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as scratch:
        new, old = Path(scratch, "new"), Path(scratch, "old")
        yield new
        if target.is_dir():  # no system call replaces a folder
            target.rename(old)
        try:
            new.replace(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise


def _file(path: str) -> object:
    """Return what all names of a file have in common."""
    try:
        status = os.fstat(sys.stdin.fileno()) if path == STDIN else os.stat(path)
    except (ValueError, AttributeError):  # standard input is not a file at all
        return path
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)
