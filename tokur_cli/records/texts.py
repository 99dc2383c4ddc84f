"""The JSON texts in a stream, one at a time, however many there are: its lines, or the elements of an array."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from tokur_cli.records.errors import TokurError

BOM = b"\xef\xbb\xbf"
MAX_LINE = 64_000_000
"""The longest line, element or archive member that is read by default, in bytes."""
Texts = Iterator[tuple[str, int, bytes | None]]
"""(Where each text is from, the number of the line on which it begins, the text); None in place of one too long."""

_CHUNK = 1 << 16
_SIGNS = re.compile(rb'[",{}\[\]]')
_BRACKETS = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'\\.|"', re.DOTALL)
_BEFORE = re.compile(rb'\s*(?:"((?:[^"\\]|\\.){0,999})"\s*:\s*)?', re.DOTALL)


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


def elements(stream: io.BufferedReader, name: str, key: str | None = None, longest: int = MAX_LINE) -> Texts:
    """Yield the elements of a JSON array, or the values of an object, with memory for one.

    Whether they are JSON is for the reader to see. Each is named by its index, or by its name in the object.

    Args:
        stream: JSON text.
        name: the file's name.
        key: the name of the field of an object whose elements are read; what follows them is then left unread.
        longest: the longest element in bytes.

    Raises:
        TokurError: the text ends too early, or goes on after the end.
    """
    opening = None if key is None else re.compile(rb'\s*"%s"\s*:\s*\[' % re.escape(key.encode()))
    buffer, at, line = bytearray(stream.read1(_CHUNK).removeprefix(BOM)), 0, 1
    depth, index, is_quoted, is_wanted = 0, 0, False, key is None
    too_large: tuple[str, int, None] | None = None  # the element whose begin is no longer in the buffer

    def begin() -> tuple[str, int, int]:
        before = _BEFORE.match(buffer)
        assert before is not None  # it may be empty
        label = (before[1] or b"%d" % index).decode("utf-8", "replace")
        return f"{name}[{label}]", line + buffer.count(b"\n", 0, before.end()), before.end()

    while True:
        found = (_IN_STRING if is_quoted else _SIGNS if depth < 2 else _BRACKETS).search(buffer, at)
        if found is None:
            at = max(at, len(buffer) - 1)  # an escape may be cut in two
            if len(buffer) > longest:
                too_large = too_large or (*begin()[:2], None)
                line += buffer.count(b"\n", 0, at)
                del buffer[:at]
                at = 0
            if not (chunk := stream.read1(_CHUNK)):
                line += buffer.count(b"\n")
                raise TokurError(
                    f"{name}:{line}: the JSON ends here, before its last bracket: the file is not complete"
                )
            buffer += chunk
            continue
        at, sign = found.end(), found[0]
        if is_quoted or sign == b'"':
            is_quoted = not (is_quoted and sign == b'"')
            continue
        depth += (sign in b"[{") - (sign in b"]}")
        if opening is not None and depth == 2 and opening.fullmatch(buffer, 0, at):
            depth, is_wanted, opening = 1, True, None
        elif depth > 1 or (depth == 1 and sign in b"]}"):  # within an element, or the end of its last bracket
            continue
        elif is_wanted and sign not in b"[{":
            source, begins, start = begin()
            text = bytes(buffer[start : at - 1]).rstrip()
            if too_large or len(text) > longest:
                yield too_large or (source, begins, None)
            elif text or sign == b",":
                yield source, begins, text
            index += 1
        line += buffer.count(b"\n", 0, at)
        del buffer[:at]
        at, too_large = 0, None
        if depth == 0:
            break
    while key is None:
        line += buffer.count(b"\n", 0, len(buffer) - len(buffer.lstrip()))
        if buffer.strip():
            raise TokurError(f"{name}:{line}: this is not valid JSON: there is text after the end")
        if not (buffer := bytearray(stream.read1(_CHUNK))):
            return
