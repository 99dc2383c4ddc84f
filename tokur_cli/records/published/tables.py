"""CSV and Parquet files, row by row."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.streams import display_name, open_input

_LABELS = ("correct", "quality")
_ROWS_AT_ONCE = 256


def csv_rows(path: str, max_cell: int) -> Iterator[tuple[int, dict[str, Any] | RecordError]]:
    """Yield (line on which it begins, row by the names in the first row) of a CSV file in UTF-8, packed or not.

    Cells are text, so that an id ``007`` stays one; an empty cell is null, and the labels ``correct`` and ``quality``
    are what they spell.

    Args:
        path: the file.
        max_cell: the longest cell in bytes.

    Raises:
        TokurError: the file is not CSV, or its first row does not name each column once.
    """
    source = display_name(path)
    csv.field_size_limit(max_cell)
    with open_input(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            names = next(reader, [])
            if len(set(names)) < len(names) or "" in names:
                raise TokurError(f"{source}:1: the first row names the columns, each by another name; it is {names}")
            while True:
                line = reader.line_num + 1
                cells = next(reader, None)
                if cells is None:
                    return
                if len(cells) == len(names):
                    yield line, {name: _value(name, cell) for name, cell in zip(names, cells, strict=True)}
                elif cells:
                    yield line, RecordError(f"has {len(cells)} cells, but the first row has {len(names)}", source, line)
        except csv.Error as error:
            raise TokurError(f"{source}:{reader.line_num}: is not CSV: {error}") from None
        except UnicodeDecodeError as error:  # found some lines ahead of the row that is read
            raise TokurError(f"{source}: is not UTF-8: it holds the byte 0x{error.object[error.start]:02x}") from None


def _value(name: str, cell: str) -> Any:
    if cell and name in _LABELS:
        try:
            return json.loads(cell.lower())
        except (ValueError, RecursionError):
            return cell
    return cell or None


def parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file, a few hundred held at once.

    Raises:
        TokurError: it cannot be read, or pyarrow is missing.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise TokurError(f"{path}: Parquet files need pyarrow: pip install 'tokur[data]'") from None
    with open_input(path):
        pass  # which says what is wrong with a file that cannot be opened
    try:
        with ParquetFile(path) as file:
            names = file.schema_arrow.names
            if len(set(names)) < len(names):
                raise TokurError(f"{path}: several of its columns have the same name; they are {names}")
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise TokurError(f"{path}: is not a Parquet file that can be read: {reason}") from None
