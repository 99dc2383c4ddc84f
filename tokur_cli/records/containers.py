"""Files of rows: JSON lines, a JSON array, or an Inspect log."""

from __future__ import annotations

import copy
import io
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, cast

import jsonlines

from tokur_cli.records.elements import array_elements, on_one_line, without_constants
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.records.scan import ScanError, scan_object
from tokur_cli.records.streams import BOM, MAX_LINE, open_zstd, read_lines, seekable, too_long

_RECORD_SEPARATOR = b"\x1e"
_ZIP = b"PK\x03\x04"
_ARRAY = re.compile(rb"\s*\[\s*(\{|\Z|\]\s*\Z)")
_INSPECT_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
_TABLES = ((b"PAR1", "a Parquet", ".parquet"), (b"ARROW1", "an Arrow", ".arrow"))
_CSV_HEADER = re.compile(rb'("?[\w .-]*"?)([,;\t]"?[\w .-]+"?)+')
_COLUMNS = {b"question", b"prompt", b"response", b"answer", b"input", b"output", b"reference", b"text", b"id", b"label"}
_ZIP_ZSTD = 93  # how Inspect compresses; zipfile reads it only from Python 3.14 on


def read_rows(stream: io.BufferedReader, source: str, max_line: int = MAX_LINE) -> Iterator[Record | RecordError]:
    """Read a file's rows, whatever way it holds them: lines, an array's elements, a log's samples.

    Args:
        stream: the file's bytes.
        source: the file's name, for messages.
        max_line: the longest row in bytes.

    Yields:
        Records, and errors in the place of rows that are not records or too long. The line of an array's element
        is the one on which it begins, and its source names its index.

    Raises:
        TokurError: the file as a whole cannot be read.
    """
    head = stream.peek().removeprefix(BOM)
    for magic, form, ending in _TABLES:
        if head.startswith(magic):
            raise TokurError(f"{source}: is {form} file: give it by a name that ends in {ending}")
    if head.startswith(_ZIP):
        for name, text in _archived_samples(stream, source, max_line):
            yield _parse(text and on_one_line(without_constants(text)), f"{source}/{name}", 1, max_line)
    elif _INSPECT_LOG.match(head):
        for index, (line, text) in enumerate(array_elements(stream, source, "samples", max_line)):
            yield _parse(text and without_constants(text), f"{source}[{index}]", line, max_line)
    elif _ARRAY.match(head):
        for index, (line, text) in enumerate(array_elements(stream, source, None, max_line)):
            yield _parse(text, f"{source}[{index}]", line, max_line)
    else:
        yield from _read_json_lines(stream, source, max_line)


def _hint(line: bytes | None) -> str:
    """Return the end of the message about a file's first line: what the file may be, and how it becomes JSON lines."""
    line = (line or b"").removeprefix(BOM).strip()
    if line == b"{":
        return "; each record is one line: jq -c . puts an object on one, jq -c '.results[]' each of the rows in it"
    cells = [cell.strip(b'"').lower() for cell in re.split(rb"[,;\t]", line)]
    if len(cells) > 1 and _CSV_HEADER.fullmatch(line) and not _COLUMNS.isdisjoint(cells):
        return "; it looks like CSV, which is read by a name that ends in .csv, with commas, or in .tsv, with tabs"
    return ""


def _read_json_lines(stream: io.BufferedReader, source: str, max_line: int) -> Iterator[Record | RecordError]:
    number_and_line: tuple[int, bytes | None] = 0, None

    def lines() -> Iterator[bytes]:
        nonlocal number_and_line
        for number_and_line in read_lines(stream, source, max_line):
            line = number_and_line[1] or b""  # which is not a record: what is wrong is told below
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
            wrong = _parse(line, source, number, max_line)  # which says what is wrong, and where in the line
            if number == 1 and isinstance(wrong, RecordError):
                wrong = RecordError(wrong.message + _hint(line), source, number)
            yield wrong
        except EOFError:
            return


def _parse(text: bytes | None, source: str, line: int, max_line: int) -> Record | RecordError:
    if text is None:
        return RecordError(too_long(max_line), source, line)
    try:
        return Record.parse(text, source, line)
    except RecordError as error:
        return RecordError(error.message, source, line)  # the one that was raised holds the text it is about


def _archived_samples(stream: io.BufferedReader, source: str, max_member: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the samples of an Inspect ``.eval`` archive, in the order in which they were written; None if too long."""
    with seekable(stream, source, max_member) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                # a sample that was written again is listed twice; the last is the one that counts
                for name in dict.fromkeys(archive.namelist()):
                    if name.startswith("samples/") and name.endswith(".json"):
                        yield name, _read_member(archive, archive.getinfo(name), source, max_member)
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, OSError) as error:
            raise TokurError(f"{source}: is not an Inspect log that can be read: {error}") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str, max_member: int) -> bytes | None:
    """Return a member's contents, None if they are too long; if they are longer than the archive says, that fails."""
    if member.file_size > max_member:
        return None
    if member.compress_type != _ZIP_ZSTD or sys.version_info >= (3, 14):
        return archive.read(member)
    stored = copy.copy(member)  # its bytes as they are, to which the checksum does not belong
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, member.compress_size
    del stored.CRC
    with open_zstd(archive.open(stored), f"{source}/{member.filename}") as contents:
        data = contents.read(member.file_size + 1)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise zipfile.BadZipFile(f"{member.filename}: its size or its checksum is wrong")
    return data
