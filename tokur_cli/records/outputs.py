"""Outputs: none is an input, another output or finished work; and how one appears whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TextIO

from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.records.unfinished import OLD, beside, is_being_made

STANDARD_OUTPUT = "standard output"
_PICTURES = (".html", ".htm", ".svg", ".pdf", ".png")

FileId = tuple[int, int] | str
"""What all names of a file have in common: device and inode; the path of one that is not there yet."""


def check_files(inputs: Iterable[str], outputs: Sequence[str]) -> None:
    """Refuse outputs that would destroy an input or each other; call it before anything is opened for writing.

    Every link to a file is that file. Devices and pipes can be written and read. Standard output counts as an output:
    a shell may have led it to an input.

    Args:
        inputs: names; ``-`` is standard input. A folder stands for what is in it but for records (``.jsonl``), which
            people may keep beside a model.
        outputs: names; ``-`` is standard output. A folder is replaced with all that is in it.

    Raises:
        UsageError: an output is or holds an input, or two outputs are one file.
    """
    read: dict[FileId, str] = {}
    lineages: dict[FileId, str] = {}
    for path in inputs:
        file = _file_of(path)
        if file is not None:
            read[file] = display_name(path)
            lineages |= dict.fromkeys(_lineage(path) if path != STDIN else [file], display_name(path))
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
        if path == STDIN:
            continue
        if file in lineages and file not in read:
            raise UsageError(f"{path}: holds {lineages[file]}, which is read, and would be replaced: give another name")
        part = os.path.isfile(path) and not path.endswith(".jsonl") and any(one in read for one in _lineage(path))
        if file in read or part:
            raise UsageError(f"{path}: is also an input and would be written over: give another name")


def check_target(path: str | None, *, force: bool, resume: bool | None = None) -> None:
    """Refuse a file for records that holds something, unless this is to be replaced or continued.

    Args:
        path: its name; None or ``-`` is standard output.
        force: replace what it holds.
        resume: continue it; None where the command cannot.

    Raises:
        UsageError: it holds something, or cannot be continued or compressed, or is named as a picture, or the options
            do not go together.
    """
    if path is None or path == STDIN:
        if resume or force:
            raise UsageError(f"--{'resume' if resume else 'force'} is about a file that is written: give one")
        return
    if resume and force:
        raise UsageError("--resume continues a file and --force replaces it: give one of the two")
    if path.endswith((".gz", ".zst")):
        tool = "gzip" if path.endswith(".gz") else "zstd"
        raise UsageError(f"{path}: records are written uncompressed: write to standard output, `| {tool} > {path}`")
    if path.endswith(_PICTURES):
        raise UsageError(
            f"{path}: would hold text, not a picture: tokur heatmap writes a page with --html FILE, a figure with "
            "--svg FILE"
        )
    if os.path.isfile(path):
        if os.path.getsize(path) and not (force or resume):
            ways = "--force to replace it" if resume is None else "--resume to continue it, --force to replace it"
            raise UsageError(f"{path}: has something in it: give {ways}, or another name")
    elif resume and os.path.exists(path):
        raise UsageError(f"{path}: is not a regular file: --resume cannot continue it")


def check_writable(path: str, *, folder: bool = False) -> None:
    """Refuse a file that cannot be written, before any work is done for it.

    Args:
        path: its name.
        folder: whether a folder is to be made, with those that it is in.

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
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


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
    with naming(path):
        if not is_replaced(path):
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        with replacing(target) as new:
            with open(new, "w", encoding="utf-8", newline="\n") as file:
                yield file
            if target.exists():
                shutil.copymode(target, new)


def in_utf8(stream: TextIO) -> TextIO:
    """Return a standard stream as what records, pages and a model's text need, whatever the locale says."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", newline="\n")
    return stream


class Replacement:
    """A file of bytes that takes the place of another when it is complete, and not at all otherwise.

    Args:
        path: a name; every link on the way is followed.

    Attributes:
        file: to be written.

    Raises:
        TokurError: another run makes the same file.
        OSError: it cannot be made.
    """

    def __init__(self, path: str) -> None:
        self._target = Path(os.path.realpath(path))
        with ExitStack() as stack:
            folder = stack.enter_context(beside(self._target))
            if is_being_made(self._target, folder):
                raise TokurError(f"{path}: is being written by another run: wait for it, or give another -o FILE")
            self._new = folder / "new"
            self.file = stack.enter_context(open(self._new, "wb"))
            self._stack = stack.pop_all()

    def put(self) -> None:
        """Let what was written take its place, with the permissions of what is there.

        Raises:
            OSError: it cannot.
        """
        if self.file.closed:
            return
        self.file.close()
        if self._target.exists():
            shutil.copymode(self._target, self._new)
        put(self._new, self._target)

    def close(self) -> None:
        """Remove what did not take its place."""
        self._stack.close()


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give the name of a file or a folder to make; when all went well, it takes the place of ``target`` as a whole.

    It is made beside its place, and nothing of it stays when something went wrong.

    Raises:
        OSError: it cannot be written.
    """
    with beside(target.absolute()) as scratch:
        new = scratch / "new"
        yield new
        put(new, target)


def put(new: Path, target: Path) -> None:
    """Let a file or a folder, made in a folder of ``beside``, take the place of ``target``.

    Raises:
        OSError: it cannot; a file takes no folder's place.
    """
    old = new.with_name(OLD)
    if target.is_dir():  # no system call replaces a folder
        if new.is_file():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        target.rename(old)
    try:
        new.replace(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise


def is_replaced(path: str) -> bool:
    """Return whether what is written under this name can take the place of what is there: not of a device or a pipe.

    Nor of a file by the name of a descriptor: whoever opened it would go on with the old one.
    """
    place = os.path.abspath(path)
    if place in ("/dev/stdout", "/dev/stderr") or place.startswith(("/dev/fd/", "/proc/")):
        return False
    return os.path.isfile(path) or not os.path.exists(path)


def lock(file: IO[bytes], path: str) -> None:
    """Keep other runs from writing a file as long as it is open here; where there are no locks, go without.

    Raises:
        TokurError: another run writes it.
    """
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TokurError(f"{path}: is being written by another run: wait for it, or give another -o FILE") from None
    except OSError:  # a file system that knows no locks
        return


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
