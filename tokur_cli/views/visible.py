"""Model text made visible and harmless: control codes by their numbers, in glyphs that no output may cut or join."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from wcwidth import iter_graphemes, wcswidth

NO_TEXT = "∎"
_SIGNS = {"\n": "↵", "\t": "⇥   "}

_ZWNJ, _ZWJ = "\u200c", "\u200d"
_LONGEST_MESSAGE = 20_000  # characters: a record's id may have millions
_BLACK_FLAG = "\U0001f3f4"
_ESCAPED_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}


class Glyph(NamedTuple):
    """The smallest piece of text that is drawn as one: a character as people count them, or one control code."""

    start: int  # its first code point in the text
    end: int  # the code point after its last
    shown: str  # what is drawn; never a control code, and the same for every output
    width: int  # columns of a terminal that ``shown`` takes, at least 1
    newline: bool  # whether the line ends after it


def glyphs(text: str) -> Iterator[Glyph]:
    """Cut a text into the glyphs that are drawn, in order and without gaps.

    Characters made of several code points (emoji sequences, letters with combining marks) stay whole. A newline is
    shown as ``↵``, a tab as ``⇥`` and three spaces, and everything else that is invisible or turns the direction of
    text by its number (``⟨U+001B⟩``).
    """
    start = 0
    for cluster in iter_graphemes(text) if not text.isascii() else text:
        end = start + len(cluster)
        if cluster.isascii() and cluster.isprintable():
            yield Glyph(start, end, cluster, 1, False)
        else:
            hidden = {index for index in range(start, end) if _is_hidden(text, index, cluster)}
            bounds = sorted({start, end, *hidden, *(index + 1 for index in hidden)})
            for first, after in pairwise(bounds):
                yield _glyph(first, text[first:after], is_hidden=first in hidden)
        start = end


def picture(text: str) -> str:
    """Return the text as it is drawn, on one line."""
    return "".join(glyph.shown for glyph in glyphs(text))


def one_line(text: str) -> str:
    """Return the text as it is drawn, each white space in it a blank."""
    return picture(" ".join(text.split()))


def paragraphs(text: str) -> str:
    """Return the text as it is drawn where newlines need no sign: they stay."""
    return "\n".join(map(picture, text.split("\n")))


def indented(text: str) -> str:
    """Return a message as it is drawn, its further lines indented: none of them can pass for another message."""
    lines = text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + " …"
    return paragraphs(lines).replace("\n", "\n  ")


def shorten(text: str, width: int, *, keep_end: bool = False) -> str:
    """Return a picture cut to at most so many columns, with ``…`` where it was cut: its end, or else its start."""
    if wcswidth(text) <= width:
        return text
    clusters = list(iter_graphemes(text))[:: -1 if keep_end else 1]
    ends = accumulate(map(wcswidth, clusters))  # … takes a column, too
    kept = [cluster for cluster, end in zip(clusters, ends, strict=True) if end < width]
    return "…" + "".join(reversed(kept)) if keep_end else "".join(kept) + "…"


def _glyph(start: int, text: str, *, is_hidden: bool) -> Glyph:
    shown = text
    if is_hidden:
        shown = _SIGNS.get(text) or f"⟨U+{ord(text):04X}⟩"
    elif wcswidth(text) <= 0:  # a mark without a letter to sit on would land on a neighbour, of another token
        shown = "◌" + text
    return Glyph(start, start + len(text), shown, max(1, wcswidth(shown)), text == "\n")


def _is_hidden(text: str, index: int, cluster: str) -> bool:
    char = text[index]
    if char.isascii():
        return not char.isprintable()
    if unicodedata.category(char) not in _ESCAPED_CATEGORIES and ord(char) & 0xFFFE != 0xFFFE:
        return False
    if char in (_ZWNJ, _ZWJ):  # they shape emoji and the letters of many scripts, never ASCII
        joined = text[index - 1 : index] + text[index + 1 : index + 2]
        return len(joined) < 2 or any(side.isascii() or side.isspace() for side in joined)
    return not (0xE0020 <= ord(char) <= 0xE007F and cluster.startswith(_BLACK_FLAG))  # but for the tags of a flag
