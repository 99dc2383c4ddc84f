"""Values as JSON text, fast where orjson can, complete where it cannot; objects of tokur's own files, checked."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import orjson

Checks = Mapping[str, tuple[str, Callable[[Any], bool]]]
"""What each field of an object must be: in words, and as a test."""


def encode_value(value: Any) -> bytes:
    """Serialise a value as compact UTF-8 JSON; numpy arrays and scalars included.

    NaN and infinity become ``null``; float32 numbers are written in the shortest form that reads back as the same
    float32. What orjson refuses (lone surrogates, integers over 64 bits) is written with ASCII escapes instead.

    Args:
        value: dicts with string keys, lists, tuples, strings, numbers, booleans, None, numpy arrays and scalars.

    Raises:
        TypeError: the value holds something that JSON cannot say.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
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
    if hasattr(value, "dtype"):  # numpy, which this package's start-up must not import
        contiguous = value.copy() if hasattr(value, "copy") else value  # orjson takes C order only
        return json.loads(orjson.dumps(contiguous, option=orjson.OPT_SERIALIZE_NUMPY))
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
