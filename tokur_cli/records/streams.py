"""Bytes in: files, pipes and standard input, plain, gzip or zstd, as lines."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, cast

from tokur_cli.records.errors import TokurError

STDIN = "-"
BOM = b"\xef\xbb\xbf"
MAX_LINE = 64_000_000
"""The longest line, element or archive member that is read by default, in bytes."""

_BUFFER = 1 << 16
_COMPRESSED_CHUNK = 1 << 12  # small, since zstd can swell a byte to 30 kB
_COPY_LINES = 64  # a copy that is read out of order may be as large as this many of the longest lines
_BLANK_LINES = re.compile(rb"\s*\n")
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

    gzip (also of several members) and zstd (also of several frames) are recognised by their first bytes. A read waits
    only until some data is there, so a slow pipe delivers its lines as they come.

    Args:
        path: a file's name; ``-`` is standard input, which is not closed with the stream.

    Raises:
        TokurError: it cannot be opened; later, on reading: it cannot be read, or the archive is cut short or corrupt
            (after all that comes before was delivered).
    """
    name = display_name(path)
    file = _open_file(path, name)
    plain = _Plain(file, name, owned=path != STDIN)
    head = plain.read_head()
    if head.startswith(_GZIP):
        return io.BufferedReader(_Archive(plain, "gzip", _new_gzip, zlib.error, name), _BUFFER)
    if _is_zstd(head):
        return _zstd_reader(plain, name)
    return io.BufferedReader(plain, _BUFFER)


def open_zstd(compressed: IO[bytes], name: str) -> io.BufferedReader:
    """Open zstd data, which is closed with the stream, for reading, decompressed; see :func:`open_input`."""
    return _zstd_reader(_Plain(cast(io.BufferedReader, compressed), name, owned=True), name)


@contextmanager
def seekable(stream: io.BufferedReader, name: str, max_line: int = MAX_LINE) -> Iterator[BinaryIO]:
    """Give the bytes of a stream from :func:`open_input` to read out of order; don't read the stream itself any more.

    A pipe or an archive is copied to an unnamed temporary file.

    Args:
        stream: the bytes.
        name: the file's name, for messages.
        max_line: the longest line in bytes; the copy holds at most 64 times as much.

    Raises:
        TokurError: there is more to copy.
    """
    raw = stream.raw
    if isinstance(raw, _Plain) and raw.file.seekable():
        raw.file.seek(0)
        yield raw.file
        return
    with tempfile.TemporaryFile() as copy:
        while part := stream.read1(_BUFFER):
            if copy.tell() + len(part) > _COPY_LINES * max_line:
                raise TokurError(
                    f"{name}: holds more than {in_bytes(_COPY_LINES * max_line)}, too much to be copied: give it "
                    "unpacked, as a file, or raise --set max_line"
                )
            copy.write(part)
        copy.seek(0)
        yield cast(BinaryIO, copy)


def read_lines(stream: BinaryIO, name: str, max_line: int = MAX_LINE) -> Iterator[tuple[int, int, bytes | None]]:
    r"""Split a stream at ``\n`` and at nothing else, with memory for one line.

    Args:
        stream: the bytes.
        name: the file's name, for messages.
        max_line: the longest line in bytes, without its ``\n``.

    Yields:
        (line number from 1, the place at which it begins in bytes, line without its ``\n`` or ``\r\n``, None for one
        that is too long); blank lines are counted but left out, and so is a byte-order mark on line 1.

    Raises:
        TokurError: there are as many bytes of blank lines in a row as no line may have.
    """
    number = offset = blank = 0
    while line := stream.readline(max_line + 1):
        number, begin, offset = number + 1, offset, offset + len(line)
        if len(line) > max_line and not line.endswith(b"\n"):
            yield number, begin, None  # before the rest is read, which may be endless
            while line and not line.endswith(b"\n"):
                line = stream.readline(_BUFFER)
                offset += len(line)
            continue
        if number == 1:
            line = line.removeprefix(BOM)
        if line and not line.isspace():
            blank = 0
            yield number, begin, line.removesuffix(b"\n").removesuffix(b"\r")
            continue
        if blank:  # an archive of some kilobytes may hold millions of them
            lines, size = _skip_blank_lines(stream, max_line)
            number, offset, blank = number + lines, offset + size, blank + size
        blank += len(line)
        if blank > max_line:
            raise TokurError(f"{name}:{number}: holds more than {in_bytes(max_line)} of blank lines in a row")


def _skip_blank_lines(stream: BinaryIO, most: int) -> tuple[int, int]:
    """Go past the blank lines that follow, up to somewhat more bytes than the most; return how many lines and bytes."""
    lines = size = 0
    buffered = cast(io.BufferedReader, stream)
    while size <= most and (blank := _BLANK_LINES.match(buffered.peek())):
        lines, size = lines + blank[0].count(b"\n"), size + blank.end()
        buffered.read(blank.end())
    return lines, size


def too_long(max_line: int) -> str:
    """Return the message for a line, element or archive member of more bytes than that."""
    return f"is longer than {in_bytes(max_line)}: raise --set max_line to read it"


def in_bytes(count: int) -> str:
    """Return a number of bytes in the largest unit that leaves no fraction: ``64 MB``."""
    units = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
    return next((f"{count // size:,} {unit}" for size, unit in units if count % size == 0), f"{count:,} bytes")


def _open_file(path: str, name: str) -> io.BufferedReader:
    if path == STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise TokurError(f"{name}: standard input is closed: give a file instead")
        try:
            # A thread may wait for it when the process ends, which must not find the buffer of sys.stdin locked
            return open(sys.stdin.fileno(), "rb", closefd=False)
        except io.UnsupportedOperation:  # no file of the system
            return cast(io.BufferedReader, sys.stdin.buffer)
    try:
        return open(path, "rb")
    except IsADirectoryError:
        raise TokurError(f"{name}: is a directory: give a file in it") from None
    except FileNotFoundError:
        raise TokurError(f"{name}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise TokurError(f"{name}: cannot be opened: {_reason(error)}") from None


def _may_be_archive(head: bytes) -> bool:
    return _GZIP.startswith(head) or _ZSTD.startswith(head) or _may_be_skippable(head)


def _may_be_skippable(head: bytes) -> bool:
    return len(head) > 0 and head[0] >> 4 == 5 and _ZSTD_SKIPPABLE.startswith(head[1:])


def _is_zstd(head: bytes) -> bool:
    return head.startswith(_ZSTD) or (len(head) >= len(_ZSTD) and _may_be_skippable(head[: len(_ZSTD)]))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class _Plain(io.RawIOBase):
    """A file's bytes as they come."""

    def __init__(self, file: io.BufferedReader, name: str, owned: bool) -> None:
        self.file = file
        self._name = name
        self._owned = owned
        self._head = b""

    def readable(self) -> bool:
        return True

    def read_head(self) -> bytes:
        """Return the first bytes, which will be read again; wait only for as many as tell an archive from text."""
        while len(self._head) < len(_ZSTD) and _may_be_archive(self._head):
            data = self._read(_BUFFER)
            if not data:
                break
            self._head += data
        return self._head

    def read_some(self, size: int) -> bytes:
        """Return up to ``size`` bytes, as soon as there are any; none at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        return self._read(size)

    def readinto(self, buffer: Any) -> int:
        data = self.read_some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._owned:
            self.file.close()
        super().close()

    def _read(self, size: int) -> bytes:
        try:
            return self.file.read1(size)
        except OSError as error:
            raise TokurError(f"{self._name}: cannot be read: {_reason(error)}") from None


class _Archive(io.RawIOBase):
    """An archive's contents, member after member."""

    def __init__(
        self, compressed: _Plain, form: str, new: Callable[[], Any], failure: type[Exception], name: str
    ) -> None:
        self._compressed = compressed
        self._form = form
        self._new = new  # makes a decompressor of one member: ``decompress(data)``, ``eof``, ``unused_data``
        self._failure = failure
        self._name = name
        self._member: Any = None  # the decompressor of the member being read; None between members
        self._unused = b""  # compressed bytes read too far
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = self._unused or self._compressed.read_some(_COMPRESSED_CHUNK)
            if not compressed and self._member is None:
                return 0
            self._decompress(compressed)
        data = self._ready[: len(buffer)]
        self._ready = self._ready[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._compressed.close()
        super().close()

    def _decompress(self, data: bytes) -> None:
        self._unused = b""
        if not data:
            raise TokurError(f"{self._name}: the {self._form} data is cut short: the file is not complete")
        if self._member is None:
            if self._form == "gzip":
                data = data.lstrip(b"\0")  # gzip files may be padded with zeros
            if not data:
                return
            self._member = self._new()
        try:
            self._ready = memoryview(self._member.decompress(data))
        except self._failure as error:
            raise TokurError(f"{self._name}: the {self._form} data cannot be unpacked: {error}") from None
        if self._member.eof:
            self._unused = self._member.unused_data
            self._member = None


def _new_gzip() -> Any:
    return zlib.decompressobj(wbits=31)


def _zstd_reader(compressed: _Plain, name: str) -> io.BufferedReader:
    if sys.version_info >= (3, 14):
        from compression import zstd

        new, failure = zstd.ZstdDecompressor, zstd.ZstdError
    else:
        import zstandard

        new, failure = lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
    return io.BufferedReader(_Archive(compressed, "zstd", new, failure, name), _BUFFER)
