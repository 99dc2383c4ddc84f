"""Launchers such as ``torchrun``, which start a program many times."""

from __future__ import annotations

import os

from tokur_cli.records.errors import EXIT_USAGE, UsageError


def refuse_launchers() -> None:
    """Refuse to do all the work, and write all the output, once in each of several processes; the first one says so."""
    size = os.environ.get("WORLD_SIZE", "1")
    if size == "1" or not (os.environ.get("RANK") and os.environ.get("MASTER_ADDR")):
        return
    if os.environ["RANK"] != "0":
        raise SystemExit(EXIT_USAGE)
    raise UsageError(
        f"this is one of {size} processes: start it once, without torchrun or accelerate launch, and with --workers "
        f"{size} (if there is no launcher, unset WORLD_SIZE)"
    )
