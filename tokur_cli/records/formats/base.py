"""What the formats share: how one is declared, and how a row becomes a record."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import SCHEMA, Record

Items = Iterator[Record | RecordError]
"""Records, and for each bad row an error in its place."""
Note = Callable[[str], None]
"""Takes what is to be said of a stream."""


@dataclass(frozen=True)
class RequestFile:
    """A file of requests: its name, its records in whatever format they are, its rows as they stand there.

    ``counts`` tells how many rows and how many requests there are; None where that cannot be known beforehand.
    """

    name: str
    records: Callable[[], Items]
    rows: Callable[[], Items]
    counts: Callable[[], tuple[int, int] | None]


@dataclass(frozen=True)
class Given:
    """What is given beside a stream's rows to read them.

    Attributes:
        requests: the file of the requests that the rows answer.
        filter: which of a response's rows is read, where each filter wrote one.
        samples: the path of the list of samples that ``--response-field`` names.
        whole: whether a row of several samples is one record, its question.
        before: how many bad rows came before the first good one.
    """

    requests: RequestFile | None = None
    filter: str | None = None
    samples: str | None = None
    whole: bool = False
    before: int = 0


Container = Callable[[io.BufferedReader, str, int, Note], Iterator[tuple[str, int, bytes | None]]]
"""Reads a file of a format's own, by its stream, its name and the longest row in bytes.

Yields each row's name, its line and its JSON text, None for one that is too long."""


@dataclass(frozen=True)
class Format:
    """A way in which people have their rows: all that is particular to it, in one place.

    Attributes:
        name: what ``--format`` calls it.
        description: one line for the help text.
        recognises: whether rows with these fields are in this format.
        read: turns the rows of one stream, errors among them, into records with tokur's fields.
        takes_requests: whether the prompts may come from a second file.
        takes_filter: whether a response may have rows of several filters.
        verdicts: what a row's own program says of right and wrong, by the path to each; for rows of this format.
        failed: whether a row says that judging it failed, so that a verdict that is missing is null.
        logprobs: paths to the log-probabilities of its records, ``*`` for each of a list; ``logprobs`` reads them.
        containers: files of its own, each recognised by its first bytes.
    """

    name: str
    description: str
    recognises: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Items, Given, Note], Items]
    takes_requests: bool = False
    takes_filter: bool = False
    verdicts: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda fields: {}
    failed: Callable[[Mapping[str, Any]], bool] = lambda fields: False
    logprobs: tuple[str, ...] = ()
    containers: tuple[tuple[Callable[[bytes], bool], Container], ...] = ()


def each(rows: Items, form: str, adapt: Callable[[Record], Iterable[Record | RecordError]]) -> Items:
    """Yield what rows become; errors, and rows that tokur wrote, stay as they are.

    ``adapt`` takes a row for what it should be: where it lacks a field, or one is of another type, it is no such row.
    """
    for row in rows:
        if isinstance(row, RecordError) or isinstance(row.get("tokur"), dict):
            yield row
            continue
        try:
            yield from adapt(row)
        except RecordError as error:
            yield error
        except KeyError as error:
            yield row.error(f'is no {form} row: "{error.args[0]}" is missing')
        except (TypeError, ValueError, AttributeError, LookupError):
            yield row.error(f"is no {form} row: one of its fields is of another type")


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


def spelled(record: Record, name: str) -> Any:
    """Return a reference as text: a number or boolean as JSON spells it, anything else as it is."""
    value = record.get(name)
    return encode_value(value).decode() if isinstance(value, (bool, int, float)) else value


def whole_number(value: float) -> str:
    """Return a number as people write it: 51.0 is ``51``, 0.5 stays ``0.5``."""
    return str(int(value)) if isinstance(value, int) or value.is_integer() else json.dumps(value)


def dicts(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; none of what is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
