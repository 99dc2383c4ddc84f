"""Bytes in: files, pipes and standard input, plain, gzip or zstd."""

from __future__ import annotations

import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from tokur_cli.records.errors import TokurError

STDIN = "-"

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


@contextmanager
def open_input(path: str) -> Iterator[io.BufferedReader]:
    """Open a file for reading, decompressed.

    gzip (also of several members) and zstd (also of several frames) are recognised by their first bytes. Standard input
    is not closed with the stream.

    Raises:
        TokurError: it cannot be opened or read, or the archive is cut short or corrupt (after all that comes before was
            delivered).
    """
    name, form, faults = display_name(path), "", [OSError, zlib.error]
    with _open(path) as file:
        try:
            head, as_it_comes = file.peek(), SimpleNamespace(read=file.read1)
            stream: Any = file
            if head.startswith(_GZIP):
                import gzip

                stream, form = gzip.GzipFile(fileobj=as_it_comes), "gzip"
            elif head.startswith(_ZSTD) or (head[:1] in b"PQRSTUVWXYZ[\\]^_" and head.startswith(_ZSTD_SKIPPABLE, 1)):
                if sys.version_info >= (3, 14):
                    from compression import zstd
                else:
                    from backports import zstd

                stream, form = zstd.ZstdFile(as_it_comes), "zstd"
                faults.append(zstd.ZstdError)
            yield stream
        except EOFError:
            raise TokurError(f"{name}: the {form} data is cut short: the file is not complete") from None
        except tuple(faults) as error:
            what = f"the {form} data cannot be unpacked" if form else "cannot be read"
            raise TokurError(f"{name}: {what}: {getattr(error, 'strerror', None) or error}") from None


def _open(path: str) -> io.BufferedReader:
    if path == STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise TokurError("<stdin>: standard input is closed: give a file instead")
        try:
            # A thread may wait for it when the process ends, which must not find the buffer of sys.stdin locked
            return open(sys.stdin.fileno(), "rb", closefd=False)
        except io.UnsupportedOperation:  # no file of the system
            return io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))
    try:
        return open(path, "rb")
    except IsADirectoryError:
        raise TokurError(f"{path}: is a directory: give a file in it") from None
    except FileNotFoundError:
        raise TokurError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise TokurError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None
