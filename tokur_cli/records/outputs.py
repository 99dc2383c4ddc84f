"""Outputs: none is an input, another output or finished work; and how one appears whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.streams import STDIN, file_id

STANDARD_OUTPUT = "standard output"
_NO_TEXT = (".gz", ".zst", ".html", ".htm", ".svg", ".pdf", ".png")


# --- what may be written ---


def check_files(inputs: Iterable[str], outputs: Sequence[tuple[str, bool]]) -> None:
    """Refuse outputs that cannot be written, or would destroy an input or each other, before any work is done.

    Every link to a file is that file. Devices and pipes can be written and read. Standard output counts as an output:
    a shell may have led it to an input, which ``>`` empties before tokur starts and ``>>`` makes grow while it is read.
    Beside the name of each output stands whether it is a folder, which is made with those that it is in.

    Raises:
        UsageError: an output is an input, or two outputs are one file.
        TokurError: an output's folder is missing, or it is a folder itself, or may not be written.
    """
    taken = dict.fromkeys(map(file_id, inputs), "is also an input, and would be overwritten: give another name")
    for path, is_folder in outputs if (STDIN, False) in outputs else [(STDIN, False), *outputs]:
        if path != STDIN:
            _check_writable(path, is_folder)
        file = file_id(sys.stdout) or STDIN if path == STDIN else file_id(path)
        if file in taken and file is not None:
            raise UsageError(f"{STANDARD_OUTPUT if path == STDIN else path}: {taken[file]}")
        taken[file] = "would take two outputs: give one of them another name"


def _check_writable(path: str, is_folder: bool) -> None:
    """Refuse a file that cannot be written, or a folder that cannot be made, with those that it is in."""
    is_new = is_folder or not os.path.exists(path)
    file = os.path.realpath(path) + ("" if is_folder or not path.endswith("/") else "/")
    place = os.path.dirname(file) if is_new else path
    while is_folder and not os.path.lexists(place):
        place = os.path.dirname(place)
    if os.path.isdir(place) != is_new or not os.access(place, os.W_OK):
        kind = "folder" if is_new else "file"
        raise TokurError(f"{path}: cannot be written: {place} is no {kind} that may be written")


def check_target(path: str | None, *, force: bool, resume: bool | None = None) -> None:
    """Refuse a file for records that holds something, unless this is to be replaced or continued.

    ``resume`` is None where the command cannot continue a file.

    Raises:
        UsageError: it holds something, or is named as an archive or a picture.
    """
    if path is None or path == STDIN:
        return
    if path.endswith(_NO_TEXT):
        raise UsageError(f"{path}: would hold plain text: `| gzip` packs it, and tokur heatmap --svg FILE draws")
    if os.path.isfile(path) and os.path.getsize(path) and not (force or resume):
        ways = "--force to replace it" if resume is None else "--resume to continue it, --force to replace it"
        raise UsageError(f"{path}: has something in it: give {ways}, or another name")


# --- how it is written ---


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Give what the system says about writing a file the file's name.

    Raises:
        TokurError: instead of an OSError; not of a closed pipe, which is a normal end.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TokurError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def writing_whole(path: str) -> Iterator[TextIO]:
    """Give a text file in UTF-8 that appears under its name, whole, when all went well, and not at all otherwise.

    A device or a pipe is written as it is, and so is standard output (``-``).

    Raises:
        TokurError: it cannot be written.
    """
    if path == STDIN:
        with naming(STANDARD_OUTPUT):
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # whatever the locale says
            yield sys.stdout
            sys.stdout.flush()
        return
    place = Path(os.path.realpath(path))
    # Whoever opened a descriptor would go on with the old file
    is_descriptor = os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/"))
    with naming(path), ExitStack() as stack:
        if not is_descriptor and (place.is_file() or not place.exists()):
            path = str(stack.enter_context(replacing(place)))
        yield stack.enter_context(open(path, "w", encoding="utf-8", newline="\n"))


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give the name of a file or a folder to make; when all went well, it takes the place of ``target`` as a whole.

    It is made in a folder beside its place, and nothing of it stays when something went wrong. A file keeps the
    permissions of what was there; a folder takes the place of an empty one alone.

    Raises:
        OSError: it cannot be written.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=target.parent, ignore_cleanup_errors=True) as scratch:
        new = Path(scratch, "new")
        yield new
        if target.is_file():
            shutil.copymode(target, new)
        new.replace(target)
