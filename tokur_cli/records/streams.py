"""Bytes in: files, pipes and standard input, plain, gzip or zstd, as lines."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import IO, Any, cast

from tokur_cli.records.errors import TokurError

STDIN = "-"
BOM = b"\xef\xbb\xbf"
MAX_LINE = 64_000_000
"""The longest line, element or archive member that is read by default, in bytes."""

_BUFFER = 1 << 16
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte from 0x50 to 0x5f; what pzstd writes begins so


def display_name(path: str) -> str:
    """Return an input's name for messages."""
    return "<stdin>" if path == STDIN else path


def is_regular_file(path: str) -> bool:
    """Return whether a file is on a disk, so that no read waits for data still to come."""
    try:
        status = os.fstat(sys.stdin.fileno()) if path == STDIN else os.stat(path)
    except (OSError, ValueError, AttributeError):  # not there, or standard input is no file of the system
        return True
    return stat.S_ISREG(status.st_mode)


def open_input(path: str) -> io.BufferedReader:
    """Open a file for reading, decompressed.

    gzip (also of several members) and zstd (also of several frames) are recognised by their first bytes. Standard input
    is not closed with the stream.

    Raises:
        TokurError: it cannot be opened; later, on reading: the archive is cut short or corrupt (after all that comes
            before was delivered).
    """
    name = display_name(path)
    file = _open_stdin() if path == STDIN else _open_file(path)
    head, as_it_comes = file.peek(), SimpleNamespace(read=file.read1)
    if head.startswith(_GZIP):
        import gzip

        return io.BufferedReader(_Unpacked(gzip.GzipFile(fileobj=as_it_comes), file, "gzip", name), _BUFFER)
    if head.startswith(_ZSTD) or (head[:1] in b"PQRSTUVWXYZ[\\]^_" and head.startswith(_ZSTD_SKIPPABLE, 1)):
        if sys.version_info >= (3, 14):
            from compression.zstd import ZstdFile
        else:
            from backports.zstd import ZstdFile

        return io.BufferedReader(_Unpacked(ZstdFile(as_it_comes), file, "zstd", name), _BUFFER)
    return file


def bounded_lines(stream: IO[bytes], max_line: int = MAX_LINE) -> Iterator[tuple[int, bytes | None]]:
    r"""Yield each line's number, from 1, and its bytes; None of a line that is longer than ``max_line`` bytes.

    Lines are split at ``\n`` and at nothing else, with memory for one.
    """
    number = 0
    while line := stream.readline(max_line + 1):
        number += 1
        is_whole = len(line) <= max_line or line.endswith(b"\n")
        rest = b"" if is_whole else line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(_BUFFER)
        yield number, line if is_whole else None


def too_long(max_line: int) -> str:
    """Return the message for a line, element or archive member of more bytes than that."""
    size = f"{max_line / 1e6:g} MB" if max_line >= 1_000_000 else f"{max_line:,} bytes"
    return f"is longer than {size}: raise --set max_line to read it"


def _open_stdin() -> io.BufferedReader:
    if sys.stdin is None or sys.stdin.closed:
        raise TokurError("<stdin>: standard input is closed: give a file instead")
    try:
        # A thread may wait for it when the process ends, which must not find the buffer of sys.stdin locked
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:  # no file of the system
        return io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))


def _open_file(path: str) -> io.BufferedReader:
    try:
        return open(path, "rb")
    except IsADirectoryError:
        raise TokurError(f"{path}: is a directory: give a file in it") from None
    except FileNotFoundError:
        raise TokurError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise TokurError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None


class _Unpacked(io.RawIOBase):
    """An archive's contents, as they come; what is wrong with it is said of its file."""

    def __init__(self, archive: Any, compressed: IO[bytes], form: str, name: str) -> None:
        self._archive, self._compressed, self._form, self._name = archive, compressed, form, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece: bytes = self._archive.read1(len(buffer))
        except EOFError:
            raise TokurError(f"{self._name}: the {self._form} data is cut short: the file is not complete") from None
        except Exception as error:  # each library has its own
            raise TokurError(f"{self._name}: the {self._form} data cannot be unpacked: {error}") from None
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._compressed.close()
        super().close()
