"""Values as JSON text and back: written by orjson, read by msgspec, and by json what these refuse."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tokur_cli.records.errors import TokurError

T = TypeVar("T")


def encode_value(value: Any, *, sort_keys: bool = False) -> bytes:
    """Serialise what JSON, numpy and tables have as compact UTF-8 JSON; NaN and infinity become ``null``.

    float32 numbers are written in the shortest form that reads back as the same float32. What orjson refuses (lone
    surrogates, integers over 64 bits) is written with ASCII escapes instead. Bytes are the UTF-8 text that they are,
    else base64; times are written as ISO 8601.

    Raises:
        TypeError: the value holds something that JSON cannot say.
        RecursionError: it is nested too deeply, or holds itself.
    """
    with suppress(TypeError):
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS * sort_keys, default=_said)
    text = json.dumps(value, check_circular=False, default=_said)
    plain = json.loads(text, parse_constant=lambda _: None)  # NaN and infinity become null
    return json.dumps(plain, separators=(",", ":"), sort_keys=sort_keys).encode("ascii")


def parse_json(text: bytes) -> Any:
    r"""Return the value of a JSON text in UTF-8; of the fields of one name, the last.

    Integers of up to 4,300 digits keep them, and half of a character (``"\ud800"``) is read as it is.

    Raises:
        ValueError: it is not JSON; it holds NaN, or a number that is too large, which JSON cannot say again.
        RecursionError: it is nested too deeply.
    """
    import msgspec  # which the start of a command can do without

    with suppress(ValueError, RecursionError):
        return msgspec.json.decode(text)
    try:
        return json.loads(text.decode(), parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error.msg.removesuffix(' at')} at column {error.pos + 1}") from None


def read_json(path: str, kind: type[T], made_by: str) -> T:
    """Return the object that a file of tokur's own holds, which the command ``made_by`` writes.

    ``kind`` is a dataclass. Fields with a default may be missing, the default of ``schema`` or ``format`` is the newest
    one, and ``__post_init__`` may raise ValueError where values do not go together.

    Raises:
        TokurError: it cannot be read, is of a newer schema, or a field is missing, unknown or of another type.
    """
    import msgspec

    try:
        values: Any = msgspec.json.decode(Path(path).read_bytes())
        if isinstance(values, dict):
            for name in ("schema", "format"):
                newest, written = getattr(kind, name, None), values.get(name)
                if newest is not None and type(written) is int and written > newest:
                    raise TokurError(f"{path}: has {name} {written}; this tokur reads up to {newest}: update tokur")
            if unknown := values.keys() - {each.name for each in fields(kind)}:  # type: ignore[arg-type]
                raise msgspec.ValidationError(f'"{min(unknown)}" is not one of its fields')
        return msgspec.convert(values, kind)
    except (OSError, ValueError, RecursionError) as error:  # msgspec's own, and UnicodeDecodeError
        raise TokurError(f"{path}: {getattr(error, 'strerror', error)}; write it with `{made_by}`") from None


def json_type(value: Any) -> str:
    """Return what a JSON value is, in the words of an error message."""
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def _finite(literal: str) -> float:
    """Return a number, or what json takes for one: NaN and Infinity."""
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError(f"holds {literal[:40]}, which is no number that JSON can say: write null instead")
    return number


def _said(value: Any) -> Any:
    """Return what orjson or json refuses in types that it writes."""
    if hasattr(value, "isoformat"):
        return value.isoformat() if value == value else None  # NaT is not equal to itself
    if hasattr(value, "dtype"):  # numpy, which this package's start-up must not import; orjson takes C order only
        with suppress(TypeError):
            return json.loads(orjson.dumps(value.copy(), option=orjson.OPT_SERIALIZE_NUMPY))
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        with suppress(UnicodeDecodeError):
            return bytes(value).decode()
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    raise TypeError(f"holds what JSON cannot say: {type(value).__name__}")
