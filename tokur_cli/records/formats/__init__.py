"""Rows as people have them: recognised by their fields and read as records."""

from __future__ import annotations

from typing import Any

from tokur_cli.records.formats import rows
from tokur_cli.records.formats.base import Fields, Format, has
from tokur_cli.records.formats.chat_api import COMPLETIONS
from tokur_cli.records.formats.inspect import inspect
from tokur_cli.records.formats.lm_eval import LM_EVAL
from tokur_cli.records.prompt import other_fields
from tokur_cli.records.record import LABELS, Record

_OF_ROWS = [form for form in vars(rows).values() if isinstance(form, Format)]  # in the order in which they stand there
FORMATS = {form.name: form for form in (rows.tokur, COMPLETIONS, LM_EVAL, inspect, *_OF_ROWS)}
"""Every format by name, for ``--format`` and its help; the first that recognises a stream's first row is taken."""


def recognise(fields: Fields) -> Format:
    """Return the format of rows with these fields; tokur's own if no other fits."""
    return next((form for form in FORMATS.values() if form.recognises(fields)), rows.tokur)


def other_references(record: Record) -> str:
    """Return in words which fields may hold the reference of a response that has neither one nor a verdict."""
    fields = record.copy(without=("tokur",)).fields
    is_unlabelled = has("question", "response", but=("reference", "prompt", "messages", *LABELS))(fields)
    return other_fields("reference", fields) if is_unlabelled and recognise(fields) is rows.tokur else ""


def verdicts_of(fields: Fields) -> dict[str, Any] | None:
    """Return what the program that wrote a row says of right and wrong, by the path to each; None where that failed."""
    return next((form.verdicts(fields) for form in FORMATS.values() if form.verdicts and form.recognises(fields)), {})
