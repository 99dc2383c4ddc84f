"""What makes starting fast."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Exempt what is made here, modules and models, from garbage collection: it lasts as long as the process.

    torch and transformers make a million objects. Going through them again and again while they are imported, and once
    more before the process ends, takes as long as making them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
