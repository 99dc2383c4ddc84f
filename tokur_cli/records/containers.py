"""Files of rows: JSON lines, a JSON array, or an Inspect log."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import jsonlines

from tokur_cli.records.elements import array_elements, on_one_line, without_constants
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.records.scan import ScanError, scan_object
from tokur_cli.records.streams import BOM, read_lines, seekable, zstd_decompressor

_RECORD_SEPARATOR = b"\x1e"
_ZIP = b"PK\x03\x04"
_ARRAY = re.compile(rb"\s*\[\s*(\{|\Z|\]\s*\Z)")
_INSPECT_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
_ZIP_ZSTD = 93  # how Inspect compresses; zipfile reads it only from Python 3.14 on
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a member: ends with the lengths of the name and of the extra field


def read_rows(stream: io.BufferedReader, source: str) -> Iterator[Record | RecordError]:
    """Read a file's rows, whatever way it holds them: lines, an array's elements, a log's samples.

    Args:
        stream: the file's bytes.
        source: the file's name, for messages.

    Yields:
        Records, and errors in the place of rows that are not records. The line of an array's element
        is the one on which it begins, and its source names its index.

    Raises:
        TokurError: the file as a whole cannot be read.
    """
    head = stream.peek().removeprefix(BOM)
    if head.startswith(_ZIP):
        for name, text in _archived_samples(stream, source):
            yield _parse(on_one_line(without_constants(text)), f"{source}/{name}", 1)
    elif _INSPECT_LOG.match(head):
        for index, (line, text) in enumerate(array_elements(stream, source, key="samples")):
            yield _parse(without_constants(text), f"{source}[{index}]", line)
    elif _ARRAY.match(head):
        for index, (line, text) in enumerate(array_elements(stream, source)):
            yield _parse(text, f"{source}[{index}]", line)
    else:
        yield from _read_json_lines(stream, source)


def _read_json_lines(stream: io.BufferedReader, source: str) -> Iterator[Record | RecordError]:
    number_and_line = 0, b""

    def lines() -> Iterator[bytes]:
        nonlocal number_and_line
        for number_and_line in read_lines(stream):
            line = number_and_line[1]
            # The reader drops one of these marks from every line, but a file has one at most: give it another to drop
            yield BOM + line if line.startswith((BOM, _RECORD_SEPARATOR)) else line

    def loads(text: Any) -> Record:
        return Record(text, *scan_object(text), source, number_and_line[0])

    reader = jsonlines.Reader(lines(), loads=loads)
    while True:
        try:
            yield cast(Record, reader.read())
        except (jsonlines.InvalidLineError, ScanError):
            number, line = number_and_line
            yield _parse(line, source, number)  # which says what is wrong, and where in the line
        except EOFError:
            return


def _parse(text: bytes, source: str, line: int) -> Record | RecordError:
    try:
        return Record.parse(text, source, line)
    except RecordError as error:
        return error


def _archived_samples(stream: io.BufferedReader, source: str) -> Iterator[tuple[str, bytes]]:
    """Yield the samples of an Inspect ``.eval`` archive, in the order in which they were written."""
    with seekable(stream) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                # a sample that was written again is listed twice; the last is the one that counts
                for name in dict.fromkeys(archive.namelist()):
                    if name.startswith("samples/") and name.endswith(".json"):
                        yield name, _read_member(archive, file, name)
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise TokurError(f"{source}: is not an Inspect log that can be read: {error}") from None


def _read_member(archive: zipfile.ZipFile, file: BinaryIO, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type != _ZIP_ZSTD:
        return archive.read(member)
    new, failure = zstd_decompressor()
    file.seek(member.header_offset)
    name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    file.seek(name_length + extra_length, io.SEEK_CUR)
    try:
        data: bytes = new().decompress(file.read(member.compress_size))
    except failure as error:
        raise zipfile.BadZipFile(f"{name}: {error}") from None
    if zlib.crc32(data) != member.CRC:
        raise zipfile.BadZipFile(f"{name}: its checksum is wrong")
    return data
