"""How a record was made: the settings behind a response and its scores, and the one comparison of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

UNSAID = {"base": None, "base_revision": None, "quantize": None, "backend": "transformers"}
"""What a ``tokur.run`` says only where it is otherwise."""


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
