"""One record: a JSON object with what each field means, and how it was made: settings, and their one comparison."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.encoding import encode_value, json_type, parse_json
from tokur_cli.records.errors import RecordError
from tokur_cli.records.prompt import Prompt, is_bytes, other_fields, read_tools, split_messages

SCHEMA = 1  # the version of the ``tokur`` object that this code reads and writes
LABELS = ("correct", "is_correct", "quality")  # fields that say how right a response is, the first there is
UNSAID = {"base": None, "base_revision": None, "quantize": None, "backend": "transformers"}  # said if otherwise
# What of ``tokur.run`` has to do with draws
DRAW_SETTINGS = ("rank", "sigma", "draws", "sampling", "estimator", "targets", "layers", "seed")


@dataclass(slots=True, eq=False)
class Record:
    """One JSON object of a stream, with its place.

    Fields that nothing sets keep their values and their order. Whatever reads a field raises a RecordError, with the
    record's place, where the field is not what it must be.
    """

    fields: dict[str, Any]  # the values by name; read it, and change fields with ``set``
    source: str | None = None  # the file's name as the user gave it, ``<stdin>`` for standard input
    line: int | None = None  # the line's number in that file, from 1
    size: int = 0  # how long the text is that it was read from, in bytes

    @classmethod
    def parse(cls, row: Any, source: str | None, number: int | None) -> Record:
        """Read one line of JSON (bytes), or a row that was never JSON text; raise a RecordError if it is no object."""
        try:
            line = row if isinstance(row, bytes) else encode_value(row)
            if not isinstance(fields := parse_json(line), dict):
                raise TypeError(f"is {json_type(fields)}, not a JSON object")
            return cls(fields, source, number, len(line))
        except (TypeError, ValueError, RecursionError) as error:
            raise RecordError(str(error), source, number) from None

    def copy(self, without: Collection[str] = ()) -> Record:
        """Return a record of its own with the same place and fields, but for some."""
        return Record({k: v for k, v in self.fields.items() if k not in without}, self.source, self.line, self.size)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a field, or the default."""
        return self.fields.get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Give a field a value: in place if it is there, else at the end, but before ``tokur``."""
        is_new = name not in self.fields
        self.fields[name] = value
        if is_new and "tokur" in self.fields:
            self.fields["tokur"] = self.fields.pop("tokur")

    def encode(self) -> bytes:
        """Return the record as one line of JSON, without the line end."""
        try:
            return encode_value(self.fields)
        except (TypeError, RecursionError) as error:
            raise self.error(str(error)) from None

    def identity(self, *computed: str) -> bytes:
        """Return what tells the record from others: all values but ``tokur`` and other computed fields."""
        return encode_value(self.copy(without=("tokur", *computed)).fields, sort_keys=True)

    def error(self, message: str) -> RecordError:
        """Return an error about this record, with its place."""
        return RecordError(message, self.source, self.line)

    def text(self, name: str) -> str:
        """Return the field as a string that can be tokenized and printed."""
        if name not in self.fields:
            raise self.error(f'"{name}" is missing')
        return self.checked_text(name, self.fields[name])

    def checked_text(self, what: str, value: Any) -> str:
        """Return the value if it is text that can be tokenized and printed; ``what`` names it in the error."""
        if not isinstance(value, str):
            raise self.error(f'"{what}" is {json_type(value)}, not a string')
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:  # a lone surrogate
            raise self.error(f'"{what}" is no UTF-8 at character {error.start + 1}') from None
        return value

    def number(self, what: str, value: Any) -> float | None:
        """Return a number as a float; None for null and for what is too large for one; ``what`` names it in errors."""
        if type(value) not in (int, float, type(None)):
            raise self.error(f"{what} is {json_type(value)}, not a number")
        return float(value) if value is not None and abs(value) <= sys.float_info.max else None

    @property
    def id(self) -> str | None:
        """The record's id; an integer as its decimal digits."""
        value = self.fields.get("id")
        if type(value) is int or (isinstance(value, float) and value.is_integer()):  # from a column with gaps in pandas
            return str(int(value))
        return None if value is None else self.checked_text("id", value)

    @property
    def references(self) -> list[str]:
        """The gold answers, any of which is right, see ``as_text``."""
        value = self.fields.get("reference")
        values = value if isinstance(value, list) else [] if value is None else [value]
        return [self.checked_text("reference", as_text(one)) for one in values]

    @property
    def reference(self) -> str | None:
        """The gold answer to be shown: of several, all with ``or`` between them."""
        return " or ".join(self.references) or None

    @property
    def response(self) -> str:
        """The response's text: the field ``response``, else the assistant turn that ends ``messages``."""
        if self.fields.get("response") is None and isinstance(self.fields.get("messages"), list):
            _, answer = split_messages(self)
            if answer is not None:
                return answer
        if "response" not in self.fields and (others := other_fields("response", self.fields)):
            raise self.error(f'"response" is missing: tokur generate answers questions{others}')
        return self.text("response")

    @property
    def prompt(self) -> Prompt:
        """What the response answers.

        The first there is of ``tokur.prompt_token_ids``, ``messages``, ``question`` and ``prompt``; null and a
        list of no ids count as missing. An assistant turn that ends ``messages`` and is the response is no part of it.
        """
        if token_ids := self._token_ids("prompt_token_ids"):
            return Prompt(token_ids=token_ids)
        if self.fields.get("messages") is not None:
            if not (messages := split_messages(self)[0]):
                raise self.error('"messages" holds no turn before the response')
            return Prompt(messages=messages, tools=read_tools(self.fields.get("tools")))
        if self.fields.get("question") is not None:
            return Prompt(question=self.text("question"))
        if isinstance(self.fields.get("prompt"), str):
            return Prompt(text=self.text("prompt"))
        if not {"custom_id", "object", "choices"}.isdisjoint(self.fields):  # of a service's answers
            raise self.error("has no prompt: give the file of what was asked with --requests")
        others = other_fields("question", self.fields)
        raise self.error(f'has no prompt: it needs "question", "messages" or "prompt"{others}')

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The conversation to be shown as what the response answers; a question or a prompt is a turn of a user's.

        The first there is of ``question``, ``messages`` and ``prompt``; empty if none of them has its form.
        """
        name = "question" if isinstance(self.fields.get("question"), str) else "prompt"
        if name == "prompt" and isinstance(self.fields.get("messages"), list):
            return split_messages(self)[0]
        return [{"role": "user", "content": self.text(name)}] if isinstance(self.fields.get(name), str) else []

    @property
    def tokur(self) -> dict[str, Any]:
        """What tokur computed for this record, to be read only; empty if nothing yet."""
        value = self.fields.get("tokur", {})
        if not isinstance(value, dict):
            raise self.error(f'"tokur" is {json_type(value)}, not an object')
        if (schema := value.get("schema", 1)) not in range(1, SCHEMA + 1):
            raise self.error(f'"tokur" was written with schema {schema}; this tokur reads up to {SCHEMA}: update tokur')
        return value

    def computed(self, name: str) -> dict[str, Any]:
        """Return one of the objects under ``tokur``: run, generation, tokens; empty without it."""
        value = self.tokur.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def scores(self) -> dict[str, Any]:
        """The response's scores by name; empty without any."""
        value = self.tokur.get("scores")
        if not isinstance(value, (dict, type(None))):
            raise self.error(f'"tokur.scores" is {json_type(value)}, not an object')
        return value or {}

    @property
    def token_ids(self) -> list[int] | None:
        """The response's token ids if the record carries them."""
        return self._token_ids("token_ids")

    def _token_ids(self, name: str) -> list[int] | None:
        ids = self.tokur.get(name)
        if ids is not None and not (isinstance(ids, list) and all(type(item) is int and item >= 0 for item in ids)):
            raise self.error(f'"tokur.{name}" is no list of token ids')
        return ids

    @property
    def token_strings(self) -> list[str | bytes] | None:
        """The response's tokens as a log spells them, where it does not tell their ids."""
        name, value = "tokur.token_strings", self.tokur.get("token_strings")
        if not isinstance(value, (list, type(None))):
            raise self.error(f'"{name}" is {json_type(value)}, not a list of tokens')
        return value and [bytes(one) if is_bytes(one) else self.checked_text(name, one) for one in value]

    @property
    def sample(self) -> int:
        """Which of a question's N responses this is, from 0."""
        value = self.tokur.get("sample", 0)
        if type(value) is not int or not 0 <= value < 2**63:
            raise self.error(f'"tokur.sample" is {value!r}, not a whole number from 0')
        return value


def as_text(value: Any) -> Any:
    """Return a number or a boolean as people write it: 51.0 is ``51``, true ``true``; anything else as it is."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:  # beyond, not every whole number is one
        return str(int(value))
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, and those within them, by names with dots: ``run.prompts.template``."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        within = flat_settings(value) if isinstance(value, Mapping) else None
        flat |= {name: value} if within is None else {f"{name}.{key}": one for key, one in within.items()}
    return flat


def differences(settings: Mapping[str, Any], others: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting in which two differ: its name, its value in the first, and its value in the second.

    One that is missing is what ``UNSAID`` has, or not known (None).
    """
    for name in {**others, **settings}:
        one, other = (found.get(name, UNSAID.get(name)) for found in (settings, others))
        if one != other:
            yield name, one, other
