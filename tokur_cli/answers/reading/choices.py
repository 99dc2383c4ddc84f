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
    SO,
)
from tokur_cli.answers.reading.statements import SENTENCE_END, is_broken_off

_TAIL = 4_000
_NEAR = 80  # characters before a letter in which a word may choose or reject it

_LABELLED = expression(r"\A\W{0,4}\(?([A-J])[).:](?=\s|\*|$)")
_LABELLED_LINES = expression(r"(?m)^\W{0,4}\(?([A-J])[).:](?=\s|\*|$)")
_SMALL = expression(r"(?<![^\s*:])\(([a-j])\)|\b(?:option|choice)\s+[a-j](?=[).\s]*(?:\Z|\n))")
_LABEL_ALONE = expression(
    r"(?i)(?:\A\W*|[^\w\s]\s*|\b(?:so|thus|therefore|hence|then)\s+|\A\s*the\s+)(?:option|choice|answer)\W*\Z"
)
_WORD_BEFORE = expression(r"(?i)(?<![a-z'])([a-z][a-z']*)\.?[ \"*_(]{0,6}\Z")
_LEADING_TO_A_CHOICE = frozenset(
    (  # noqa: SIM905
        "between chose chosen selected picked only just leaves leaving leave with for to that but then than "
        "matches match fits like prefer say "
        "think believe mark circle letter or and both because be as called labelled labeled either nor "
        "neither not over of eliminate out options choices answers letters that's it's there's maybe perhaps "
        "possibly actually really definitely probably clearly certainly hence so thus therefore now however "
        "instead indeed choose go elijo escojo choisis prends wähle nehme scelgo escolho marco la el die"
    ).split()
)
_AFFIRMED = expression(
    r"(?i)\)?[*_\"]{0,4}\s{0,3}(?:is|are|was|must be|would be|should be|seems?(?: to be)?|looks"
    r"|appears(?: to be)?|makes|works|fits"
    r"|satisf\w+|matches)\b"
)
_CALLED_RIGHT = expression(
    r"(?i)\)?[*_\"]{0,4}\s{0,3}(?:is|was|must be|would be|should be|has to be|seems)\s+(?:(?:clearly|definitely"
    r"|fully|more|the|our|my|most|probably)\s+)*"
    r"(?:right|correct|best|only (?:answer|choice|option|one)|answer|better|plausible|likely|accurate|appropriate"
    r"|suitable)\b"
)
_CONSIDERED = expression(
    r"(?i)\W{0,6}(?:(?:now|next|first|then),?\s)?(?:if|consider|check|suppose|assume|look at|let's (?:check"
    r"|consider|look)|let [A-J])\b"
)
_JOINED = expression(r"(?i)[\s,)]{0,3}(?:and|or|&)[\s(]{0,3}")
_EQUATED = expression(r"\s{0,3}=\s*[\d(\\$-]")


def chosen_letter(text: str) -> str | None:
    """Return the letter that a text chooses, or None where it chooses none or several.

    Args:
        text: in plain writing.
    """
    text = _SMALL.sub(lambda match: match[0].upper(), text)
    labelled = _LABELLED.match(text)
    text = text[-_TAIL:]
    sentences = [part for part in SENTENCE_END.split(text) if part.strip()]
    if text.rstrip().endswith(("?", ":")) or is_broken_off(text):
        sentences.pop()
    lone: str | None = None
    is_affirmed = is_labelled = False
    described: set[str] = set()
    last = True
    for sentence in reversed(sentences):
        letters = _letters(sentence)
        kept = [match for match in letters if not _denied(sentence, match)]
        reason = CAUSE.search(sentence)
        if (reason and not sentence[: reason.start()].strip()) or _CONSIDERED.match(sentence):
            continue
        if reason:
            first = [match for match in kept if match.end() <= reason.start()]
            kept = first or kept
        chosen = {_name(match) for match in kept if _is_chosen(sentence, match)}
        behind = sentence.rfind(" but ")  # "B is tempting, but C is the better choice"
        if behind >= 0 and len(chosen) != 1:
            chosen = {_name(match) for match in kept if match.start() > behind and _is_chosen(sentence, match)}
            if len(chosen) == 1:
                return chosen.pop()
        names = {_name(match) for match in kept}
        if len(names) > 1 and IN_DOUBT.search(sentence):
            return None
        if len(chosen) == 1:
            return chosen.pop()
        if len(names) == 1 and last:
            lone = names.pop()
            is_labelled = bool(_LABELLED.match(sentence.lstrip()))
            is_affirmed = bool(SO.search(sentence) or _AFFIRMED.match(sentence, kept[-1].end()))
        elif is_labelled or not _LABELLED.match(sentence):
            described |= names
        last = last and not letters
    listed = {line[1] for line in _LABELLED_LINES.finditer(text)}
    if len(listed) > 1 or not (is_affirmed or described <= {lone}):
        return None
    return lone or (labelled[1] if labelled else None)


def _letters(sentence: str) -> list[re.Match[str]]:
    """Return the letters of a sentence that may be choices; one that is joined to a name is another name."""
    letters: list[re.Match[str]] = []
    named = -1  # where the last name ends
    for match in LETTER_OF_CHOICE.finditer(sentence):
        if _is_name(sentence, match) or (named >= 0 and _JOINED.fullmatch(sentence, named, match.start())):
            named = match.end()
        elif not _EQUATED.match(sentence, match.end()):
            letters.append(match)
    return letters


def _is_name(sentence: str, letter: re.Match[str]) -> bool:
    """Return whether a letter is part of a name, as in "vitamin C": the word before it leads to no choice."""
    word = _WORD_BEFORE.search(sentence[: letter.start()])
    return bool(word and word[1].lower() not in _LEADING_TO_A_CHOICE and not CHOSEN.search(_before(sentence, letter)))


def _is_chosen(sentence: str, letter: re.Match[str]) -> bool:
    """Return whether words choose a letter; "option C says …" but names it."""
    if _CALLED_RIGHT.match(sentence, letter.end()):
        return True
    before = _before(sentence, letter)
    if not CHOSEN.search(before):
        return False
    behind = sentence[letter.end() :].strip(' )*_."')
    return not _LABEL_ALONE.search(before) or not behind[:1].isalpha() or bool(_AFFIRMED.match(sentence, letter.end()))


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
