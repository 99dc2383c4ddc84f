"""Files of tokur's own that hold one object: calibrations and certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokur_cli import __version__
from tokur_cli.records.encoding import Checks, check_fields, parse_object
from tokur_cli.records.errors import TokurError


def read_own(path: str, checks: Checks, schema: int, *, made_by: str, shape: Callable[[Any], None]) -> dict[str, Any]:
    """Read the object that a file holds.

    Args:
        path: the file.
        checks: what each field must be.
        schema: the newest that can be read.
        made_by: the words of the command that writes such a file, up to its name.
        shape: raises ValueError where the fields, each of which is what it must be, do not go together.

    Raises:
        TokurError: it cannot be read, is of a newer schema, or a field is missing, unknown, there twice or not what it
            must be.
    """
    try:
        with open(path, encoding="utf-8") as file:
            values = parse_object(file.read())
        written = values.get("schema")
        if type(written) is int and written > schema:
            raise TokurError(
                f"{path}: has schema {written}, and this tokur ({__version__}) reads up to {schema}: update tokur"
            )
        check_fields(values, checks)
        shape(values)
    except FileNotFoundError:
        raise TokurError(f"{path}: there is no such file; `{made_by} {path}` writes one") from None
    except OSError as error:
        raise TokurError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        option = next(word for word in made_by.split() if word.startswith("--"))
        raise TokurError(
            f"{path}: is not what tokur evaluate {option} writes: {error}; have it written again"
        ) from None
    return values
