"""Fields named by the user: where question, response, reference and id stand in rows of no known format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.encoding import json_type
from tokur_cli.records.record import Record

_TYPES: dict[str, tuple[type, ...]] = {
    "question": (str, list),
    "response": (str, list),
    "reference": (str, bool, int, float, list, type(None)),
    "id": (str, int, type(None)),
}


@dataclass(frozen=True)
class FieldMapping:
    """Where to find fields, as dotted paths into the row: ``6b_finetuning.solution``, ``choices.0.text``.

    Each is the value of the option ``--NAME-field``; None leaves the field to the format.
    """

    question: str | None = None
    response: str | None = None
    reference: str | None = None
    id: str | None = None

    def apply(self, record: Record) -> Record:
        """Copy what the paths lead to into the record's fields; a value it had there goes under ``source``.

        A question is a string or a list of chat turns (which becomes ``messages``). A reference that is a number or a
        boolean is written as JSON spells it: 42 as ``"42"``, true as ``"true"``.
        """
        values = {name: _find(record, name, path) for name, path in vars(self).items() if path is not None}
        if isinstance(values.get("question"), list):
            values["messages"] = values.pop("question")
        elif "question" in values and record.get("messages") is not None:
            values["messages"] = None  # or it would be the prompt
        if isinstance(values.get("response"), list):  # it was split into its samples
            values["response"] = record.get("response")
        if "response" in values and record.token_ids is not None and record.get("response") != values["response"]:
            raise record.error('--response-field names another text than the one "tokur.token_ids" belongs to')
        from tokur_cli.records.formats.base import with_fields  # formats read fields by this module

        return with_fields(record, **values) if values else record


def value_at(fields: Mapping[str, Any], path: str) -> Any:
    """Return the value at the end of a dotted path into a record's fields; names may hold dots themselves.

    Raises:
        LookupError: the path leads nowhere; its argument is the first step that is missing.
    """
    value: Any = fields
    steps = path.split(".")
    while steps:
        count = 1
        if isinstance(value, list) and steps[0].isdecimal() and int(steps[0]) < len(value):
            value = value[int(steps[0])]
        elif isinstance(value, dict):
            count = next((count for count in range(len(steps), 0, -1) if ".".join(steps[:count]) in value), 0)
            if not count:
                raise LookupError(steps[0])
            value = value[".".join(steps[:count])]
        else:
            raise LookupError(steps[0])
        steps = steps[count:]
    return value


def _find(record: Record, name: str, path: str) -> Any:
    """Return the value at the end of a path, checked for what the field may be."""
    try:
        value = value_at(record.fields, path)
    except LookupError as error:
        raise record.error(f'--{name}-field {path}: there is no "{error}"') from None
    if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and bool not in _TYPES[name]):
        raise record.error(f"--{name}-field {path}: is {json_type(value)}")
    return json.dumps(value) if name == "reference" and isinstance(value, (bool, int, float)) else value
