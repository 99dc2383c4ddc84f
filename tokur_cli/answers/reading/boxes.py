r"""Boxes: what LaTeX's ``\\boxed`` puts a frame around."""

from __future__ import annotations

import re

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.lexicon import SO

_LONGEST_LIST_GAP = 100
_LONGEST_LINE = 2_000

_DENIED = expression(
    r"(?i)(?:\b(?:not|never|nicht|niet|inte|ikke|bukan)|n't|không phải(?: là)?|değil|不是|ليس)(?:\s(?:be"
    r"|equal(?: to)?))?(?:[$\s(\[]|\\[(\[]){0,12}\Z"
)
_BRACE = expression(r"\\{1,2}(?:boxed|fbox)\s{0,4}\{|\\.|[{}]", re.DOTALL)
_BARE_BOX = expression(r"\\boxed\s{1,4}([^\s{}$\\]{1,50})")
_LIST_GAP = expression(r"(?:[\s$,;]|\\[()\[\],;]|\\quad|\\qquad)*")
_LIST_WORD = expression(r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])")
TEXT_GROUP = expression(r"\\(?:text\w*|mathrm|mathbf|mbox|operatorname)\s*\{[^{}]*\}|\\begin\{\w+\}|\\end\{\w+\}")


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank."""
    return text[:_LONGEST_LINE].strip().partition("\n")[0].strip()


def boxes(text: str) -> tuple[str, str, int]:
    """Return the last balanced box (or list of boxes), what follows an open one, and where the balanced one ends."""
    opened: list[int] = []  # one entry an open brace: where its box begins, or -1 for other braces
    inner: list[int] = []
    spans: list[tuple[int, int, int]] = []  # (start, first character inside, closing brace)
    for token in _BRACE.finditer(text, max(0, min(_find(text, "\\boxed"), _find(text, "\\fbox")) - 1)):
        symbol = token[0]
        if symbol == "}":
            if opened:
                start, inside = opened.pop(), inner.pop()
                # A box around a box is dropped in favour of the inner one.
                if start >= 0 and not (spans and spans[-1][0] > start) and _is_filled(text, inside, token.start()):
                    spans.append((start, inside, token.start()))
        elif symbol == "{" or len(symbol) > 2:
            opened.append(token.start() if symbol != "{" else -1)
            inner.append(token.end())
    spans = [span for span in spans if not _DENIED.search(text, max(0, span[0] - 40), span[0])]
    if spans:
        return _join_list(text, spans), "", spans[-1][2] + 1
    bare = _BARE_BOX.search(text, max(0, text.rfind("\\boxed")))
    if bare:
        return bare[1], "", bare.end()
    boxes = [inside for start, inside in zip(opened, inner, strict=True) if start >= 0]
    after = text[boxes[-1] :].lstrip() if boxes else ""
    if boxes and "\n" not in after and "$" not in after:
        return "", "", 0  # cut off within the box: what stands there may be half of a number
    rest = first_line(text[boxes[-1] : boxes[-1] + _LONGEST_LINE]) if boxes else ""
    return "", rest if any(character.isalnum() for character in rest) else "", 0


def _is_filled(text: str, start: int, end: int) -> bool:
    """Return whether a box has more in it than blanks and punctuation, such as a question mark."""
    return any(character.isalnum() or not character.isascii() for character in text[start:end])


def _find(text: str, part: str) -> int:
    position = text.find(part)
    return position if position >= 0 else len(text)


def _join_list(text: str, spans: list[tuple[int, int, int]]) -> str:
    """Return the last box, joined with those right before it that belong to the same list."""
    first = len(spans) - 1
    while first > 0 and _belongs_together(text[spans[first - 1][2] + 1 : spans[first][0]]):
        first -= 1
    parts = [text[inside:end].strip() for _, inside, end in spans[first:]]
    return parts[0] if len(set(parts)) == 1 else ", ".join(parts)


def _belongs_together(gap: str) -> bool:
    """Return whether the text between two boxes makes them a list: none, a comma, or a few words with "and" or "or"."""
    if len(gap) > _LONGEST_LIST_GAP:
        return False
    if _LIST_GAP.fullmatch(gap) or not re.search(r"[\w\n=.]", gap):
        return "\n\n" not in gap
    words = TEXT_GROUP.sub(lambda group: group[0].partition("{")[2].rstrip("}"), gap)
    if SO.search(words):
        return False
    return bool(_LIST_WORD.search(words)) and len(words.split()) <= 10 and not re.search(r"[.!?:](?:\s|$)|\n\n", words)
