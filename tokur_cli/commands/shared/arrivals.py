"""Records that come slowly, as from ``tail -f``: a pause in the input is told to whoever waits for more of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from tokur_cli.records.streams import is_regular_file

T = TypeVar("T")

PAUSE_SECONDS = 0.2


def as_they_come(
    path: str, items: Iterator[T], busy: Callable[[], bool] = lambda: False
) -> Iterator[T] | Iterator[T | None]:
    """Return the items read from a file; between them None, a pause, wherever none has come for 0.2 s.

    What is read from a regular file is returned as it is: it never pauses. Anything else is read by a thread.

    Args:
        path: where the items are read from; ``-`` is standard input.
        items: what is read.
        busy: whether whoever takes the items has other work to go on with. If so, a pause is told at once whenever
            they ask for an item; if not, it is told once, and then the next item is waited for.
    """
    return items if is_regular_file(path) else _with_pauses(items, busy)


def _with_pauses(items: Iterator[T], busy: Callable[[], bool]) -> Iterator[T | None]:
    arrived: queue.Queue[tuple[T] | Exception | None] = queue.Queue(1)

    def read() -> None:
        try:
            for item in items:
                arrived.put((item,))
            arrived.put(None)
        except Exception as error:
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    pausing = was_busy = False
    while True:
        is_busy = busy()
        # A pause that was told to somebody busy is told again when they are idle
        seconds = PAUSE_SECONDS if not pausing else 0 if is_busy or was_busy else None
        try:
            found = arrived.get(timeout=seconds)
        except queue.Empty:
            pausing, was_busy = True, is_busy
            yield None
            continue
        if found is None:
            return
        if isinstance(found, Exception):
            raise found
        pausing = False
        yield found[0]
