"""Rows as people have them: recognised by their fields and read as records."""

from __future__ import annotations

from typing import Any

from tokur_cli.records.formats import rows
from tokur_cli.records.formats.base import Fields, Format
from tokur_cli.records.formats.chat_api import COMPLETIONS
from tokur_cli.records.formats.inspect import inspect
from tokur_cli.records.formats.lm_eval import LM_EVAL

_OF_ROWS = [form for form in vars(rows).values() if isinstance(form, Format)]  # in the order in which they stand there
FORMATS = {form.name: form for form in (rows.tokur, COMPLETIONS, LM_EVAL, inspect, *_OF_ROWS)}
"""Every format by name, for ``--format`` and its help; the first that recognises a stream's first row is taken."""


def recognise(fields: Fields) -> Format | None:
    """Return the format of rows with these fields: tokur's own if no other fits; None where a call may have failed."""
    is_call = isinstance(said := fields.get("response"), dict) or (said is None and "request" in fields)
    return next((form for form in FORMATS.values() if form.recognises(fields)), None if is_call else rows.tokur)


def verdicts_of(fields: Fields) -> dict[str, Any] | None:
    """Return what the program that wrote a row says of right and wrong, by the path to each; None where that failed."""
    return next((form.verdicts(fields) for form in FORMATS.values() if form.verdicts and form.recognises(fields)), {})
