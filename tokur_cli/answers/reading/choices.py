"""The letter that a response to a multiple choice takes."""

from __future__ import annotations

import re

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.lexicon import (
    CAUSE,
    CHOSEN,
    IN_DOUBT,
    LETTER_OF_CHOICE,
    REJECTED_BEFORE,
    REJECTED_BEHIND,
)
from tokur_cli.answers.reading.statements import SENTENCE_END

_TAIL = 4_000
_NEAR = 80  # characters before a letter in which a word may choose or reject it

_LABELLED = expression(r"\A\W{0,4}\(?([A-J])[).:](?=\s|\*|$)")
_LABELLED_LINES = expression(r"(?m)^\W{0,4}\(?([A-J])[).:](?=\s|\*|$)")


def chosen_letter(text: str) -> str | None:
    """Return the letter that a text chooses, or None where it chooses none or several.

    Args:
        text: in plain writing.
    """
    labelled = _LABELLED.match(text)
    text = text[-_TAIL:]
    sentences = [part for part in SENTENCE_END.split(text) if part.strip()]
    lone: str | None = None
    last = True
    for sentence in reversed(sentences):
        letters = list(LETTER_OF_CHOICE.finditer(sentence))
        kept = [match for match in letters if not _denied(sentence, match)]
        reason = CAUSE.search(sentence)
        if reason and not sentence[: reason.start()].strip():
            continue
        if reason:
            first = [match for match in kept if match.end() <= reason.start()]
            kept = first or kept
        chosen = {_name(match) for match in kept if CHOSEN.search(_before(sentence, match))}
        names = {_name(match) for match in kept}
        if len(names) > 1 and IN_DOUBT.search(sentence):
            return None
        if len(chosen) == 1:
            return chosen.pop()
        if len(names) == 1 and last:
            lone = names.pop()
        last = last and not letters
    listed = {line[1] for line in _LABELLED_LINES.finditer(text)}
    if len(listed) > 1:
        return None
    return lone or (labelled[1] if labelled else None)


def _before(sentence: str, letter: re.Match[str]) -> str:
    return sentence[max(0, letter.start() - _NEAR) : letter.start()]


def _denied(sentence: str, letter: re.Match[str]) -> bool:
    """Return whether a sentence rejects a letter: "not B", "A is wrong"."""
    return bool(
        REJECTED_BEFORE.search(_before(sentence, letter))
        or REJECTED_BEHIND.match(sentence[letter.end() : letter.end() + _NEAR])
    )


def _name(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)
