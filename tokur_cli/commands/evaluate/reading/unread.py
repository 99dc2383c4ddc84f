"""The responses that count as wrong because no answer can be read in them: how many, and what the first look like."""

from __future__ import annotations

from dataclasses import dataclass, field

from tokur_cli.records.record import Record
from tokur_cli.views.visible import picture, shorten

_EXAMPLES = 3
_MOST_COLUMNS = 60  # of an id, and of the end of a response


@dataclass(slots=True)
class Unread:
    """Responses without an answer that can be read.

    Attributes:
        count: how many there are.
    """

    count: int = 0
    _examples: list[str] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Count a response."""
        self.count += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(_example(record))

    def told(self) -> str:
        """Return how many there are, and the place and the end of the first few, a line each."""
        responses = "1 response has" if self.count == 1 else f"{self.count:,} responses have"
        what = f"{responses} no answer that could be read, and count{'s' if self.count == 1 else ''} as wrong"
        return "\n".join([f"{what} (--answer REGEX reads them your way), such as", *self._examples])


def _example(record: Record) -> str:
    sample = f", sample {record.sample}" if record.computed("sample") is not None else ""
    name = f" ({shorten(picture(record.id), _MOST_COLUMNS)}{sample})" if record.id is not None else ""
    words = " ".join(record.response[-20 * _MOST_COLUMNS :].split())
    end = shorten(picture(words), _MOST_COLUMNS, keep_end=True)
    return f"{record.source}:{record.line}{name}: {end or 'is empty'}"
