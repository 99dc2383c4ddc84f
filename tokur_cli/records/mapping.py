"""Where the fields of rows stand and how records are given them; fields that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.prompt import split_messages
from tokur_cli.records.record import Record, as_text


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

        A question is a string or a list of chat turns (which becomes ``messages``). A reference becomes text.
        """
        values: dict[str, Any] = {}
        for name, path in vars(self).items():
            if path is None:
                continue
            try:
                value = value_at(record.fields, path)
            except LookupError as error:
                raise record.error(f'--{name}-field {path}: there is no "{error}"') from None
            values[name] = as_text(value) if name == "reference" else value
        if isinstance(values.get("question"), list):
            values["messages"] = values.pop("question")
        elif "question" in values:
            values["messages"] = None  # or they would be the prompt
        if values.get("response") and isinstance(values["response"], list):  # it was split into its samples
            values["response"] = record.get("response")
        if "response" in values and record.token_ids is not None and record.get("response") != values["response"]:
            raise record.error('--response-field names another text than the one "tokur.token_ids" belongs to')
        mapped = with_fields(record, **values) if values else record
        return with_answer(mapped) if "response" in values else mapped


def with_fields(record: Record, **fields: Any) -> Record:
    """Return a copy of a record with these fields; a different value that one of them had goes under ``source``.

    None takes a field away: one that is there becomes null, one that is not there stays away.
    """
    copy = record.copy()
    changed = {name: value for name, value in fields.items() if copy.get(name) != value}
    displaced = {name: copy.fields[name] for name in changed if copy.get(name) is not None}
    if displaced:
        copy.set("source", displaced | ({"source": copy.fields["source"]} if "source" in copy.fields else {}))
    for name, value in changed.items():
        copy.set(name, value)
    return copy


def with_answer(record: Record) -> Record:
    """Return a record of chat turns with the response that they end with; beside another one, that turn is left out."""
    turns, answer = split_messages(record) if isinstance(record.get("messages"), list) else ([], None)
    if record.get("response") is None:
        return record if answer is None else with_fields(record, response=answer)
    is_other = answer is None and turns != [] and turns[-1]["role"] == "assistant"
    return with_fields(record, messages=record.fields["messages"][:-1]) if is_other else record


def value_at(fields: Mapping[str, Any], path: str) -> Any:
    """Return the value at the end of a dotted path into a record's fields; names may hold dots themselves.

    Raises:
        LookupError: the path leads nowhere; its argument is the first step that is missing.
    """
    value: Any = fields
    steps = path.split(".")
    while steps:
        if isinstance(value, list):
            value = {str(index): item for index, item in enumerate(value)}
        counts = range(len(steps), 0, -1) if isinstance(value, dict) else ()
        count = next((count for count in counts if ".".join(steps[:count]) in value), 0)
        if not count:
            raise LookupError(steps[0])
        value, steps = value[".".join(steps[:count])], steps[count:]
    return value


def find_value(fields: Any, path: str, kind: type = object) -> Any:
    """Return the value at the end of a path where there is one of this type, else None."""
    with suppress(LookupError):
        value = value_at(fields, path)
        return value if isinstance(value, kind) else None
    return None
