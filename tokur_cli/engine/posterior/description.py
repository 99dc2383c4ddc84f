"""What a kept posterior says of itself, read and checked without its weights, and without torch."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokur_cli import __version__
from tokur_cli.engine.posterior.settings import SETTING_CHECKS, PosteriorSettings, is_count, is_text
from tokur_cli.records.encoding import Checks, check_fields, parse_object
from tokur_cli.records.errors import TokurError, UsageError

FORMAT = 1
DESCRIPTION, BASIS = "posterior.json", "basis.safetensors"
ADAPTER = ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_DRAW = re.compile(r"draw-\d+")
MOST_DRAWS = 10_000


@dataclass(frozen=True)
class PosteriorDescription:
    """What ``posterior.json`` says.

    Args:
        model: name of the model, as the user typed it.
        revision: its hub commit; None for local files.
        fingerprint: of its weights, see ``weight_fingerprint``.
        settings: of the posterior.
        draws: M, the number of adapters.
        calibration: how sigma was found by ``--calibrate``; None where it was given.
        basis_sha256: of the basis's file; None in folders that were written before it was kept.
        base: where the model is an adapter, the model that this is put on; else None, and not written.
        version: of tokur.
        format: of the folder.
    """

    model: str
    revision: str | None
    fingerprint: str
    settings: PosteriorSettings
    draws: int
    calibration: dict[str, Any] | None
    basis_sha256: str | None = None
    version: str = __version__
    format: int = FORMAT
    base: str | None = None

    def as_json(self) -> str:
        """Return the text of the file."""
        fields: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "base" and value is None:
                continue
            fields |= self.settings.settings if name == "settings" else {name: value}
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _or_null(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


_TEXT, _COUNT, _HASH = "text", "an integer from 1", "a SHA-256"
_WANTED: Checks = {
    "model": (_TEXT, is_text),
    "revision": (f"{_TEXT}, or null", _or_null(is_text)),
    "fingerprint": (_HASH, _is_hash),
    **SETTING_CHECKS,
    "draws": (f"an integer from 1 to {MOST_DRAWS:,}", lambda value: is_count(value) and value <= MOST_DRAWS),
    "calibration": ("an object, or null", _or_null(lambda value: isinstance(value, dict))),
    "basis_sha256": (f"{_HASH}, or null", _or_null(_is_hash)),
    "version": (_TEXT, is_text),
    "format": (_COUNT, is_count),
    "base": (_TEXT, is_text),
}
_ALWAYS = ("rank", "sigma", "targets", "layers", "seed")
_LATER = ("basis_sha256", "version", "format", "base", *(name for name in SETTING_CHECKS if name not in _ALWAYS))
"""What folders lack that were written before it was kept."""


def read_description(folder: str) -> PosteriorDescription:
    """Read ``posterior.json``.

    Raises:
        TokurError: it is not there, cannot be read, is of a newer format, or a field is missing, unknown, there twice
            or not what it must be.
    """
    path = Path(folder, DESCRIPTION)
    try:
        values = parse_object(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise TokurError(f"{folder}: holds no posterior; `tokur perturb -o {folder}` writes one") from None
    except OSError as error:
        raise TokurError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _unlike(path, str(error)) from None
    written = values.get("format")
    if type(written) is int and written > FORMAT:
        raise TokurError(
            f"{path}: has format {written}, and this tokur ({__version__}) reads up to {FORMAT}: update tokur"
        )
    try:
        check_fields(values, _WANTED, optional=_LATER)
    except ValueError as error:
        raise _unlike(path, str(error)) from None
    settings = {name: values.pop(name) for name in SETTING_CHECKS if name in values}
    return PosteriorDescription(settings=PosteriorSettings(**settings), **values)


def _unlike(path: Path, what: str) -> TokurError:
    return TokurError(f"{path}: is not what tokur perturb writes: {what}; write the posterior again with tokur perturb")


def refuse_existing(folder: str, *, force: bool) -> None:
    """Refuse a folder that would be overwritten, before any work is done.

    Raises:
        UsageError: it is there and not empty, and not a posterior, alone, that ``force`` may replace.
    """
    path = Path(folder)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise UsageError(f"{folder}: is a file; give the name of a folder")
    if not any(path.iterdir()):
        return
    if not (path / DESCRIPTION).is_file():
        raise UsageError(f"{folder}: exists and holds something other than a posterior: give another -o DIR")
    if not force:
        raise UsageError(f"{folder}: holds a posterior already: give another -o DIR, or --force to replace it")
    if others := list(_not_of_a_posterior(path)):
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        raise UsageError(
            f"{folder}: holds {others[0]}{more} beside a posterior, which --force would delete: move it "
            "elsewhere, or give another -o DIR"
        )


def _not_of_a_posterior(folder: Path) -> Iterator[str]:
    """Yield the names of what ``tokur perturb`` did not write there, in order."""
    for entry in sorted(folder.iterdir()):
        if _DRAW.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink():
            yield from (f"{entry.name}/{part.name}" for part in sorted(entry.iterdir()) if part.name not in ADAPTER)
        elif entry.name not in (DESCRIPTION, BASIS):
            yield entry.name
