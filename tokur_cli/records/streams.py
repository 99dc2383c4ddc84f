"""JSON texts in: the lines or the array's elements of files, pipes and standard input, plain, gzip or zstd."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, TextIO, cast

from tokur_cli.records.errors import TokurError

STDIN = "-"
BOM = b"\xef\xbb\xbf"
MAX_LINE = 64_000_000  # the longest line, element or archive member that is read by default, in bytes
# (Where each text is from, the number of the line on which it begins, the text); None in place of one too long
Texts = Iterator[tuple[str, int, bytes | None]]

_GZIP = b"\x1f\x8b"
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # pzstd begins with a frame to be skipped
_CHUNK = 1 << 16
_BEFORE = re.compile(r'[\s,\xef\xbb\xbf]*(?:"((?:[^"\\]|\\.){0,999})"\s*:\s*)?(?=(\S))')  # a value, its name
_SIGN = re.compile(r"\s*[,\]}]")
_scan = json.JSONDecoder(strict=False).raw_decode


# --- bytes ---


def display_name(path: str) -> str:
    """Return an input's name for messages."""
    return "<stdin>" if path == STDIN else path


def file_id(file: str | TextIO) -> tuple[int, int] | str | None:
    """Return what all names of a file have in common: its device and inode, or the path of one that is not there yet.

    It may be the stream that leads to it; ``-`` is standard input. None for a device or a pipe, where a read may have
    to wait, and for what is no file of the system.
    """
    file = sys.stdin if file == STDIN else file
    try:
        status = os.stat(file if isinstance(file, str) else file.fileno())
    except (OSError, ValueError, AttributeError):  # a closed stream may be None
        return os.path.realpath(file) if isinstance(file, str) else None
    is_kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if is_kept else None


@contextmanager
def open_input(path: str) -> Iterator[io.BufferedReader]:
    """Open a file for reading, decompressed.

    gzip (also of several members) and zstd (also of several frames) are recognised by their first bytes. Standard input
    is not closed with the stream.

    Raises:
        TokurError: it cannot be opened or read, or the archive is cut short or corrupt (after all that comes before was
            delivered).
    """
    name, form, faults = display_name(path), "", [OSError, EOFError, zlib.error]
    try:
        with _open(path) as file:
            head, as_it_comes = file.peek(), SimpleNamespace(read=file.read1, seekable=lambda: False)
            stream: Any = file
            if head.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise TokurError(f"{name}: is in UTF-16, as PowerShell's > writes: save it as UTF-8")
            if head.startswith(_GZIP):
                stream, form = gzip.GzipFile(fileobj=as_it_comes), "gzip"
            elif _ZSTD.match(head):
                if sys.version_info >= (3, 14):
                    from compression import zstd
                else:
                    from backports import zstd

                stream, form = zstd.ZstdFile(as_it_comes), "zstd"
                faults.append(zstd.ZstdError)
            yield stream
    except tuple(faults) as error:
        what = f"the {form} data is damaged or cut short" if form else "cannot be read"
        raise TokurError(f"{name}: {what}: {getattr(error, 'strerror', None) or error}") from None


def _open(path: str) -> io.BufferedReader:
    if path != STDIN:
        return open(path, "rb")
    if sys.stdin is None or sys.stdin.closed:
        raise TokurError("<stdin>: standard input is closed: give a file instead")
    try:
        # A thread may wait for it when the process ends, which must not find the buffer of sys.stdin locked
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:  # no file of the system
        return io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))


# --- texts ---


def lines(stream: io.BufferedReader, name: str, longest: int = MAX_LINE) -> Texts:
    r"""Yield the lines that are not blank, split at ``\n`` and at nothing else, with memory for one.

    A byte order mark is taken from any of them: files with one may have been put together.
    """
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(_CHUNK)
            yield name, number, None
        elif text := line.removeprefix(BOM).rstrip():
            yield name, number, text


def elements(
    stream: io.BufferedReader, name: str, within: Sequence[str | None] = (None,), longest: int = MAX_LINE
) -> Texts:
    """Yield the elements of a JSON array, or the values of an object, with memory for one, each named by its index.

    ``within`` is what they stand in: None for the whole, then the name of a field, after which nothing is read; nothing
    where they are objects one after another.

    Raises:
        TokurError: after the elements before it: one is no JSON, cut short or far too long, or text follows the end.
    """
    text, start, end, line, index = "", 0, 0, 1, 0  # a character of the text is a byte
    opening = [*within]  # what is still to be entered
    while True:
        before, is_whole = _BEFORE.match(text, end), False
        begin = before.end() if before else end
        line, start = line + text.count("\n", start, begin), begin
        if before and opening and before[1] == opening[0] and before[2] in "[{":
            end = before.end(2)
            del opening[0]
            continue
        if before and within and before[2] in "]}":
            if len(within) == 1 and (text[before.end(2) :].strip() or stream.read(_CHUNK).strip()):
                raise TokurError(f"{name}:{line}: this is not valid JSON: there is text after the end")
            return
        with suppress(ValueError, RecursionError):
            end = _scan(text, start)[1]
            is_whole = _SIGN.match(text, end) is not None or (not within and text[end - 1] == "}")
        if not is_whole:
            size, more = len(text) - start, bytearray()
            with suppress(EOFError):  # of an archive that is cut short: what came before it is read first
                while size <= longest and len(more) < max(1, size - _CHUNK) and (piece := stream.read1(_CHUNK)):
                    more += piece
            if not more and not within and not text[start:].strip():
                return
            if not more:
                said = f"is not valid JSON, cut short or longer than {longest / 1e6:g} MB (--set max_line)"
                raise TokurError(f"{name}:{line}: what begins here {said}")
            text, start, end = text[start:] + more.decode("latin-1"), 0, 0
        elif not opening:
            value = text[start:end].encode("latin-1")
            yield f"{name}[{index}]", line, None if len(value) > longest else value
            index += 1
