"""Files of tokur's own that hold one object (calibration, certificate, posterior), read by a dataclass' annotations."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

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
    import msgspec

    try:
        values: Any = msgspec.json.decode(Path(path).read_bytes())
        if isinstance(values, dict):
            for name in ("schema", "format"):
                newest, written = getattr(kind, name, None), values.get(name)
                if newest is not None and type(written) is int and written > newest:
                    message = f"has {name} {written}, and this tokur ({__version__}) reads up to {newest}: update tokur"
                    raise TokurError(f"{path}: {message}")
            if unknown := values.keys() - {each.name for each in fields(kind)}:  # type: ignore[arg-type]
                raise msgspec.ValidationError(f'"{min(unknown)}" is not one of its fields')
        return msgspec.convert(values, kind)
    except (FileNotFoundError, NotADirectoryError):
        raise TokurError(f"{path}: there is no such file; `{made_by}` writes one") from None
    except OSError as error:
        raise TokurError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TokurError(f"{path}: {error}; write it again with `{made_by}`") from None
