"""Which inputs are no lines of JSON, by their names, and their rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from tokur_cli.records.errors import RecordError
from tokur_cli.records.published.gym import GYM, gym_rows
from tokur_cli.records.published.hugging_face import HUGGING_FACE, hub_rows, is_saved_folder, local_path, saved_rows
from tokur_cli.records.published.tables import arrow_rows, csv_rows, parquet_rows
from tokur_cli.records.record import Record
from tokur_cli.records.streams import MAX_LINE

_PACKED = ("", ".gz", ".zst")
_DELIMITERS = {form + packed: sign for form, sign in ((".csv", ","), (".tsv", "\t")) for packed in _PACKED}
_PARQUET, _ARROW = ".parquet", ".arrow"


def is_published(path: str) -> bool:
    """Return whether an input's name is one that :func:`published_rows` reads."""
    return (
        path.startswith((HUGGING_FACE, GYM)) or path.endswith((_PARQUET, _ARROW, *_DELIMITERS)) or is_saved_folder(path)
    )


def published_rows(path: str, max_line: int = MAX_LINE) -> Iterator[Record | RecordError]:
    """Read the rows of ``hf:…``, ``gym:…``, a saved data set, a ``.parquet``, ``.arrow``, ``.csv`` or ``.tsv`` file.

    Args:
        path: an input's name.
        max_line: the longest cell of a CSV or TSV file in bytes.

    Yields:
        Records, and errors in the place of rows that JSON cannot say. A record's line is the row's number, from 1; in a
        CSV or TSV file it is the line on which the row begins.

    Raises:
        TokurError: while iterating: the input as a whole cannot be read, or needs a library that is not there.
    """
    if path.startswith(HUGGING_FACE):
        return _numbered(hub_rows(path), path)
    if path.startswith(GYM):
        return _numbered(gym_rows(path), path)
    if path.endswith(_PARQUET):
        return _numbered(parquet_rows(path), path)
    for ending, delimiter in _DELIMITERS.items():
        if path.endswith(ending):
            return records_of(csv_rows(path, delimiter, max_line), path)
    return _numbered(saved_rows(path) if is_saved_folder(path) else arrow_rows(path), path)


def file_behind(name: str) -> str | None:
    """Return the file or the folder that an input's name means; None where it is none of this machine's."""
    if name.startswith(GYM):
        return None
    if not name.startswith(HUGGING_FACE):
        return name
    path = local_path(name)
    return path if path is not None and os.path.exists(path) else None


def _numbered(rows: Iterator[dict[str, Any]], source: str) -> Iterator[Record | RecordError]:
    return records_of(enumerate(rows, start=1), source)


def records_of(rows: Iterable[tuple[int, Any]], source: str) -> Iterator[Record | RecordError]:
    """Yield records made of numbered rows, and errors in the place of rows that JSON cannot say."""
    for number, row in rows:
        try:
            yield row if isinstance(row, RecordError) else Record.of(row, source, number)
        except RecordError as error:
            yield error
