"""The elements of a JSON array or object, one at a time, however long it is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from tokur_cli.records.errors import TokurError
from tokur_cli.records.streams import BOM, MAX_LINE

_CHUNK = 1 << 16
_SIGNS = re.compile(rb'[",:{}\[\]]')
_WITHIN = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'\\.|"', re.DOTALL)


def elements(
    stream: io.BufferedReader, name: str, key: str | None = None, max_element: int = MAX_LINE
) -> Iterator[tuple[str, int, bytes | None]]:
    """Read the elements of a JSON array, or the values of an object, with memory for one.

    Args:
        stream: JSON text.
        name: the file's name, for messages.
        key: the name of the field of an object whose elements are read; what follows them is then left unread.
        max_element: the longest element in bytes.

    Yields:
        (the file's name with the element's index or name, the number of the line on which it begins, its text, None for
        one that is too long). Whether that text is JSON is for the reader to see.

    Raises:
        TokurError: the text ends too early, or goes on after the end.
    """
    wanted = 1 if key is None else 2
    is_wanted, has_ended, label, index = False, False, b"", 0
    for line, text, sign, depth in _split(stream, wanted, max_element):
        if not sign and depth:
            raise TokurError(f"{name}:{line}: the JSON ends here, before its last bracket: the file is not complete")
        if has_ended and (sign or text):
            raise TokurError(f"{name}:{line}: this is not valid JSON: there is text after the end")
        if sign == b":":
            label = (text or b"").strip(b'"')
        elif sign in (b"[", b"{"):
            is_wanted = depth + 1 == wanted and (key is None or label == key.encode())
            label = b""
        elif depth == wanted and is_wanted:
            if text != b"" or sign == b",":
                yield f"{name}[{label.decode('utf-8', 'replace') or index}]", line, text
                index += 1
            if sign != b"," and key is not None:
                return
        has_ended = depth == 1 and sign in (b"]", b"}")


def _split(stream: io.BufferedReader, deepest: int, longest: int) -> Iterator[tuple[int, bytes | None, bytes, int]]:
    """Split JSON text at its brackets, commas and colons, but not within what stands in more brackets than ``deepest``.

    Yields:
        (number of the line, text, None if it is too long, sign behind it, in how many brackets they stand); the sign is
        empty at the end.
    """
    buffer, at = bytearray(stream.read1(_CHUNK).removeprefix(BOM)), 0
    line, depth, is_quoted, is_long = 1, 0, False, False
    while True:
        pattern = _IN_STRING if is_quoted else _WITHIN if depth > deepest else _SIGNS
        found = pattern.search(buffer, at)
        if found is None:
            at = max(at, len(buffer) - 1)  # an escape may be cut in two
            if len(buffer) > longest:
                is_long = True
                line += buffer.count(b"\n", 0, at)
                del buffer[:at]
                at = 0
            if not (chunk := stream.read1(_CHUNK)):
                yield line + buffer.count(b"\n"), bytes(buffer).strip(), b"", depth
                return
            buffer += chunk
            continue
        at, sign, within = found.end(), found[0], depth
        if is_quoted or sign == b'"':
            is_quoted = not (is_quoted and sign == b'"')
            continue
        depth += (sign in b"[{") - (sign in b"]}")
        if max(depth, within) <= deepest:
            text = bytes(buffer[: at - 1])
            begins = line + text.count(b"\n", 0, len(text) - len(text.lstrip()))
            yield begins, None if is_long or len(text.strip()) > longest else text.strip(), sign, within
            line += text.count(b"\n")
            del buffer[:at]
            at, is_long = 0, False
