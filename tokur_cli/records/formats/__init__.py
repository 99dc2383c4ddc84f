"""Rows as people have them: recognised by their fields and read as records."""

from __future__ import annotations

from typing import Any

from tokur_cli.records.formats import rows
from tokur_cli.records.formats.base import Fields, Format, has
from tokur_cli.records.formats.chat_api import COMPLETIONS
from tokur_cli.records.formats.everyday import SETTLED, VERDICTS
from tokur_cli.records.formats.inspect import INSPECT
from tokur_cli.records.formats.lm_eval import LM_EVAL
from tokur_cli.records.record import Record

_OF_ROWS = [form for form in vars(rows).values() if isinstance(form, Format)]  # in the order in which they stand there
FORMATS = {form.name: form for form in (rows.tokur, COMPLETIONS, LM_EVAL, INSPECT, *_OF_ROWS)}
"""Every format by name, for ``--format`` and its help; the first that recognises a stream's first row is taken."""


def recognise(fields: Fields) -> Format:
    """Return the format of rows with these fields; tokur's own if no other fits."""
    return next((form for form in FORMATS.values() if form.recognises(fields)), rows.tokur)


def maybe_references(record: Record) -> list[str]:
    """Return the fields that may hold the reference of a response that has neither one nor a verdict."""
    fields = record.copy(without=("tokur",)).fields
    is_answer = isinstance(fields.get("response"), str) and has(but=VERDICTS)(fields)
    is_log = isinstance(fields.get("source"), dict) or has("prompt", "messages")(fields)
    if fields.get("reference") is not None or not is_answer or is_log or recognise(fields) is not rows.tokur:
        return []
    return [
        name
        for name, value in fields.items()
        if name not in SETTLED and type(value) in (str, int, float, list) and value not in ("", [])
    ]


def verdicts_of(fields: Fields) -> dict[str, Any] | None:
    """Return what the program that wrote a row says of right and wrong, by the path to each; None where that failed."""
    for form in FORMATS.values():
        if form.verdicts and form.recognises(fields) and (said := form.verdicts(fields)) != {}:
            return said
    return {}
