"""How a record was made: the settings behind a response and its scores, and the one comparison of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

UNSAID = {"base": None, "base_revision": None, "quantize": None, "backend": "transformers"}
"""What a ``tokur.run`` says only where it is otherwise."""


def flat_settings(**groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of groups, and of those within them, by names with dots: ``run.prompts.template``."""
    settings = {}
    for group, members in groups.items():
        for name, value in members.items():
            within = flat_settings(**{name: value}) if isinstance(value, Mapping) else {name: value}
            settings |= {f"{group}.{key}": one for key, one in within.items()}
    return settings


def differences(settings: Mapping[str, Any], others: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting in which two differ: its name, its value in the first, and its value in the second.

    One that is missing is what ``UNSAID`` has, or not known (None).
    """
    for name in {**others, **settings}:
        one, other = (found.get(name, UNSAID.get(name)) for found in (settings, others))
        if one != other:
            yield name, one, other
