"""Values as JSON text, fast where orjson can, complete where it cannot; objects of tokur's own files, checked."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

Checks = Mapping[str, tuple[str, Callable[[Any], bool]]]
"""What each field of an object must be: in words, and as a test."""


def encode_value(value: Any) -> bytes:
    """Serialise a value as compact UTF-8 JSON; numpy arrays and scalars included.

    NaN and infinity become ``null``; float32 numbers are written in the shortest form that reads back as the same
    float32. What orjson refuses (lone surrogates, integers over 64 bits) is written with ASCII escapes instead. Times
    are written as ISO 8601, bytes as the UTF-8 text that they are, else in base64, paths and the like as text.

    Args:
        value: mappings with string keys, lists, tuples, strings, numbers, booleans, None, numpy arrays and scalars, and
            what tables hold besides: decimals, times, bytes.

    Raises:
        TypeError: the value holds something that JSON cannot say.
        RecursionError: it is nested too deeply, or holds itself.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY, default=_said)
    except TypeError:
        return json.dumps(_plain(value), allow_nan=False, separators=(",", ":")).encode("ascii")


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


def check_fields(values: Mapping[str, Any], checks: Checks, optional: Collection[str] = ()) -> None:
    """Check every field of an object.

    Raises:
        ValueError: a field is missing, unknown or not what it must be.
    """
    for name, (wanted, is_right) in checks.items():
        if name not in values:
            if name not in optional:
                raise ValueError(f'"{name}" is missing')
        elif not is_right(values[name]):
            raise ValueError(f'"{name}" is {_shown(values[name])}, not {wanted}')
    if unknown := set(values) - set(checks):
        raise ValueError(f'"{min(unknown)}" is not a field of it')


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise ValueError(f'"{name}" is there {times} times')
    return dict(pairs)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
