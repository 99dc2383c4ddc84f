"""Values as JSON text: fast where orjson can, complete where it cannot."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson


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
