"""Values as JSON text and back, by orjson where it can, by json where it cannot."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, NoReturn
from uuid import UUID

import orjson


def encode_value(value: Any, *, sort_keys: bool = False) -> bytes:
    """Serialise a value as compact UTF-8 JSON; numpy arrays and scalars included.

    NaN and infinity become ``null``; float32 numbers are written in the shortest form that reads back as the same
    float32. What orjson refuses (lone surrogates, integers over 64 bits) is written with ASCII escapes instead. Times
    are written as ISO 8601, bytes as the UTF-8 text that they are, else in base64, paths and the like as text.

    Args:
        value: mappings with string keys, lists, tuples, strings, numbers, booleans, None, numpy arrays and scalars, and
            what tables hold besides: decimals, times, bytes.
        sort_keys: order the fields of objects by name, so that equal values give equal text.

    Raises:
        TypeError: the value holds something that JSON cannot say.
        RecursionError: it is nested too deeply, or holds itself.
    """
    try:
        sorting = orjson.OPT_SORT_KEYS if sort_keys else 0
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | sorting, default=_said)
    except TypeError:
        plain = _plain(value)
        return json.dumps(plain, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys).encode("ascii")


def parse_json(text: bytes | str) -> Any:
    r"""Return the value of a JSON text in UTF-8; of the fields of one name, the last.

    Integers of any size keep their digits, and half of a character (``"\ud800"``) is read as it is; orjson would
    round the ones and refuse the other, so such text is read by json.

    Raises:
        ValueError: it is not JSON; it holds NaN, or a number that is too large, which JSON cannot say again.
    """
    data = text.encode("utf-8") if isinstance(text, str) else text
    if _DIGITS not in data.translate(_AS_ZEROS).replace(b"." + _DIGITS, b""):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(data)
    try:
        return _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(error)) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error.msg} at column {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("is nested too deeply to be read") from None
    except _UnsayableError:
        raise
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise ValueError("holds an integer with too many digits to be read") from None


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return what is wrong with a line that is not UTF-8."""
    return f"is not UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the line"


def json_type(value: Any) -> str:
    """Return what a JSON value is, in the words of an error message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


class _UnsayableError(ValueError):
    """A number that Python reads and JSON cannot say."""


def _refuse_constant(literal: str) -> NoReturn:
    raise _UnsayableError(f"holds {literal}, which is not JSON: write null instead")


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise _UnsayableError(f"holds the number {literal[:40]}, which is too large")
    return number


_DIGITS = b"0" * 19  # a number of 64 bits may have as many
_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _plain(value: Any) -> Any:
    """Return the value in types that ``json`` writes the way orjson would have."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a JSON object's keys are strings, not {type(key).__name__}")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _plain(_said(value))


def _said(value: Any) -> Any:
    """Return what orjson refuses in types that it writes."""
    if hasattr(value, "isoformat"):
        return value.isoformat() if value == value else None  # NaT is not equal to itself
    if hasattr(value, "dtype"):  # numpy, which this package's start-up must not import
        with suppress(TypeError):
            contiguous = value.copy() if hasattr(value, "copy") else value  # orjson takes C order only
            return json.loads(orjson.dumps(contiguous, option=orjson.OPT_SERIALIZE_NUMPY))
        listed = value.tolist()
        if not hasattr(listed, "dtype"):
            return listed
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return b64encode(data).decode()
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if is_whole else float(value)
    if isinstance(value, (PurePath, UUID, timedelta)):
        return str(value)
    raise TypeError(f"JSON cannot say {type(value).__name__}")


def parse_object(text: str) -> dict[str, Any]:
    """Return the object that a text is.

    Raises:
        ValueError: it is none, or has a field twice.
        RecursionError: it is nested too deeply.
    """
    values = json.loads(text, object_pairs_hook=_without_duplicates)
    if not isinstance(values, dict):
        raise ValueError("it holds no object")
    return values


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise ValueError(f'"{name}" is there {times} times')
    return dict(pairs)
