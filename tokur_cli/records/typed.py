"""Files of tokur's own that hold one object (calibration, certificate, posterior), read by a dataclass' annotations."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tokur_cli import __version__
from tokur_cli.records.errors import TokurError

T = TypeVar("T")


def read_json(path: str, kind: type[T], made_by: str) -> T:
    """Return the object that a file holds.

    Args:
        path: the file.
        kind: a dataclass. Fields with a default may be missing, the default of ``schema`` or ``format`` is the newest
            one, and ``__post_init__`` may raise ValueError where values do not go together.
        made_by: the command that writes such a file.

    Raises:
        TokurError: it cannot be read, is of a newer schema, or a field is missing, unknown or of another type.
    """
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        for name in ("schema", "format"):
            newest, written = getattr(kind, name, None), values.get(name) if isinstance(values, dict) else None
            if newest is not None and type(written) is int and written > newest:
                raise TokurError(
                    f"{path}: has {name} {written}, and this tokur ({__version__}) reads up to {newest}: update tokur"
                )
        result: T = typed(values, kind)
    except (FileNotFoundError, NotADirectoryError):
        raise TokurError(f"{path}: there is no such file; `{made_by}` writes one") from None
    except OSError as error:
        raise TokurError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise TokurError(f"{path}: {error}; write it again with `{made_by}`") from None
    return result


def typed(value: Any, kind: Any, name: str = "it") -> Any:
    """Return a JSON value as what an annotation says: lists as tuples, objects as dataclasses.

    Args:
        value: as parsed.
        kind: Any, None, a literal, a union, bool, int, float, str, a tuple, a mapping with text as keys, a dataclass.
        name: of the value, for messages.

    Raises:
        ValueError: it is something else; a number is not finite.
    """
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any or (kind in (NoneType, bool, int, str) and type(value) is kind):
        return value
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return value
    if origin is Literal and value in args:
        return value
    if origin in (Union, UnionType):
        for each in args:
            with suppress(ValueError):
                return typed(value, each, name)
    if origin is tuple and isinstance(value, list):
        kinds = args[:1] * len(value) if args[-1] is Ellipsis else args
        if len(kinds) == len(value):
            return tuple(typed(item, each, name) for item, each in zip(value, kinds, strict=True))
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {key: typed(item, args[1], f"{name}.{key}") for key, item in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        wanted = [each for each in fields(kind) if each.init]
        if unknown := value.keys() - {each.name for each in wanted}:
            raise ValueError(f'"{min(unknown)}" is not a field of {name}')
        for each in wanted:
            if each.name not in value and each.default is MISSING and each.default_factory is MISSING:
                raise ValueError(f'"{each.name}" is missing')
        values = {key: typed(item, hints[key], f'"{key}"') for key, item in value.items()}
        return kind(**values)  # type: ignore[operator]
    raise ValueError(f"{name} should be {getattr(kind, '__name__', kind) if origin is None else kind}")
