"""Libraries in Rust that give up: their PanicException is no Exception, so what handles errors does not see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tokur_cli.records.errors import TokurError


def is_panic(error: BaseException) -> bool:
    """Tell whether an exception is a panic of a library in Rust (tokenizers, safetensors)."""
    return type(error).__module__ == "pyo3_runtime"


@contextmanager
def tokenizing() -> Iterator[None]:
    """Make a tokenizer's panic an error of the text that it was given.

    Raises:
        TokurError: the tokenizer panicked.
    """
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise TokurError(f"the model's tokenizer fails on this text: {str(error).strip().splitlines()[0]}") from error
