"""The elements of a JSON array or object, one at a time, however long it is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import NoReturn

from tokur_cli.records.errors import TokurError
from tokur_cli.records.streams import BOM, MAX_LINE, in_bytes

_CHUNK = 1 << 16
_IN_STRING = re.compile(rb'\\.|"', re.DOTALL)
_WITHIN = re.compile(rb'["{}\[\]]')


def array_elements(
    stream: io.BufferedReader, name: str, key: str | None = None, max_element: int = MAX_LINE
) -> Iterator[tuple[int, bytes | None]]:
    """Read a JSON array with memory for one element.

    Args:
        stream: JSON text: an array, or with ``key`` an object that holds one.
        name: the file's name, for messages.
        key: the array's name in the object; what follows the array is then left unread.
        max_element: the longest element in bytes.

    Yields:
        (number of the line on which the element begins, the element's text, None for one that is too long). Whether
        that text is JSON is for the reader to see.

    Raises:
        TokurError: the text is not such an array, or ends too early.
    """
    text = _Text(stream, name, max_element)
    if key is not None and not _enter(text, key):
        return
    text.expect(b"[")
    end = b"]" if text.peek() == b"]" else b","
    if end == b"]":
        text.expect(b"]")
    while end == b",":
        text.peek()
        line = text.line
        element, end = text.take(b",]}")
        yield line, element
    if end == b"}":
        text.fail("this is not valid JSON: , or ] should stand before '}'")
    if key is None and text.peek():
        text.fail("there is text after the end of the array")


def object_values(
    stream: io.BufferedReader, name: str, max_value: int = MAX_LINE
) -> Iterator[tuple[int, str, bytes | None]]:
    """Read the values of a JSON object with memory for one, as :func:`array_elements` does those of an array.

    Yields:
        (number of the line on which the value begins, its name, its text, None for one that is too long).
    """
    text = _Text(stream, name, max_value)
    text.expect(b"{")
    end = b","
    while end == b",":
        key, _ = text.take(b":")
        text.peek()
        line = text.line
        value, end = text.take(b",}")
        yield line, (key or b"").strip(b' \t\r\n"').decode("utf-8", "replace"), value
    if text.peek():
        text.fail("there is text after the end of the object")


def _enter(text: _Text, key: str) -> bool:
    """Go to the value of an object's field; return False if it is missing or null."""
    text.expect(b"{")
    while text.peek() not in (b"}", b""):
        name, _ = text.take(b":")
        if name is not None and name.strip() == b'"%b"' % key.encode():
            return text.peek() != b"n"
        if text.take(b",}")[1] == b"}":
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
        passed = 0
        while True:
            space = len(self._buffer) - len(self._buffer.lstrip())
            passed += space
            self._go_to(space)
            if passed > self._max:
                self.fail(f"holds more than {in_bytes(self._max)} of white space in a row")
            if self._buffer or not self._read_more():
                return bytes(self._buffer[:1])

    def expect(self, sign: bytes) -> None:
        """Go past the next byte, which must be this one."""
        found = self.peek()
        if found != sign:
            before = f"before {chr(found[0])!r}" if found else "at the end"
            self.fail(f"this is not valid JSON: {sign.decode()} should stand {before}")
        self._go_to(1)

    def take(self, ends: bytes) -> tuple[bytes | None, bytes]:
        """Go past a value and the sign behind it, which is one of these; return its text and that sign.

        The text is None where it is too long.
        """
        between = re.compile(b'["{}\\[\\]' + re.escape(ends) + b"]")
        position, depth, is_quoted, is_long = 0, 0, False, False
        while True:
            pattern = _IN_STRING if is_quoted else _WITHIN if depth else between
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
            elif sign not in ends:
                self.fail(f"this is not valid JSON: {' or '.join(ends.decode())} should stand before {sign.decode()!r}")
            else:
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
