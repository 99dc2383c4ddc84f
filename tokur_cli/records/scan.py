"""Reads a JSON object and remembers where each of its fields stands in the text."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn

_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_NEXT = re.compile(r"[ \t\n\r]*([,}])[ \t\n\r]*")


class ScanError(Exception):
    """The text is not one JSON object; says what it is instead."""


class Member(NamedTuple):
    """Where a field stands in the text: ``[key, value)`` is its name and colon, ``[value, end)`` its value."""

    name: str
    key: int
    value: int
    end: int


class _NotANumber(ValueError):
    """``NaN`` or ``Infinity``: Python's parser would take them, but JSON does not know them."""


def _refuse_constant(literal: str) -> NoReturn:
    raise _NotANumber(literal)


_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode


def kind(value: Any) -> str:
    """Return what a parsed JSON value is, in the words of an error message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def scan_object(text: str) -> tuple[list[Member], dict[str, Any]]:
    """Parse a JSON object.

    Returns:
        Its fields' places in order, duplicates included, and their values by name (of duplicates, the last).

    Raises:
        ScanError: the text is not JSON, or not an object.
    """
    try:
        return _scan(text)
    except json.JSONDecodeError as error:
        message = f"is not valid JSON: {error.msg} at column {error.pos + 1}"
    except _NotANumber as error:
        message = f"holds {error}, which is not JSON: write null instead"
    except RecursionError:
        message = "is nested too deeply to be read"
    except ValueError:  # Python refuses to read integers of thousands of digits
        message = "holds an integer with too many digits to be read"
    raise ScanError(message)


def _scan(text: str) -> tuple[list[Member], dict[str, Any]]:
    members: list[Member] = []
    fields: dict[str, Any] = {}
    position = _skip_space(text, 0)
    if text[position : position + 1] != "{":
        value, end = _decode(text, position)
        _expect_end(text, end)
        raise ScanError(f"is {kind(value)}, not a JSON object")
    position = _skip_space(text, position + 1)
    if text[position : position + 1] == "}":
        _expect_end(text, position + 1)
        return members, fields
    while True:
        key = position
        if text[key : key + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, key)
        name, end = _decode(text, key)
        colon = _COLON.match(text, end)
        if colon is None:
            raise json.JSONDecodeError("Expecting ':' delimiter", text, end)
        fields[name], end = _decode(text, colon.end())
        members.append(Member(name, key, colon.end(), end))
        following = _NEXT.match(text, end)
        if following is None:
            raise json.JSONDecodeError("Expecting ',' delimiter", text, end)
        position = following.end()
        if following[1] == "}":
            _expect_end(text, position)
            return members, fields


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None  # the pattern matches the empty string too
    return match.end()


def _expect_end(text: str, position: int) -> None:
    position = _skip_space(text, position)
    if position != len(text):
        raise json.JSONDecodeError("Extra data", text, position)
