"""The elements of a JSON array, one at a time, however long the array is."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import NoReturn

from tokur_cli.records.errors import TokurError
from tokur_cli.records.streams import BOM, MAX_LINE, in_bytes

_CHUNK = 1 << 16
_SPACE = re.compile(rb"[ \t\r\n]*")
_BRACKET_OR_QUOTE = re.compile(rb'["{}\[\]]')
_QUOTE_OR_ESCAPE = re.compile(rb'["\\]')
_SCALAR_END = re.compile(rb"[,\]}\s]")
_STRING = rb'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)'  # one without an end too, which is looked for once alone
_STRING_OR_BREAK = re.compile(_STRING + rb"|[\r\n][ \t\r\n]*", re.DOTALL)
_STRING_OR_CONSTANT = re.compile(_STRING + rb"|-?Infinity|NaN", re.DOTALL)


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
        (number of the line on which the element begins, the element's text on one line, None for one that is too long).

    Raises:
        TokurError: the text is not such an array, or ends too early.
    """
    cursor = _Cursor(stream, name, max_element)
    if key is not None and not _enter(cursor, key):
        return
    cursor.expect(b"[")
    if cursor.peek() == b"]":
        cursor.expect(b"]")
    else:
        while True:
            line = cursor.line
            text = cursor.take_value()
            yield line, None if text is None else on_one_line(text)
            if cursor.expect(b",]") == b"]":
                break
            cursor.peek()
    if key is None and cursor.peek():
        cursor.fail("there is text after the end of the array")


def on_one_line(text: bytes) -> bytes:
    """Return JSON text without line breaks; nothing inside a string changes."""
    if b"\n" not in text and b"\r" not in text:
        return text
    return _STRING_OR_BREAK.sub(lambda match: match[0] if match[0].startswith(b'"') else b" ", text)


def without_constants(text: bytes) -> bytes:
    """Return JSON text with null for ``NaN`` and ``Infinity``; nothing inside a string changes."""
    if b"NaN" not in text and b"Infinity" not in text:
        return text
    return _STRING_OR_CONSTANT.sub(lambda match: match[0] if match[0].startswith(b'"') else b"null", text)


def _enter(cursor: _Cursor, key: str) -> bool:
    """Go to an object's field; return False if it is missing or null."""
    cursor.expect(b"{")
    if cursor.peek() == b"}":
        return False
    while True:
        try:
            name = json.loads(cursor.take_value() or b"")
        except ValueError:
            cursor.fail("this is not valid JSON")
        cursor.expect(b":")
        if name == key:
            return cursor.peek() != b"n"
        cursor.take_value()
        if cursor.expect(b",}") == b"}":
            return False


class _Cursor:
    """A place in a stream of JSON text.

    Attributes:
        line: the number of the line it is on, from 1.
    """

    def __init__(self, stream: io.BufferedReader, name: str, max_value: int) -> None:
        self._stream = stream
        self._name = name
        self._max_value = max_value
        self._buffer = bytearray()
        self._position = 0
        self.line = 1
        self._read_more()
        self._position = len(BOM) if self._buffer.startswith(BOM) else 0

    def peek(self) -> bytes:
        """Return the next byte that is not white space; none at the end."""
        passed = 0
        while True:
            space = _SPACE.match(self._buffer, self._position)
            assert space is not None  # the pattern matches the empty string too
            passed += space.end() - self._position
            self._go_to(space.end())
            if passed > self._max_value:
                self.fail(f"holds more than {in_bytes(self._max_value)} of white space in a row")
            if self._position < len(self._buffer):
                return bytes(self._buffer[self._position : self._position + 1])
            if not self._read_more():
                return b""

    def expect(self, choices: bytes) -> bytes:
        """Go past the next byte, which must be one of these."""
        byte = self.peek()
        if not byte:
            self.fail("the JSON ends here, before the end of the array: the file is not complete")
        if byte not in choices:
            self.fail(f"this is not valid JSON: {' or '.join(map(chr, choices))} should stand before {chr(byte[0])!r}")
        self._position += 1
        return byte

    def take_value(self) -> bytes | None:
        """Return the text of the next value, which the cursor goes past; None if it is too long."""
        first = self.peek()
        if first in (b"", b",", b":", b"]", b"}"):
            self.expect(b"{")
        del self._buffer[: self._position]
        self._position = 0
        self._let_go = False
        end = self._bracketed_end() if first in (b"{", b"[", b'"') else self._scalar_end()
        value = None if self._let_go or end > self._max_value else bytes(self._buffer[:end])
        self._go_to(end)
        return value

    def fail(self, message: str) -> NoReturn:
        """End the stream with an error about this place."""
        raise TokurError(f"{self._name}:{self.line}: {message}")

    def _bracketed_end(self) -> int:
        position = depth = 0
        in_string = False
        while True:
            pattern = _QUOTE_OR_ESCAPE if in_string else _BRACKET_OR_QUOTE
            match = pattern.search(self._buffer, position)
            if match is None:
                following = self._next_part(max(position, len(self._buffer)))  # an escape may reach past the end
                if following is None:
                    self.fail("the JSON ends inside this element: the file is not complete")
                position = following
                continue
            position = match.end()
            if match[0] == b"\\":
                position += 1
            elif match[0] == b'"':
                in_string = not in_string
            else:
                depth += 1 if match[0] in b"{[" else -1
            if depth == 0 and not in_string:
                return position

    def _scalar_end(self) -> int:
        position: int | None = 0
        while position is not None:
            match = _SCALAR_END.search(self._buffer, position)
            if match is not None:
                return match.start()
            position = self._next_part(len(self._buffer))
        return len(self._buffer)

    def _next_part(self, position: int) -> int | None:
        """Read on in a value, letting go what is too long; return where the position is then, None at the end."""
        if len(self._buffer) > self._max_value:
            self._let_go = True
            position -= len(self._buffer)
            self._go_to(len(self._buffer))
        return position if self._read_more() else None

    def _go_to(self, position: int) -> None:
        self.line += self._buffer.count(b"\n", self._position, position)
        self._position = position

    def _read_more(self) -> bool:
        del self._buffer[: self._position]  # white space too may go on for gigabytes
        self._position = 0
        chunk = self._stream.read1(_CHUNK)
        self._buffer += chunk
        return bool(chunk)
