"""The records that a command reads; the first may name the model that is loaded for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.records.errors import RecordError
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record


def read_input(source: InputOptions) -> Iterator[Record | RecordError]:
    """Read the records of a command's input."""
    return read_records(
        source.path,
        format=source.format,
        mapping=source.mapping,
        requests=source.requests,
        max_line=source.max_line_bytes,
    )


def peek(items: Iterator[Record | RecordError]) -> tuple[Iterator[Record | RecordError], str | None]:
    """Return the same stream, and the model that its first record names."""
    first = list(itertools.islice(items, 1))
    name = first[0].computed("model") if first and isinstance(first[0], Record) else None
    return itertools.chain(first, items), name if isinstance(name, str) else None
