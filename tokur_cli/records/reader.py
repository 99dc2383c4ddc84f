"""Records in: from any file, in any format, one at a time, errors included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from tokur_cli.records.containers import read_rows
from tokur_cli.records.errors import RecordError, UsageError, there_are
from tokur_cli.records.formats import FORMATS, NATIVE, Format, recognise
from tokur_cli.records.formats.requests import Requests
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.published.rows import is_published, published_rows
from tokur_cli.records.record import Record
from tokur_cli.records.streams import MAX_LINE, STDIN, display_name, open_input

AUTO = "auto"


def read_records(
    path: str,
    *,
    format: str = AUTO,
    mapping: FieldMapping = FieldMapping(),  # noqa: B008 - immutable
    requests: str | None = None,
    max_line: int = MAX_LINE,
) -> Iterator[Record | RecordError]:
    """Read records one at a time.

    A row that tokur wrote (it has a ``tokur`` object) is taken as it is in every format.

    Args:
        path: a file's name, or one that ``published_rows`` takes; ``-`` is standard input.
        format: a name from ``FORMATS``; ``auto`` goes by the first row's fields.
        mapping: where fields stand that the format does not tell.
        requests: the file of a batch's requests, for formats that keep the prompts there.
        max_line: the longest row in bytes; a longer one is an error in its place.

    Yields:
        Records, and for each bad row an error in its place, so that one bad row never ends the stream.

    Raises:
        UsageError: there is no such format, or the format takes no requests.
        TokurError: while iterating: a file as a whole cannot be read.
    """
    if format != AUTO and format not in FORMATS:
        raise UsageError(f"--format {format}: there is no such format{there_are([AUTO, *FORMATS], format)}")
    if requests == path == STDIN:
        raise UsageError("records and --requests cannot both be read from standard input")
    return _read(path, FORMATS.get(format), mapping, requests, max_line)


def read_rows_of(rows: Iterable[Any], source: str) -> Iterator[Record | RecordError]:
    """Read records as :func:`read_records` does, from rows of Python.

    Args:
        rows: objects as ``json`` would return them.
        source: what stands before the number of a bad one in its error.
    """
    records = (_record_of(row, source, number) for number, row in enumerate(rows, start=1))
    return _adapted(records, source, None, FieldMapping(), None)


def _record_of(row: Any, source: str, number: int) -> Record | RecordError:
    try:
        return Record.of(row, source, number)
    except RecordError as error:
        return error


def _read(
    path: str, form: Format | None, mapping: FieldMapping, requests_path: str | None, max_line: int
) -> Iterator[Record | RecordError]:
    source = display_name(path)
    with ExitStack() as stack:
        requests = None
        if requests_path is not None:
            requests = stack.enter_context(Requests.open(requests_path, max_line))
        if is_published(path):
            rows = published_rows(path, max_line)
        else:
            rows = read_rows(stack.enter_context(open_input(path)), source, max_line)
        yield from _adapted(rows, source, form, mapping, requests)


def _adapted(
    rows: Iterable[Record | RecordError],
    source: str,
    form: Format | None,
    mapping: FieldMapping,
    requests: Requests | None,
) -> Iterator[Record | RecordError]:
    adapt, is_mapped = None, mapping != FieldMapping()
    for row in rows:
        if isinstance(row, RecordError):
            yield row
            continue
        if adapt is None:
            form = form or recognise(row.fields)
            if requests is not None and not form.takes_requests:
                raise UsageError(f"--requests: {source} is in the format {form.name}, which has its own prompts")
            adapt = form.new_adapter(requests)
        try:
            for record in [row] if form is NATIVE or NATIVE.recognises(row.fields) else adapt(row):
                yield _mapped(record, mapping) if is_mapped else record
        except RecordError as error:
            yield error


def _mapped(record: Record | RecordError, mapping: FieldMapping) -> Record | RecordError:
    try:
        return record if isinstance(record, RecordError) else mapping.apply(record)
    except RecordError as error:
        return error
