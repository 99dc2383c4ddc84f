"""Which options of a group were given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_type_hints

from typer.models import OptionInfo


def given_options(group: Any) -> Iterator[tuple[str, str]]:
    """Yield field and name of each option of a group, and of groups within it, that is not at its default."""
    hints = get_type_hints(type(group), include_extras=True)
    for field in dataclasses.fields(group):
        marks = getattr(hints[field.name], "__metadata__", ())
        declared = next((mark for mark in marks if isinstance(mark, OptionInfo)), None)
        value = getattr(group, field.name)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if dataclasses.is_dataclass(value):
            yield from given_options(value)
        elif declared and value != default:
            named = declared.default  # where typer keeps the first name that an annotation gives an option
            yield field.name, named if isinstance(named, str) else f"--{field.name.replace('_', '-')}"
