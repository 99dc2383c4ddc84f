"""CSV, TSV, Parquet and Arrow files, row by row."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.streams import display_name, open_input

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_LABELS = ("correct", "quality")
_ROWS_AT_ONCE = 256
_MOST_BLANK = 1_000_000
_OTHERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What programs put between cells."""
ARROW = b"ARROW1"
"""How an Arrow file begins that is no stream."""


def csv_rows(path: str, delimiter: str, max_cell: int) -> Iterator[tuple[int, dict[str, Any] | RecordError]]:
    """Yield (line on which it begins, row by the names in the first row) of a CSV or TSV file in UTF-8, packed or not.

    Columns without a name before all others are an index that pandas wrote, and named as its ``reset_index`` does:
    ``index``, or ``level_0`` and so on. Cells are text, so that an id ``007`` stays one; an empty cell is null, and the
    labels ``correct`` and ``quality`` are what they spell.

    Args:
        path: the file.
        delimiter: what stands between cells.
        max_cell: the longest cell in bytes.

    Raises:
        TokurError: the file is no such table, or its first row does not name each column once, or has other signs
            between the names.
    """
    source, form = display_name(path), "TSV" if delimiter == "\t" else "CSV"
    csv.field_size_limit(max_cell)
    with open_input(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            names = _with_index(header)
            if len(set(names)) < len(names) or "" in names:
                raise TokurError(f"{source}:1: the first row names the columns, each by another name; it is {header}")
            other = next((sign for sign in _OTHERS if len(names) == 1 and sign != delimiter and sign in names[0]), None)
            if other:
                raise TokurError(
                    f"{source}:1: has the one column {names[0]!r}: {_OTHERS[other]} stand where a {form} file has "
                    f"{_OTHERS[delimiter]}; save it with these"
                )
            blank = 0
            while True:
                line = reader.line_num + 1
                cells = next(reader, None)
                if cells is None:
                    return
                blank = 0 if cells else blank + 1
                if blank > _MOST_BLANK:  # as in an archive of some kilobytes
                    raise TokurError(
                        f"{source}:{reader.line_num}: holds more than {_MOST_BLANK:,} blank lines in a row"
                    )
                if len(cells) == len(names):
                    yield line, {name: _value(name, cell) for name, cell in zip(names, cells, strict=True)}
                elif cells:
                    yield line, RecordError(f"has {len(cells)} cells, but the first row has {len(names)}", source, line)
        except csv.Error as error:
            raise TokurError(f"{source}:{reader.line_num}: is not {form}: {error}") from None
        except UnicodeDecodeError as error:  # found some lines ahead of the row that is read
            raise TokurError(f"{source}: is not UTF-8: it holds the byte 0x{error.object[error.start]:02x}") from None


def _value(name: str, cell: str) -> Any:
    if cell and name in _LABELS:
        try:
            return json.loads(cell.lower())
        except (ValueError, RecursionError):
            return cell
    return cell or None


def _with_index(names: list[str]) -> list[str]:
    """Return the names of the columns, those of an index included."""
    count = next((place for place, name in enumerate(names) if name), 0)
    index = ["index"] if count == 1 and "index" not in names else [f"level_{level}" for level in range(count)]
    return index + names[count:]


def parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file, a few hundred held at once."""

    def batches() -> Iterator[RecordBatch]:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            yield from file.iter_batches(_ROWS_AT_ONCE)

    return _rows_of_batches(path, "a Parquet file", "Parquet files", batches)


def arrow_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of an Arrow file, of either form: the one that is read out of order or the stream."""

    def batches() -> Iterator[RecordBatch]:
        from pyarrow import OSFile, ipc

        with OSFile(path) as file:
            head = file.read(len(ARROW))
            file.seek(0)
            if head == ARROW:
                with ipc.open_file(file) as reader:
                    yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
            else:
                with ipc.open_stream(file) as stream:
                    yield from stream

    return _rows_of_batches(path, "an Arrow file", "Arrow files", batches)


def _rows_of_batches(
    path: str, one: str, several: str, batches: Callable[[], Iterator[RecordBatch]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of batches, a few hundred as Python's objects at once."""
    try:
        from pyarrow import ArrowException
    except ImportError:
        raise TokurError(f"{path}: {several} need pyarrow: pip install 'tokur[data]'") from None
    with open_input(path):
        pass  # which says what is wrong with a file that cannot be opened
    try:
        for batch in batches():
            names = batch.schema.names
            if len(set(names)) < len(names):
                raise TokurError(f"{path}: several of its columns have the same name; they are {names}")
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield from batch.slice(start, _ROWS_AT_ONCE).to_pylist()
    except (ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise TokurError(f"{path}: is not {one} that can be read: {reason}") from None
