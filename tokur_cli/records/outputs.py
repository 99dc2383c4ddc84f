"""Outputs: none is an input, another output or finished work; and how one appears whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO

from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.streams import STDIN, display_name

STANDARD_OUTPUT = "standard output"
_PICTURES = (".html", ".htm", ".svg", ".pdf", ".png")
_DAY = 86_400.0  # seconds; nobody makes one file or folder for so long

FileId = tuple[int, int] | str
"""What all names of a file have in common: device and inode; the path of one that is not there yet."""


# --- what may be written ---


def check_files(inputs: Iterable[str], outputs: Sequence[str]) -> None:
    """Refuse outputs that would destroy an input or each other; call it before anything is opened for writing.

    Every link to a file is that file. Devices and pipes can be written and read. Standard output counts as an output:
    a shell may have led it to an input. A folder that is written is replaced with all that is in it.

    Raises:
        UsageError: an output is or holds an input, or two outputs are one file.
    """
    read: dict[FileId, str] = {}
    held: set[FileId] = set()  # the inputs, and the folders that they are in
    for path in inputs:
        file = _file_of(path, sys.stdin)
        if file is not None:
            read[file] = display_name(path)
            places = Path(os.path.realpath(path)).parents if path != STDIN else ()
            held |= {file, *(folder for place in places if (folder := _file_of(str(place))) is not None)}
    standard_output = _file_of(STDIN, sys.stdout) or STDIN
    if standard_output in read:
        raise UsageError(
            f"standard output goes to {read[standard_output]}, which is read (a shell's > empties a file before tokur "
            "starts): give another file"
        )
    written = set() if STDIN in outputs else {standard_output}
    for path in outputs:
        file = standard_output if path == STDIN else _file_of(path)
        if file is None:
            continue
        if file in written:
            raise UsageError(
                f"{STANDARD_OUTPUT if path == STDIN else path}: would take two outputs: give one of them another name"
            )
        written.add(file)
        if path != STDIN and file in held:
            raise UsageError(f"{path}: is also an input, or holds one, and would be overwritten: give another name")


def check_target(path: str | None, *, force: bool, resume: bool | None = None) -> None:
    """Refuse a file for records that holds something, unless this is to be replaced or continued.

    ``resume`` is None where the command cannot continue a file.

    Raises:
        UsageError: it holds something, or cannot be continued or compressed, or is named as a picture.
    """
    if path is None or path == STDIN:
        if force:
            raise UsageError("--force needs -o FILE")
        return
    if path.endswith((".gz", ".zst")):
        raise UsageError(f"{path}: records are written uncompressed: write to standard output, `| gzip > {path}`")
    if path.endswith(_PICTURES):
        raise UsageError(f"{path}: would hold text, no picture: tokur heatmap draws with --html FILE or --svg FILE")
    if os.path.isfile(path):
        if os.path.getsize(path) and not (force or resume):
            ways = "--force to replace it" if resume is None else "--resume to continue it, --force to replace it"
            raise UsageError(f"{path}: has something in it: give {ways}, or another name")
    elif resume and os.path.exists(path):
        raise UsageError(f"{path}: is not a regular file: --resume cannot continue it")


def check_writable(path: str, *, folder: bool = False) -> None:
    """Refuse a file that cannot be written, before any work is done for it.

    With ``folder``, one is to be made, with those that it is in.

    Raises:
        TokurError: its folder is missing, or it is a folder itself, or may not be written.
    """
    with naming(path):
        if not folder and (os.path.isdir(path or os.curdir) or path.endswith(("/", os.sep))):
            raise TokurError(f"{path or os.curdir}: is a directory: give a file's name")
        place = path if os.path.exists(path) and not folder else os.path.dirname(os.path.realpath(path))
        while folder and not os.path.lexists(place):
            place = os.path.dirname(place)
        if not stat.S_ISDIR(os.stat(place).st_mode) and folder:
            raise TokurError(f"{path}: cannot be written: {place} is no folder")
        if not os.access(place, os.W_OK):
            raise TokurError(f"{path}: cannot be written: Permission denied")


def is_replaced(path: str) -> bool:
    """Return whether what is written under this name can take the place of what is there: not of a device or a pipe.

    Nor of a file by the name of a descriptor: whoever opened it would go on with the old one.
    """
    place = os.path.abspath(path)
    if place in ("/dev/stdout", "/dev/stderr") or place.startswith(("/dev/fd/", "/proc/")):
        return False
    return os.path.isfile(path) or not os.path.exists(path)


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
def writing_whole(path: str) -> Iterator[IO[str]]:
    """Give a text file in UTF-8 that appears under its name, whole, when all went well, and not at all otherwise.

    A device or a pipe is written as it is, and so is standard output (``-``).

    Raises:
        TokurError: it cannot be written.
    """
    if path == STDIN:
        with naming(STANDARD_OUTPUT):
            yield in_utf8(sys.stdout)
            sys.stdout.flush()
        return
    with naming(path), ExitStack() as stack:
        place = Path(path)
        if is_replaced(path):
            place = stack.enter_context(replacing(Path(os.path.realpath(path))))
        yield stack.enter_context(open(place, "w", encoding="utf-8", newline="\n"))


def in_utf8(stream: TextIO) -> TextIO:
    """Return a standard stream as what records, pages and a model's text need, whatever the locale says."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", newline="\n")
    return stream


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give the name of a file or a folder to make; when all went well, it takes the place of ``target`` as a whole.

    It is made in a folder beside its place, and nothing of it stays when something went wrong. A file keeps the
    permissions of what was there, and takes no folder's place. What killed runs left there for the same target is
    removed after a day, and a folder that one of them was about to replace goes back to its place at once.

    Raises:
        OSError: it cannot be written.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".unfinished-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"
    for left in [entry for entry in target.parent.iterdir() if entry.name.startswith(prefix)]:
        with suppress(OSError):  # done by now, or another user's
            is_abandoned = time.time() - left.stat().st_mtime > _DAY
            if (left / "old").exists() and not target.exists():
                (left / "old").rename(target)
            if is_abandoned:
                shutil.rmtree(left)
    scratch = target.with_name(prefix + uuid.uuid4().hex)
    scratch.mkdir()
    new, old = scratch / "new", scratch / "old"
    try:
        yield new
        if target.is_file() and new.is_file():
            shutil.copymode(target, new)
        if target.is_dir() and new.is_dir():  # no system call replaces a folder
            target.rename(old)
        try:
            new.replace(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def lock(file: IO[bytes] | int) -> bool | None:
    """Lock what is open here; return False while another process has it, None where there are no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that knows no locks
        return None
    return True


# --- which file it is ---


def _file_of(path: str, standard: TextIO | None = None) -> FileId | None:
    """Return which file a name means, ``-`` being a standard stream; None for a device or a pipe."""
    if path != STDIN:
        standard = None
    elif standard is None:
        return None
    try:
        status = os.stat(path) if standard is None else os.fstat(standard.fileno())
    except (OSError, ValueError, AttributeError):  # it is not there, or the stream is no file of the system
        return os.path.realpath(path) if standard is None else None
    is_kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if is_kept else None
