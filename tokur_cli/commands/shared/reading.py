"""The records that a command reads; the first good one is looked at before a model is loaded for all of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import say
from tokur_cli.records.errors import RecordError
from tokur_cli.records.formats import FORMATS, recognise
from tokur_cli.records.formats.base import has
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.prompt import other_fields
from tokur_cli.records.reader import read_records, read_rows_of
from tokur_cli.records.record import LABELS, Record

BUSY = threading.RLock()  # held by the one thread that loads a model or computes: two would be in each other's way
_LOOKED_AT = 20  # records, before it is said that none has a reference
_WITH_REFERENCES = ("score", "select", "evaluate")


def read_input(command: str, source: InputOptions, *, is_labelled: bool = False) -> Iterator[Record | RecordError]:
    """Read the records of a command's input; what is to be said of it goes to standard error.

    ``is_labelled``: whether a field of the records is named that says which are correct.
    """
    if source.asked is not None:
        return read_rows_of([{"question": source.asked}], "--question")
    name, _, filter = source.format.partition(":")
    has_filter = name == "lm-eval" and filter != ""
    items = read_records(
        source.path,
        format=name if has_filter else source.format,
        mapping=FieldMapping(source.question_field, source.response_field, source.reference_field, source.id_field),
        requests=source.requests,
        filter=filter if has_filter else None,
        whole=command == "generate",
        max_line=source.max_line * 10**6,
        note=partial(say, command),
    )
    items = items if source.limit is None else _first(items, source.limit)
    return _noticing(command, items) if command in _WITH_REFERENCES and not is_labelled else items


def _noticing(command: str, items: Iterator[Record | RecordError]) -> Iterator[Record | RecordError]:
    """Yield the items; say once that none of the first records has a reference, where fields may be it."""
    others, left = "", _LOOKED_AT
    for item in items:
        if left and isinstance(item, Record):
            others = _other_references(item)
            others += "; --label-field, one that says right or wrong" if others and command != "score" else ""
            left = left - 1 if others else 0
            if others and not left:
                say(command, f"no record has a reference{others}")
        yield item
    if others and left:
        say(command, f"no record has a reference{others}")


def _other_references(record: Record) -> str:
    """Return in words which fields may hold the reference of a response that has neither one nor a verdict."""
    fields = record.copy(without=("tokur",)).fields
    is_unlabelled = has("question", "response", but=("reference", "prompt", "messages", *LABELS))(fields)
    return other_fields("reference", fields) if is_unlabelled and recognise(fields) is FORMATS["tokur"] else ""


def _first(items: Iterator[Record | RecordError], count: int) -> Iterator[Record | RecordError]:
    """Yield the first items, and those that come of the last one's row."""
    place = None
    for number, item in enumerate(items):
        if number >= count and (item.source, item.line) != place:
            return
        yield item
        place = item.source, item.line


def waited_for(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield rows to a thread that computes; others may compute while it waits for the next one."""
    source = iter(rows)
    while True:
        BUSY.release()
        try:
            row = next(source, BUSY)
        finally:
            BUSY.acquire()
        if row is BUSY:
            return
        yield row


def look_ahead(
    items: Iterator[Record | RecordError], *needed: str, skip_invalid: bool
) -> tuple[Iterator[Record | RecordError], Record | None]:
    """Return the same stream, and its first good record; None if it has none, so that no model is needed.

    A good record has what is needed, the names of its attributes; in the stream, those before the first are errors.
    """
    bad: list[RecordError] = []
    for item in items:
        try:
            if isinstance(item, RecordError):
                raise item
            for name in needed:
                getattr(item, name)
        except RecordError as error:
            if not skip_invalid:
                raise
            bad.append(error)
        else:
            return itertools.chain(bad, [item], items), item
    return iter(bad), None
