"""What a library prints, from Python, native code or processes that it starts, kept for where it fails."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHOWN_BYTES = 4000  # of what was printed, where it failed


class Silenced:
    """Keeps standard output and standard error, as file descriptors, in a file while the library works.

    Processes that the library starts there inherit the file for good, and what is printed while this process ends goes
    there, too. With TOKUR_DEBUG=1 everything goes to standard error at once.

    Args:
        name: the library's name for people.
        tell: takes the end of what was printed where the library fails.
    """

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self.name, self.tell = name, tell
        debug = os.environ.get("TOKUR_DEBUG") == "1"
        self._kept = None if debug else tempfile.TemporaryFile("a+b")  # noqa: SIM115 - open as long as the library
        self._to_the_end = debug

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Keep what is printed within; where that fails, its end is told."""
        target = 2 if self._kept is None else self._kept.fileno()
        try:
            with redirected(1, target), redirected(2, target):
                yield
        except Exception:
            self._show()
            raise
        finally:
            if not self._to_the_end:
                self._to_the_end = True  # now, so that it comes before what the library does there
                atexit.register(self._redirect_for_good, target)

    def _redirect_for_good(self, target: int) -> None:
        for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
            stream.flush()
            os.dup2(target, descriptor)

    def _show(self) -> None:
        if self._kept is None:
            return
        size = self._kept.seek(0, os.SEEK_END)
        self._kept.seek(max(size - _SHOWN_BYTES, 0))
        text = self._kept.read().decode("utf-8", errors="replace").strip()
        if text:
            whole = "" if size <= _SHOWN_BYTES else f"the last {_SHOWN_BYTES:,} bytes of "
            self.tell(f"--- {whole}what {self.name} printed ---\n{text}\n---")


@contextmanager
def redirected(descriptor: int, target: int) -> Iterator[None]:
    """Have what is written to a descriptor, 1 or 2, go to another one."""
    stream = sys.stdout if descriptor == 1 else sys.stderr
    stream.flush()
    saved = os.dup(descriptor)
    os.dup2(target, descriptor)
    try:
        yield
    finally:
        stream.flush()
        os.dup2(saved, descriptor)
        os.close(saved)
