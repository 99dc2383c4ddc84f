"""How a record was made: the settings behind a response and its scores, and the one comparison of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

UNSAID = {"base": None, "base_revision": None, "quantize": None, "backend": "transformers"}
"""What a ``tokur.run`` says only where it is otherwise."""


class Provenance(dict[str, Any]):
    """Settings by name; one that is missing is what ``UNSAID`` has, or not known (None)."""

    @classmethod
    def nested(cls, **groups: Mapping[str, Any]) -> Provenance:
        """Return the settings of groups, and of those within them, by names with dots: ``run.prompts.template``."""
        settings = cls()
        for group, members in groups.items():
            for name, value in members.items():
                within = cls.nested(**{name: value}) if isinstance(value, Mapping) else {name: value}
                settings |= {f"{group}.{key}": one for key, one in within.items()}
        return settings

    def differences(self, other: Mapping[str, Any], ignore: Collection[str] = ()) -> Iterator[tuple[str, Any, Any]]:
        """Yield each setting in which two differ: its name, and its value here and there.

        Args:
            other: how another record was made.
            ignore: names that do not matter, without what stands before a dot.
        """
        for name in {**other, **self}:
            here, there = (settings.get(name, UNSAID.get(name)) for settings in (self, other))
            if here != there and name.rpartition(".")[2] not in ignore:
                yield name, here, there
