"""Records in: from any file, in any format, one at a time, errors included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from tokur_cli.records.containers import read_rows
from tokur_cli.records.errors import RecordError, UsageError, there_are
from tokur_cli.records.formats import FORMATS, NATIVE, Format, Given, recognise
from tokur_cli.records.formats.adapting import Note
from tokur_cli.records.formats.requests import RequestFile, Requests
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.published.rows import is_published, published_rows, records_of
from tokur_cli.records.record import Record
from tokur_cli.records.streams import MAX_LINE, STDIN, display_name, is_regular_file, open_input

AUTO = "auto"


def _unsaid(_: str) -> None:
    """Say nothing."""


def read_records(
    path: str,
    *,
    format: str = AUTO,
    mapping: FieldMapping = FieldMapping(),  # noqa: B008 - immutable
    requests: str | None = None,
    filter: str | None = None,
    max_line: int = MAX_LINE,
    note: Note = _unsaid,
) -> Iterator[Record | RecordError]:
    """Read records one at a time.

    A row that tokur wrote (it has a ``tokur`` object) is taken as it is in every format.

    Args:
        path: a file's name, or one that ``published_rows`` takes; ``-`` is standard input.
        format: a name from ``FORMATS``; ``auto`` goes by the first row's fields.
        mapping: where fields stand that the format does not tell.
        requests: the file of the requests that the rows answer, for formats that keep the prompts there.
        filter: the filter whose rows are read, for formats that have a row for each of several.
        max_line: the longest row in bytes; a longer one is an error in its place.
        note: called with what is to be said of the input, such as rows that were passed over.

    Yields:
        Records, and for each bad row an error in its place, so that one bad row never ends the stream.

    Raises:
        UsageError: there is no such format; while iterating: the format takes no requests, or has no such filter.
        TokurError: while iterating: a file as a whole cannot be read.
    """
    if format != AUTO and format not in FORMATS:
        raise UsageError(f"--format {format}: there is no such format{there_are([AUTO, *FORMATS], format)}")
    if requests == path == STDIN:
        raise UsageError("records and --requests cannot both be read from standard input")

    def read() -> Iterator[Record | RecordError]:
        with ExitStack() as stack:
            asked = None if requests is None else _request_file(requests, path, max_line, stack)
            rows = _rows_of(path, max_line, stack, lambda words: note(f"{display_name(path)}: {words}"))
            given = Given(asked, filter)
            yield from _adapted(rows, display_name(path), FORMATS.get(format), mapping, given, note)

    return read()


def read_rows_of(rows: Iterable[Any], source: str, note: Note = _unsaid) -> Iterator[Record | RecordError]:
    """Read records as :func:`read_records` does, from rows of Python."""
    return _adapted(records_of(enumerate(rows, start=1), source), source, None, FieldMapping(), Given(), note)


def _rows_of(path: str, max_line: int, stack: ExitStack, note: Note = _unsaid) -> Iterator[Record | RecordError]:
    """Yield a file's rows as they stand there."""
    if is_published(path):
        return published_rows(path, max_line)
    return read_rows(stack.enter_context(open_input(path)), display_name(path), max_line, note)


def _request_file(path: str, answers: str, max_line: int, stack: ExitStack) -> RequestFile:
    """Return the file of the requests that the rows of another one, ``answers``, are to be joined with."""

    def count(name: str) -> int:
        with ExitStack() as closing:
            return sum(1 for _ in _rows_of(name, max_line, closing))

    return RequestFile(
        display_name(path),
        by_id=lambda: stack.enter_context(Requests.open(path, max_line)),
        in_order=lambda: read_records(path, max_line=max_line),
        counts=lambda: (count(answers), count(path)) if is_regular_file(answers) and is_regular_file(path) else None,
    )


def _adapted(
    rows: Iterable[Record | RecordError],
    source: str,
    form: Format | None,
    mapping: FieldMapping,
    given: Given,
    note: Note,
) -> Iterator[Record | RecordError]:
    adapter, is_mapped, count = None, mapping != FieldMapping(), 0
    for position, row in enumerate(rows):
        count += 1
        if isinstance(row, RecordError):
            yield row
            continue
        if adapter is None:
            form = form or recognise(row.fields)
            _check_given(form, given, source)
            adapter = form.new_adapter(given)
        try:
            is_native = form is NATIVE or NATIVE.recognises(row.fields)
            for record in [row] if is_native else adapter.read(row, position):
                yield _mapped(record, mapping) if is_mapped else record
        except RecordError as error:
            yield error
    for words in adapter.finish(count) if adapter else ():
        note(f"{source}: {words}")


def _check_given(form: Format, given: Given, source: str) -> None:
    """Refuse what rows of this format have no use for."""
    if given.requests is not None and not form.takes_requests:
        raise UsageError(f"--requests: {source} is in the format {form.name}, which has its own prompts")
    if given.filter is not None and not form.takes_filter:
        raise UsageError(f"--filter: {source} is in the format {form.name}, whose rows are of no filters")


def _mapped(record: Record | RecordError, mapping: FieldMapping) -> Record | RecordError:
    try:
        return record if isinstance(record, RecordError) else mapping.apply(record)
    except RecordError as error:
        return error
