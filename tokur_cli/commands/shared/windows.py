"""The one batcher: a stream cut into windows, bounded by count and by text.

A stream that comes slowly, as from ``tail -f``, tells its pauses, so that nobody waits for a window to be full.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record
from tokur_cli.records.streams import file_id

T = TypeVar("T")

WINDOW_BYTES = 32_000_000  # how much text records may have that are held together; one record may be longer
PAUSE_SECONDS = 0.2


def _size(item: Any) -> int:
    """Return how much text a record has, in bytes; 0 for anything else that stands in a stream."""
    return item.size if isinstance(item, Record) else 0


def windows(
    items: Iterable[T | None], sizes: Iterator[int], key: Callable[[Any], object] | None = None
) -> Iterator[list[T]]:
    """Cut a stream into windows, which end early where text is long or the stream pauses (None), ends or fails.

    ``sizes`` are the most items of each window, with a key the fewest. The key tells what must not be cut apart: items
    that stand together and have the same key, or None, which joins the item before it. Where a window ends early, the
    last of these, of which some may be missing, wait.
    """
    window: list[T] = []
    size, text, whole, current = next(sizes), 0, 0, None  # whole: how many items may be cut off
    try:
        for item in items:
            if item is not None:
                window.append(item)
                text += _size(item)
                if key is None:
                    whole = len(window)
                elif (found := key(item) or current) != current:
                    whole, current = len(window) - 1, found
            if whole >= size or (whole and (text >= WINDOW_BYTES or item is None)):
                yield window[:whole]
                window, whole, size = window[whole:], 0, next(sizes)
                text = sum(map(_size, window))
    except TokurError:
        if whole:
            yield window[:whole]
        raise
    if window:
        yield window


def as_they_come(path: str, items: Iterator[T], busy: Callable[[], bool] = lambda: False) -> Iterator[T | None]:
    """Yield the items read from a file; between them None, a pause, whenever none has come for 0.2 s.

    A regular file never pauses. Anything else is read by a thread. Whoever takes the items does not wait in a pause
    while ``busy``: there is other work to go on with.
    """
    if file_id(path) is not None:
        yield from items
        return
    arrived: queue.Queue[tuple[T] | Exception | None] = queue.Queue(1)

    def read() -> None:
        try:
            for item in items:
                arrived.put((item,))
            arrived.put(None)
        except Exception as error:
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    pausing = False
    while True:
        try:
            found = arrived.get(timeout=0 if pausing and busy() else PAUSE_SECONDS)
        except queue.Empty:
            pausing = True
            yield None
            continue
        if found is None:
            return
        if isinstance(found, Exception):
            raise found
        pausing = False
        yield found[0]
