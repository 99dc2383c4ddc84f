"""What the formats share: how one is declared, and how a row becomes a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import SCHEMA, Record

Items = Iterator[Record | RecordError]
"""Records, and for each bad row an error in its place."""
Note = Callable[[str], None]
"""Takes what is to be said of a stream."""
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Given:
    """What is given beside a stream's rows to read them."""

    requests: Items | None = None  # of the file that holds the requests, in whatever format they are
    count_rows: Callable[[], int | None] = lambda: None  # None where it cannot be known how many there are
    filter: str | None = None  # which of a response's rows is read, where each filter wrote one
    samples: str | None = None  # the path of the list of samples that --response-field names
    whole: bool = False  # whether a row of several samples is one record, its question
    before: int = 0  # how many bad rows came before the first good one
    note: Note = lambda _: None  # called with what is to be said of the stream


@dataclass(frozen=True)
class Format:
    """A way in which people have their rows: all that is particular to it, in one place.

    ``read`` turns the rows of one stream, errors among them, into records with tokur's fields. ``verdicts`` are what a
    row's own program says of right and wrong, by the path to each; None where judging it failed.
    """

    name: str
    recognises: Callable[[Fields], bool]
    read: Callable[[Items, Given], Items]
    verdicts: Callable[[Fields], dict[str, Any] | None] | None = None


def has(*names: str, but: Iterable[str] = ()) -> Callable[[Fields], bool]:
    """Return what recognises rows that have all of these fields, but none of some others."""
    needed = frozenset(names)
    return lambda fields: fields.keys() >= needed and fields.keys().isdisjoint(but)


def adapt_rows(
    rows: Iterable[Record | RecordError], form: str, adapt: Callable[[Record], Iterable[Record | RecordError]]
) -> Items:
    """Yield what rows become; an error, and a row that tokur wrote, stays as it is.

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
            yield row.error(f"is no {form} row: one of its fields is not what it must be")


def with_tokur(record: Record, **values: Any) -> Record:
    """Return the same record, its ``tokur`` object holding these values; those that are None are left out."""
    record.set("tokur", {"schema": SCHEMA} | {name: value for name, value in values.items() if value is not None})
    return record


def add_label(record: Record, value: Any) -> None:
    """Label a record by what its own program says: right or wrong, or something in between; null where that failed."""
    record.set("correct" if value is None or isinstance(value, bool) else "quality", value)


def dicts(value: Any, form: str | None = None) -> list[dict[str, Any]]:
    """Return the objects in a list, of one ``type`` if one is given; none of what is no list."""
    objects = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return [item for item in objects if form in (None, item.get("type"))]


def digest(*values: Any) -> bytes:
    """Return what tells JSON values from others, in 8 bytes."""
    return blake2b(encode_value(values), digest_size=8).digest()
