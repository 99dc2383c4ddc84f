"""Records in: from any file, in any format, one at a time, errors included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

from tokur_cli.records.errors import RecordError, UsageError, there_are
from tokur_cli.records.formats import FORMATS, recognise
from tokur_cli.records.formats.base import GOLD, MAYBE_GOLD, Format, Given, Items, Note, complete
from tokur_cli.records.formats.chat_api import COMPLETIONS
from tokur_cli.records.formats.inspect import LOG, read_log
from tokur_cli.records.mapping import FieldMapping, with_fields
from tokur_cli.records.published import published_rows
from tokur_cli.records.record import Record
from tokur_cli.records.streams import BOM, MAX_LINE, STDIN, display_name, elements, file_id, lines, open_input

AUTO = "auto"
# An array, or an object of rows by their numbers, as OpenCompass writes; objects of several lines
_ROWS = re.compile(rb'\s*(\[\s*(\{|\Z|\]\s*\Z)|\{\s*"\d+"\s*:\s*\{)')
_OBJECTS = re.compile(rb'\s*\{\s*\n\s*"')


def read_records(
    path: str,
    *,
    format: str = AUTO,
    mapping: FieldMapping = FieldMapping(),  # noqa: B008 - immutable
    requests: str | None = None,
    filter: str | None = None,
    whole: bool = False,
    max_line: int = MAX_LINE,
    note: Note = lambda _: None,
) -> Items:
    """Read records one at a time, and for each bad row an error in its place, so that one never ends the stream.

    A row that tokur wrote (it has a ``tokur`` object) is taken as it is in every format.

    Args:
        path: a file's name, or one that ``published_rows`` takes; ``-`` is standard input.
        format: a name from ``FORMATS``; ``auto`` goes by the fields of the first row that is no failed call.
        mapping: where fields stand that the format does not tell.
        requests: the file of the requests that the rows answer, for formats that keep the prompts there.
        filter: the filter whose rows are read, for formats that have a row for each of several.
        whole: whether a row that holds a list of samples is one record, its question.
        max_line: the longest row in bytes; a longer one is an error in its place.
        note: called with what is to be said of the input, such as rows that were passed over.

    Raises:
        UsageError: there is no such format; while iterating: the format takes no requests, or has no such filter.
        TokurError: while iterating: a file as a whole cannot be read.
    """
    if format != AUTO and format not in FORMATS:
        raise UsageError(f"--format {format}: there is no such format{there_are([AUTO, *FORMATS], format)}")
    if requests == path == STDIN:
        raise UsageError("records and --requests cannot both be read from standard input")
    asked = None if requests is None else read_records(requests, max_line=max_line)
    again = read_rows(path, max_line) if path != STDIN and file_id(path) is not None else None
    given = Given(asked, again, filter, whole=whole)
    return _adapted(read_rows(path, max_line, note), display_name(path), FORMATS.get(format), mapping, given, note)


def read_rows_of(rows: Iterable[Any], source: str, note: Note = lambda _: None, *, whole: bool = False) -> Items:
    """Read records as :func:`read_records` does, from rows of Python."""
    records = (_made(partial(Record.parse, source=source, number=n), row) for n, row in enumerate(rows, start=1))
    return _adapted(records, source, None, FieldMapping(), Given(whole=whole), note)


def read_rows(path: str, max_line: int = MAX_LINE, note: Note = lambda _: None) -> Items:
    """Read a file's rows, whatever way it holds them: lines, an array's or an object's values, what a format has.

    Raises:
        TokurError: the file as a whole cannot be read.
    """
    if (published := published_rows(path, max_line)) is not None:
        yield from (_made(partial(Record.parse, source=path, number=number), row) for number, row in published)
        return
    source = display_name(path)
    with open_input(path) as stream:
        head = stream.peek(1).removeprefix(BOM)
        if LOG.match(head):
            rows = read_log(stream, source, max_line, note)
        elif is_whole := _ROWS.match(head) or _OBJECTS.match(head):
            rows = elements(stream, source, (None,) if is_whole.re is _ROWS else (), max_line)
        else:
            rows = lines(stream, source, max_line)
        too_long = f"is longer than {max_line / 1e6:g} MB: raise --set max_line to read it"
        for name, line, text in rows:
            row = RecordError(too_long, name, line) if text is None else text
            yield _made(partial(Record.parse, source=name, number=line), row)


def _made(make: Callable[[Any], Record], row: Any) -> Record | RecordError:
    """Return the record that is made of a row, or an error in its place."""
    try:
        return row if isinstance(row, RecordError) else make(row)
    except RecordError as error:
        return error


def _renamed(name: str, record: Record) -> Record:
    """Return a record with a field that is its response."""
    renamed = FieldMapping(response=name).apply(record).copy(without=(name,))
    return with_fields(renamed, response=record.fields[name])


def _adapted(rows: Items, source: str, form: Format | None, mapping: FieldMapping, given: Given, note: Note) -> Items:
    """Yield what rows become, in the format of the first good one where none is given."""
    if mapping.response in (*GOLD, *MAYBE_GOLD):  # no reference then, for the format neither
        rows = map(partial(_made, partial(_renamed, mapping.response)), rows)
        mapping = replace(mapping, response="response")
    bad = 0
    for row in rows:
        if isinstance(row, Record):
            break
        yield row
        bad += 1
    else:
        return
    first: list[Record | RecordError] = [row]
    form = form or recognise(row.fields)
    for row in islice(rows, 0 if form else 100):
        first.append(row)
        if isinstance(row, Record) and (form := recognise(row.fields)):
            break
    form = form or FORMATS["tokur"]
    if given.requests is not None and form is not COMPLETIONS:
        raise UsageError(f"--requests: {source} is in the format {form.name}, which has its own prompts")
    given = replace(given, samples=mapping.response, before=bad, note=lambda words: note(f"{source}: {words}"))
    yield from map(partial(_made, lambda record: complete(mapping.apply(record))), form.read(chain(first, rows), given))
