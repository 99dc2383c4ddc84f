"""What a library prints, from Python, native code or processes that it starts, kept for where it fails."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from typing import IO

_SHOWN_BYTES = 4000  # at the end of what was printed, where it failed


def silencer(name: str, tell: Callable[[str], None]) -> Callable[[], AbstractContextManager[None]]:
    """Return what keeps standard output and standard error, as file descriptors, in a file while a library works.

    Processes that the library starts there inherit the file for good, and what is printed while this process ends goes
    there, too. With TOKUR_DEBUG=1 everything goes to standard error at once.

    Args:
        name: the library's name for people.
        tell: takes the end of what was printed where the library fails.
    """
    if os.environ.get("TOKUR_DEBUG") == "1":
        return partial(redirected, 1, 2)
    kept = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - open as long as the library
    register_once = cache(atexit.register)

    @contextmanager
    def keep() -> Iterator[None]:
        try:
            with redirected(1, kept.fileno()), redirected(2, kept.fileno()):
                yield
        except Exception:
            kept.seek(0)
            if text := kept.read()[-_SHOWN_BYTES:].decode("utf-8", errors="replace").strip():
                tell(f"--- what {name} printed ---\n{text}\n---")
            raise
        finally:
            register_once(_redirect_for_good, kept)  # now, so that it comes before what the library does there

    return keep


def _redirect_for_good(kept: IO[bytes]) -> None:
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.flush()
        os.dup2(kept.fileno(), descriptor)


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
