"""Records that come slowly, as from ``tail -f``: a pause in the input is told to whoever waits for more of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tokur_cli.records.record import WINDOW_BYTES, size_of
from tokur_cli.records.streams import is_regular_file

T = TypeVar("T")

PAUSE_SECONDS = 0.2
_AHEAD = 16  # records read before they are asked for


@dataclass(frozen=True)
class _End:
    """The stream ended, or failed."""

    error: Exception | None


class _Ahead(queue.Queue[T]):
    """A queue that takes so many items, and none while those in it have much text."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._text = 0

    def _put(self, item: T) -> None:
        super()._put(item)
        self._count(size_of(item))

    def _get(self) -> T:
        item = super()._get()
        self._count(-size_of(item))
        return item

    def _count(self, text: int) -> None:
        self._text += text
        self.maxsize = _AHEAD if self._text < WINDOW_BYTES else 1


def as_they_come(
    path: str, items: Iterator[T], busy: Callable[[], bool] = lambda: False
) -> Iterator[T] | Iterator[T | None]:
    """Return the items read from a file; between them None, a pause, wherever none has come for 0.2 s.

    What is read from a regular file is returned as it is: no pause is ever told. Anything else is read by a thread.

    Args:
        path: where the items are read from; ``-`` is standard input.
        items: what is read.
        busy: whether whoever takes the items has other work to go on with. If so, a pause is told at once whenever
            they ask for an item; if not, it is told once, and then the next item is waited for.
    """
    return items if is_regular_file(path) else _with_pauses(items, busy)


def _with_pauses(items: Iterator[T], busy: Callable[[], bool]) -> Iterator[T | None]:
    arrived: _Ahead[T | _End] = _Ahead(_AHEAD)

    def read() -> None:
        error = None
        try:
            for item in items:
                arrived.put(item)
        except Exception as caught:
            error = caught
        arrived.put(_End(error))

    threading.Thread(target=read, daemon=True).start()
    pausing = was_busy = False
    while True:
        is_busy = busy()
        # A pause that was told to somebody busy is told again when they are idle
        seconds = PAUSE_SECONDS if not pausing else 0 if is_busy or was_busy else None
        try:
            item = arrived.get(timeout=seconds)
        except queue.Empty:
            pausing, was_busy = True, is_busy
            yield None
            continue
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return
        pausing = False
        yield item
