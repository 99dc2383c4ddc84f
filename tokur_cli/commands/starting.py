"""What makes a start fast."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Keep the garbage collector from what is made here, imported modules and models: it stays for the process's life.

    torch and transformers make a million objects. Going through them again and again while they are imported, and once
    more before the process ends, takes as long as making them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def model_imports() -> Iterator[None]:
    """Import here what a command with a model needs."""
    with lasting_objects():
        from tokur_cli.engine.importing import import_transformers

        import_transformers()
        yield
