"""The elements of a JSON array or object, one at a time, however long it is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import NoReturn

from tokur_cli.records.errors import TokurError
from tokur_cli.records.streams import BOM, MAX_LINE

_CHUNK = 1 << 16
_IN_STRING = re.compile(rb'\\.|"', re.DOTALL)
_SIGNS = re.compile(rb'[",:{}\[\]]')
_WITHIN = re.compile(rb'["{}\[\]]')


def elements(
    stream: io.BufferedReader, name: str, key: str | None = None, max_element: int = MAX_LINE
) -> Iterator[tuple[int, str, bytes | None]]:
    """Read the elements of a JSON array, or the values of an object, with memory for one.

    Args:
        stream: JSON text.
        name: the file's name, for messages.
        key: the name of the field of an object whose elements are read; what follows them is then left unread.
        max_element: the longest element in bytes.

    Yields:
        (number of the line on which the element begins, its index or name, its text, None for one that is too long).
        Whether that text is JSON is for the reader to see.

    Raises:
        TokurError: the text is neither, or ends too early.
    """
    text = _Text(stream, name, max_element)
    if key is not None and not _enter(text, key):
        return
    is_array, index = text.peek() == b"[", 0
    text.expect(b"[" if is_array else b"{")
    closing = b"]" if is_array else b"}"
    end = text.peek()
    if end == closing:
        text.expect(closing)
    while end != closing:
        label = str(index) if is_array else text.take_name()
        text.peek()
        line = text.line
        element, end = text.take()
        yield line, label, element
        index += 1
        if end not in (b",", closing):
            text.fail(f"this is not valid JSON: , or {closing.decode()} should stand before {end.decode()!r}")
    if key is None and text.peek():
        text.fail("there is text after the end")


def _enter(text: _Text, key: str) -> bool:
    """Go to the value of an object's field; return False if it is missing or null."""
    text.expect(b"{")
    while text.peek() not in (b"}", b""):
        if text.take_name() == key:
            return text.peek() != b"n"
        if text.take()[1] != b",":
            break
    return False


class _Text:
    """A stream of JSON text, from the place that is read next on.

    Attributes:
        line: the number of that place's line, from 1.
    """

    def __init__(self, stream: io.BufferedReader, name: str, max_value: int) -> None:
        self.line = 1
        self._stream, self._name, self._max = stream, name, max_value
        self._buffer = bytearray()
        self._read_more()
        self._go_to(len(BOM) if self._buffer.startswith(BOM) else 0)

    def peek(self) -> bytes:
        """Go to the next byte that is not white space, and return it; none at the end."""
        while True:
            self._go_to(len(self._buffer) - len(self._buffer.lstrip()))
            if self._buffer or not self._read_more():
                return bytes(self._buffer[:1])

    def expect(self, sign: bytes) -> None:
        """Go past the next byte, which must be this one."""
        if self.peek() != sign:
            self.fail(f"this is not valid JSON: {sign.decode()} should stand here")
        self._go_to(1)

    def take_name(self) -> str:
        """Go past a field's name and its colon; return the name."""
        name, end = self.take(b":")
        if end != b":":
            self.fail(f"this is not valid JSON: : should stand before {end.decode()!r}")
        return (name or b"").strip(b' \t\r\n"').decode("utf-8", "replace")

    def take(self, more_ends: bytes = b"") -> tuple[bytes | None, bytes]:
        """Go past a value and the comma or bracket behind it; return its text, None for one too long, and that sign."""
        position, depth, is_quoted, is_long = 0, 0, False, False
        while True:
            pattern = _IN_STRING if is_quoted else _WITHIN if depth else _SIGNS
            found = pattern.search(self._buffer, position)
            if found is None:
                position = max(position, len(self._buffer) - 1)  # an escape may be cut in two
                if len(self._buffer) > self._max:
                    is_long = True
                    self._go_to(position)
                    position = 0
                if not self._read_more():
                    self.fail("the JSON ends here, before the end of the array: the file is not complete")
                continue
            position, sign = found.end(), found[0]
            if is_quoted:
                is_quoted = sign != b'"'
            elif sign == b'"':
                is_quoted = True
            elif sign in b"{[":
                depth += 1
            elif depth:
                depth -= 1
            elif sign in b",}]" + more_ends:
                value = None if is_long or position - 1 > self._max else bytes(self._buffer[: position - 1])
                self._go_to(position)
                return value, sign

    def fail(self, message: str) -> NoReturn:
        """End the stream with an error about this place."""
        raise TokurError(f"{self._name}:{self.line}: {message}")

    def _go_to(self, position: int) -> None:
        self.line += self._buffer.count(b"\n", 0, position)
        del self._buffer[:position]

    def _read_more(self) -> bool:
        chunk = self._stream.read1(_CHUNK)
        self._buffer += chunk
        return bool(chunk)
