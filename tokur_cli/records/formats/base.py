"""What the adapters of foreign formats share."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.encoding import encode_value, json_type
from tokur_cli.records.errors import RecordError
from tokur_cli.records.formats.requests import RequestFile
from tokur_cli.records.record import SCHEMA, Record

Adapt = Callable[[Record], Iterator["Record | RecordError"]]
"""Turns a row into records with tokur's fields; raises RecordError for a row that does not fit the format."""


Note = Callable[[str], None]
"""Takes what is to be said of a stream."""


@dataclass(frozen=True)
class Given:
    """What is given beside a stream's rows to read them.

    Attributes:
        requests: the file of the requests that the rows answer.
        filter: which of a response's rows is read, where each filter wrote one.
    """

    requests: RequestFile | None = None
    filter: str | None = None


class Adapter:
    """Turns the rows of one stream into records with tokur's fields: each by ``adapt``, unless there is more to it."""

    def __init__(self, adapt: Adapt) -> None:
        self._adapt = adapt

    def read(self, row: Record, position: int) -> Iterator[Record | RecordError]:
        """Yield what a row becomes.

        Args:
            row: the row.
            position: how many rows were before it, bad ones included.

        Raises:
            RecordError: the row does not fit the format.
        """
        return self._adapt(row)

    def finish(self, count: int) -> Iterator[str]:
        """Yield what is to be said of the stream, once all of its ``count`` rows were read.

        Raises:
            TokurError: its rows were not what was asked for.
        """
        return iter(())


@dataclass(frozen=True)
class Container:
    """A file that holds a format's rows otherwise than as JSON lines or as a JSON array.

    Attributes:
        recognises: whether a file is one, by its first bytes.
        rows: reads a stream, with its name for messages, the longest row in bytes, and whom to tell what is to be said
            of the file: yields each row's name, its line and its JSON text on one line, None for one that is too long.
    """

    recognises: Callable[[bytes], bool]
    rows: Callable[[io.BufferedReader, str, int, Note], Iterator[tuple[str, int, bytes | None]]]


@dataclass(frozen=True)
class Format:
    """A way in which people have their rows: all that is particular to it, in one place.

    Attributes:
        name: what ``--format`` calls it.
        description: one line for the help text.
        recognises: whether rows with these fields are in this format.
        new_adapter: makes the adapter for one stream.
        takes_requests: whether the prompts may come from a second file.
        takes_filter: whether a response may have rows of several filters.
        verdicts: what a row's own program says of right and wrong, by the path to each; for rows of this format.
        failed: whether a row says that judging it failed, so that a verdict that is missing is null.
        logprobs: paths to the log-probabilities of its records, ``*`` for each of a list; ``logprobs`` reads them.
        containers: the files of its own in which such rows come.
        without_prompt: what to say of a record that has no prompt; an empty text of one that is not of this format.
        holds_samples: whether a row may hold a list of responses, each read as if it stood in a row of its own.
    """

    name: str
    description: str
    recognises: Callable[[Mapping[str, Any]], bool]
    new_adapter: Callable[[Given], Adapter]
    takes_requests: bool = False
    takes_filter: bool = False
    verdicts: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda fields: {}
    failed: Callable[[Mapping[str, Any]], bool] = lambda fields: False
    logprobs: tuple[str, ...] = ()
    containers: tuple[Container, ...] = ()
    without_prompt: Callable[[Mapping[str, Any]], str] = lambda fields: ""
    holds_samples: bool = False


def row_format(
    name: str,
    description: str,
    recognises: Callable[[Mapping[str, Any]], bool],
    adapt: Callable[[Record], Record],
    **more: Any,
) -> Format:
    """Return a format in which every row is one record and says all there is to know.

    A row with one verdict is labelled by it, and one whose judging failed has the label null, whatever others say.
    """

    def adapter(row: Record) -> Iterator[Record | RecordError]:
        yield labelled_by_row(form, row, adapt(row))

    form = Format(name, description, recognises, lambda given: Adapter(adapter), holds_samples=True, **more)
    return form


def labelled_by_row(form: Format, row: Record, record: Record) -> Record:
    """Return the record of a row, labelled by the row's only verdict; null where judging it failed."""
    said = [None] if form.failed(row.fields) else list(form.verdicts(row.fields).values())
    if len(said) == 1:
        add_label(record, said[0])
    return record


def with_fields(record: Record, **fields: Any) -> Record:
    """Return a copy of a record with these fields; a different value that one of them had goes under ``source``.

    None takes a field away: one that is there becomes null, one that is not there stays away.
    """
    copy = record.copy()
    changed = {name: value for name, value in fields.items() if copy.get(name) != value}
    displaced = {name: copy.fields[name] for name in changed if copy.get(name) is not None}
    if displaced:
        if "source" in copy.fields:
            displaced["source"] = copy.fields["source"]
        copy.set("source", displaced)
    for name, value in changed.items():
        copy.set(name, value)
    return copy


def with_tokur(record: Record, **values: Any) -> Record:
    """Return the same record, its ``tokur`` object holding these values; those that are None are left out."""
    known = {name: value for name, value in values.items() if value is not None}
    record.set("tokur", {"schema": SCHEMA, **known})
    return record


def add_label(record: Record, value: Any) -> None:
    """Label a record by what its own program says: right or wrong, or something in between; null where that failed."""
    record.set("correct" if value is None or isinstance(value, bool) else "quality", value)


def required(record: Record, name: str, form: str, *types: type) -> Any:
    """Return a row's field of one of these types."""
    if name not in record.fields:
        raise record.error(f'is not {article(form)} row: "{name}" is missing')
    return typed(record, f'"{name}"', record.fields[name], form, *types)


def article(form: str) -> str:
    """Return a format's name with its article."""
    return f"{'an' if form[0] in 'aeio' or form.startswith('lm') else 'a'} {form}"


def typed(record: Record, what: str, value: Any, form: str, *types: type) -> Any:
    """Return the value if it is of one of these types."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise record.error(f"is not {article(form)} row: {what} is {json_type(value)}")
    return value


def spelled(record: Record, name: str) -> Any:
    """Return a reference as text: a number or boolean as JSON spells it, anything else as it is."""
    value = record.get(name)
    return encode_value(value).decode() if isinstance(value, (bool, int, float)) else value


def whole_number(value: float) -> str:
    """Return a number as people write it: 51.0 is ``51``, 0.5 stays ``0.5``."""
    return str(int(value)) if isinstance(value, int) or value.is_integer() else json.dumps(value)
