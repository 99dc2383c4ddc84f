"""How much text the records that are held together may have: windows are bounded by their bytes, too."""

from __future__ import annotations

from typing import Any

from tokur_cli.records.record import Record

WINDOW_BYTES = 32_000_000
"""Text of records that are held together; one record may be longer."""


def size_of(item: Any) -> int:
    """Return how much text a record has, in characters; 0 for anything else that stands in a stream."""
    return item.size if isinstance(item, Record) else 0
