"""Whether a text asserts what a marker announces: it may suppose it, doubt it, take it back or say it in two ways."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tokur_cli.answers.reading.canonical import canonical
from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.lexicon import LETTER_OF_CHOICE, NEGATION, OTHERWISE, UNDETERMINED, Marker, markers
from tokur_cli.answers.reading.statements import SENTENCE_END, Statement, is_answer_alone, stated

_NEAR = 300  # characters in which the rest of a sentence is looked for

_SUPPOSED = expression(
    r"(?i)\b(?:if|suppose|supposing|assume|assuming|imagine|whether|unless|wenn|falls|wäre|si|se|если|nếu|jika|jeśli)\s+(?:that\s+)?"
    r"(?:(?:the|my|our|your|final|correct|right|real|true|actual|die|la|il|el)\s+){0,3}\Z"
    r"|(?:如果|假设|假如|もし|만약|यदि|अगर|إذا|لو|ถ้า)\s*(?:كان(?:ت)?\s+)?\Z"
    r"|\b(?:wrong|incorrect|mistaken|common|initial|original|previous|earlier)\s+\Z|\b(?:false|wrong|untrue|doubtful)\s+that\s+(?:the|my|our)\s+\Z"
    r"|(?<!\bI\s)(?<!\bwe\s)\b(?:said|says|thinks|thought|claims|claimed|believes|believed|guessed)\s+(?:that\s+)?(?:the|his|her)\s+\Z"
)
_SUPPOSED_BEHIND = expression(r"라고 가정|(?:이|라)면|と仮定|とすると|とすれば|だとしたら")
_MAY_BE = expression(r"(?i)\b(?:might|may|could)\s+(?:(?:also|well|still|then|thus)\s+)?be\Z")
_PARTICIPLE = expression(r"(?i)\s*(?:\w+ed|written|found|seen|given|shown)\b")
_CONDITION = expression(
    r"(?i)\b(?:if|otherwise|else|whenever|depending|wenn|falls|sonst|si|sinon|sino|se|senão|altrimenti|если|иначе)\b|如果|否则|もし|만약"
)
_WOULD_BE = expression(r"(?i)\b(?:wäre|serait|sería|seria|sarebbe|zou|skulle|бы)\b")
_UNREAL = expression(r"(?i)\bif\b[^.!?\n]{1,120}?\b(?:were|was|had)\b")
_RETRACTED = expression(r"(?i),\s*(?:but|although|though)\b")
_ADJACENT = expression(r"(?i)\W*(?:(?:so|thus|hence|therefore|the|my|our|final|correct|and|right)\b\W*){0,5}")
_CONFIRMED = expression(r"(?i)\b(?:yes|correct|right|consistent|confirm\w*|checks? out|matches|holds)\b")


@dataclass(frozen=True, slots=True)
class Earlier:
    """An answer that another marker states right before a marker."""

    text: str

    def contradicts(self, later: str) -> bool:
        """Return whether a later answer is another number, or another letter."""
        one, other = canonical(self.text), canonical(later)
        if one.kind == other.kind == "choice":
            return one.text != other.text
        if one.number is None or other.number is None or (one.unit and other.unit and one.unit != other.unit):
            return False
        exact = one.number.value * one.number.scale, other.number.value * other.number.scale
        return exact[0] != exact[1] and one.number.value != other.number.value and one.number.rounded is None

    def goes_on(self, later: Statement, following: str) -> bool:
        """Return whether a later answer is the beginning of this one, cut off where the text ends."""
        return later.end >= len(following) and self.text.startswith(later.text) and not following.endswith(".")


def is_supposed(text: str, marker: Marker) -> bool:
    """Return whether a text but supposes what a marker announces: "if the answer is 42, then …"."""
    return bool(_SUPPOSED.search(text, max(0, marker.start - 60), marker.start))


def is_in_doubt(text: str, marker: Marker) -> bool:
    """Return whether the sentence of a marker leaves its answer open.

    It may call it possible ("might be"), unreal ("would be C if B were false"), unknown, or one of several that depend
    on a condition ("if x > 0, the answer is 3; otherwise the answer is -3").
    """
    following = text[marker.end : marker.end + _NEAR]
    end = SENTENCE_END.search(following)
    if _SUPPOSED_BEHIND.search(following, 0, end.start() if end else len(following)):
        return True
    if _MAY_BE.search(marker.text.rstrip()) and not _PARTICIPLE.match(following):
        return True
    start = _start_of_sentence(text, marker.start)
    before = text[start : marker.end]
    unknown = UNDETERMINED.search(before)
    if unknown and not re.search(r"[,;]", before[unknown.end() :]):
        return True
    if OTHERWISE.search(before):
        return True
    sentence = text[start : marker.end + (end.start() if end else len(following))]
    if _WOULD_BE.search(marker.text + following[:12]) and _CONDITION.search(sentence):
        return True
    if "would" in marker.text and _UNREAL.search(sentence):
        return True
    if not _CONDITION.search(text, max(0, marker.start - _NEAR), marker.start):
        return False
    earlier = None
    for other in markers(text, start, marker.start):
        earlier = stated(text[other.end : marker.start], letters=False, language=other.language)
    found = stated(following, letters=False, language=marker.language)
    return bool(
        earlier
        and found
        and is_answer_alone(earlier.text)
        and canonical(earlier.text).text != canonical(found.text).text
    )


def said_before(text: str, marker: Marker, others: Sequence[Marker]) -> Earlier | None:
    """Return the answer that the marker before a marker states, where nothing else stands between the two.

    Args:
        text: in plain writing.
        marker: the later one.
        others: the text's markers, in their order.
    """
    before = next((other for other in reversed(others) if other.end <= marker.start), None)
    if before is None or marker.start - before.end > _NEAR or not SENTENCE_END.search(text, before.end, marker.start):
        return None
    found = stated(text[before.end : marker.start], letters=True, language=before.language)
    if found is None or not _ADJACENT.fullmatch(text, before.end + found.end, marker.start):
        return None
    if _RETRACTED.search(text, before.end, marker.start):
        return None
    return Earlier(found.text)


def is_confirmed(text: str) -> bool:
    """Return whether a text that seems to correct an answer upholds it: "Wait, let me check. Yes, it is right."."""
    is_said_again = any(character.isdigit() for character in text) or LETTER_OF_CHOICE.search(text)
    return not is_said_again and bool(_CONFIRMED.search(text)) and not NEGATION.search(text)


def _start_of_sentence(text: str, position: int) -> int:
    ends = SENTENCE_END.finditer(text, max(0, position - _NEAR), position)
    return max((end.end() for end in ends), default=max(0, position - _NEAR))


def behind_last_marker(text: str) -> str:
    """Return what follows the sentence of a text's last marker; a text without a marker is returned whole."""
    last = max((marker.end for marker in markers(text)), default=0)
    end = SENTENCE_END.search(text, last)
    return text[end.end() if end else len(text) :] if last else text
