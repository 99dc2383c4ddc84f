"""Labels that a record brings along: they win over whatever could be found out about its answer.

- ``correct``: true or false.
- ``quality``: a number in [0, 1], such as the share of a text's facts that hold.
- any other field by name (``scores.exact_match`` reaches into objects): true, false or a number in [0, 1]; in logs also
  what the program that wrote them says, such as the ``C`` and ``I`` of Inspect's scorers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.formats import verdicts_of
from tokur_cli.records.mapping import value_at


@dataclass(frozen=True, slots=True)
class Label:
    """A record's label.

    Attributes:
        value: 1 for right, 0 for wrong, or a quality in between; None where the field is null.
        field: the field that gave it.
    """

    value: float | None
    field: str

    @property
    def correct(self) -> bool | None:
        """Whether it says right or wrong, and which; None for null and for what is in between."""
        return bool(self.value) if self.value in (0.0, 1.0) else None


def label_of(record: Mapping[str, Any], field: str | None = None) -> Label | None:
    """Return the label that a record brings along, or None where it brings none.

    Args:
        record: the record's fields.
        field: the field to read instead of ``correct`` and ``quality``; it must then be there.

    Raises:
        RecordError: the field is missing though named, or holds no label.
        UsageError: the record has the verdicts of several scorers, and none is named.
    """
    said, failed = verdicts_of(record)
    if field is not None:
        try:
            value = said[field] if field in said else value_at(record, field)
            return Label(_number(value, field), field)
        except LookupError:
            if failed:
                return Label(None, field)
            known = f"; its scores are {', '.join(said)}" if said else ""
            raise RecordError(f'"{field}" is missing: --label-field names no field of this record{known}') from None
    if "correct" in record:
        value = record["correct"]
        if value is not None and not isinstance(value, bool):
            raise RecordError(f'"correct" must be true or false, not {_shown(value)}; --label-field takes other labels')
        return Label(_number(value, "correct"), "correct")
    if "quality" in record:
        return Label(_number(record["quality"], "quality"), "quality")
    if len(said) > 1:
        raise UsageError(f"the records have several scores: choose the label with --label-field {' or '.join(said)}")
    return None


def _number(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, (bool, int, float)) and 0 <= value <= 1:
        return float(value)
    raise RecordError(f'"{field}" must be true, false or a number from 0 to 1, not {_shown(value)}')


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
