"""What else might have been written at a token, as it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokur_cli.views.visible import picture, width_of

_BETWEEN = "  "
_LEAST = 0.005  # what rounds to a percent


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The likeliest tokens at one place.

    Args:
        texts: what each would add to the text, the likeliest first.
        p: their probabilities under the model; None where one is not known.
        p_mean: the same under the mean of the draws; None without draws.
        draws: what the likeliest token of each draw would add.
    """

    texts: Sequence[str]
    p: Sequence[float | None]
    p_mean: Sequence[float | None] | None = None
    draws: Sequence[str] = ()

    @property
    def pieces(self) -> list[str]:
        """Each with its probability, ``40 % 6``, then what the draws would have written where not all agree on it.

        What has less than half a percent is left out.
        """
        found = [
            f"{share(value)} {drawn(text)}"
            for text, value in zip(self.texts, self.p, strict=True)
            if value is None or value >= _LEAST
        ]
        if set(self.draws) - set(self.texts[:1]):
            found.append("draws: " + " ".join(map(drawn, self.draws)))
        return found

    def in_a_line(self, width: int) -> str:
        """Return as many of the pieces as fit into so many columns, and … where some are left out."""
        line, pieces = "", self.pieces
        for place, piece in enumerate(pieces):
            longer = line + (_BETWEEN if line else "") + piece
            room = width if place == len(pieces) - 1 else width - 2
            if width_of(longer) > room:
                return f"{line} …"[: max(0, width)] if line else ""
            line = longer
        return line


def share(probability: float | None) -> str:
    """Return a probability in percent: ``40 %``."""
    return "?" if probability is None else f"{100 * probability:.0f} %"


def drawn(text: str) -> str:
    """Return a token's text as a picture without the spaces around it; ␣ for nothing but spaces, ∅ for no text."""
    return picture(text.strip(" ")) or ("␣" if text else "∅")
