"""Streams in windows: bounded by the number of the records in one, and by their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from tokur_cli.records.record import Record

T = TypeVar("T")

WINDOW_BYTES = 32_000_000
"""Text of records that are held together; one record may be longer."""


def size_of(item: Any) -> int:
    """Return how much text a record has, in characters; 0 for anything else that stands in a stream."""
    return item.size if isinstance(item, Record) else 0


def windows_of(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Cut a stream into lists of at most so many items, shorter where their text is long or the stream ends."""
    window: list[T] = []
    size = 0
    for item in items:
        window.append(item)
        size += size_of(item)
        if len(window) == most or size >= WINDOW_BYTES:
            yield window
            window, size = [], 0
    if window:
        yield window
