"""What a kept posterior says of itself, read without its weights, and without torch."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokur_cli import __version__
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.records.errors import UsageError
from tokur_cli.records.typed import read_json

DESCRIPTION, BASIS = "posterior.json", "basis.safetensors"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MOST_DRAWS = 10_000


@dataclass(frozen=True)
class PosteriorDescription(PosteriorSettings):
    """What ``posterior.json`` says.

    Args:
        model: name of the model, as the user typed it.
        revision: its hub commit; None for local files.
        fingerprint: of its weights, see ``weight_digest``.
        draws: M, the number of adapters.
        calibration: how sigma was found by ``--calibrate``; None where it was given.
        base: where the model is an adapter, the model that this is put on; else None.
        version: of tokur.
        format: of the folder.
    """

    model: str = field(kw_only=True)
    revision: str | None = field(kw_only=True)
    fingerprint: str = field(kw_only=True)
    draws: int = field(kw_only=True)
    calibration: dict[str, Any] | None = field(kw_only=True)
    base: str | None = field(kw_only=True, default=None)
    version: str = field(kw_only=True, default=__version__)
    format: int = field(kw_only=True, default=1)

    def as_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(vars(self), indent=2, ensure_ascii=False) + "\n"


def read_description(folder: str) -> PosteriorDescription:
    """Read ``posterior.json``; raises what ``read_json`` does."""
    return read_json(str(Path(folder, DESCRIPTION)), PosteriorDescription, f"tokur perturb -o {folder}")


def refuse_existing(folder: str) -> None:
    """Refuse a folder for a posterior that holds something, before any work is done.

    Raises:
        UsageError: it does, or is no folder.
    """
    path = Path(folder)
    if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{folder}: is there already: move it elsewhere, or give another -o DIR")
