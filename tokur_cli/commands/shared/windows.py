"""The one batcher: a stream cut into windows, bounded by count and by text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import WINDOW_BYTES, size_of

T = TypeVar("T")

_FIRST_WINDOW = 16  # records, so that results come soon


def window_sizes(largest: int) -> Iterator[int]:
    """Yield 16, 32, 64, … records, at most the largest, if that is more."""
    size = _FIRST_WINDOW
    while True:
        yield size
        size = max(size, min(2 * size, largest))


def windows(
    items: Iterable[T | None],
    sizes: Iterator[int],
    key: Callable[[Any], object] | None = None,
    bytes_of: Callable[[Any], int] = size_of,
) -> Iterator[list[T]]:
    """Cut a stream into windows, which end early where text is long or the stream pauses (None), ends or fails.

    Args:
        items: the stream.
        sizes: of each window: with a key its least, else its most items.
        key: tells what must not be cut apart: items that stand together and have the same key, or None, which joins the
            item before it. Where a window ends early, the last of these, of which some may be missing, wait.
        bytes_of: how much text an item has.
    """
    window: list[T] = []
    size, text, whole, current = next(sizes), 0, 0, None  # whole: how many items may be cut off
    try:
        for item in items:
            if item is not None and key is None:
                window.append(item)
                text += bytes_of(item)
                whole = len(window)
            elif item is not None and key is not None and (found := key(item) or current) != current:
                whole, current = len(window), found
            if whole >= size or (whole and (text >= WINDOW_BYTES or item is None)):
                yield window[:whole]
                window, whole, size = window[whole:], 0, next(sizes)
                text = sum(map(bytes_of, window))
            if item is not None and key is not None:
                window.append(item)
                text += bytes_of(item)
    except TokurError:
        if whole:
            yield window[:whole]
        raise
    if window:
        yield window
