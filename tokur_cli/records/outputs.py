"""Outputs: none is an input, another output or finished work; and how one appears whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO

from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.streams import STDIN, display_name

STANDARD_OUTPUT = "standard output"
_PICTURES = (".html", ".htm", ".svg", ".pdf", ".png")
_LONGEST_NAME = 200  # bytes, of the 255 that a name may have

FileId = tuple[int, int] | str
"""What all names of a file have in common: device and inode; the path of one that is not there yet."""


# --- what may be written ---


def check_files(inputs: Iterable[str], outputs: Sequence[str]) -> None:
    """Refuse outputs that would destroy an input or each other; call it before anything is opened for writing.

    Every link to a file is that file. Devices and pipes can be written and read. Standard output counts as an output:
    a shell may have led it to an input. A folder that is read stands for what is in it but for records (``.jsonl``),
    which people may keep beside a model; one that is written is replaced with all that is in it.

    Raises:
        UsageError: an output is or holds an input, or two outputs are one file.
    """
    read: dict[FileId, str] = {}
    within: dict[FileId, str] = {}  # the inputs, and the folders that they are in
    for path in inputs:
        file = _file_of(path)
        if file is not None:
            read[file] = display_name(path)
            within |= dict.fromkeys(_lineage(path) if path != STDIN else [file], display_name(path))
    standard_output = _file_of_stream(sys.stdout) or STDIN
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
        is_inside = os.path.isfile(path) and not path.endswith(".jsonl") and any(one in read for one in _lineage(path))
        if path != STDIN and (file in within or is_inside):
            raise UsageError(f"{path}: is also an input, or holds one, and would be overwritten: give another name")


def check_target(path: str | None, *, force: bool, resume: bool | None = None) -> None:
    """Refuse a file for records that holds something, unless this is to be replaced or continued.

    ``resume`` is None where the command cannot continue a file.

    Raises:
        UsageError: it holds something, or cannot be continued or compressed, or is named as a picture, or the options
            do not go together.
    """
    if path is None or path == STDIN:
        if resume or force:
            raise UsageError(f"--{'resume' if resume else 'force'} needs -o FILE")
        return
    if resume and force:
        raise UsageError("--resume continues a file and --force replaces it: give one of the two")
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
    elif not is_replaced(path):
        with naming(path), open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
    else:
        with naming(path), replacing(Path(os.path.realpath(path))) as new:  # noqa: SIM117 - in this order
            with open(new, "w", encoding="utf-8", newline="\n") as file:
                yield file


def in_utf8(stream: TextIO) -> TextIO:
    """Return a standard stream as what records, pages and a model's text need, whatever the locale says."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", newline="\n")
    return stream


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give the name of a file or a folder to make; when all went well, it takes the place of ``target`` as a whole.

    It is made in a folder beside its place, which is locked meanwhile, and nothing of it stays when something went
    wrong. A file keeps the permissions of what was there, and takes no folder's place. What killed runs left there for
    the same target is removed first, and a folder that one of them was about to replace goes back to its place.

    Raises:
        OSError: it cannot be written.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    name = os.fsencode(target.name)
    known = target.name if len(name) <= _LONGEST_NAME else hashlib.sha256(name).hexdigest()
    prefix = f".unfinished-{known}-"
    for entry in list(target.parent.iterdir()):
        if entry.name.startswith(prefix) and entry.is_dir():
            _remove_abandoned(entry, target)
    scratch = target.with_name(f".{uuid.uuid4().hex}")
    scratch.mkdir()
    with _locked(scratch):
        scratch = scratch.rename(target.with_name(f"{prefix}{uuid.uuid4().hex[:12]}"))  # seen once it is locked
        try:
            yield scratch / "new"
            _put(scratch / "new", target, scratch / "old")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _put(new: Path, target: Path, old: Path) -> None:
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


def _remove_abandoned(folder: Path, target: Path) -> None:
    with suppress(OSError), _locked(folder) as is_free:  # done by now, or another user's
        if is_free:
            if (folder / "old").exists() and not target.exists():
                (folder / "old").rename(target)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool | None]:
    if sys.platform == "win32":  # folders cannot be opened
        yield None
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)


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


def _file_of(path: str) -> FileId | None:
    """Return which file an input's name means; None for a device or a pipe."""
    if path == STDIN:
        return _file_of_stream(sys.stdin)
    try:
        return _identity(os.stat(path))
    except OSError:
        return os.path.realpath(path)


def _file_of_stream(stream: TextIO | None) -> FileId | None:
    try:
        return None if stream is None else _identity(os.fstat(stream.fileno()))
    except (OSError, ValueError, AttributeError):  # not a file at all
        return None


def _identity(status: os.stat_result) -> FileId | None:
    regular = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if regular else None


def _lineage(path: str) -> Iterator[FileId]:
    """Yield a file's identity and those of the folders that it is in."""
    real = Path(os.path.realpath(path))
    return (file for place in (real, *real.parents) if (file := _file_of(str(place))) is not None)
