"""The yes or no, true or false, that a text decides on."""

from __future__ import annotations

import re

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.lexicon import CORRECTION, HYPOTHETICAL, IN_DOUBT, NEGATION, ON_CONDITION
from tokur_cli.answers.reading.notation import VERDICTS, common_name
from tokur_cli.answers.reading.statements import SENTENCE_END

_TAIL = 2_000

_WORD = "|".join(sorted(map(re.escape, VERDICTS), key=len, reverse=True))
_OPENING = expression(
    rf"\A[\s*_#\"'>]*(?P<word>{_WORD})(?=\s*[*_]*\s*(?:[,.!:;–—]|-\s|$|\n))(?!\.\s?\d)", re.IGNORECASE
)
_LED = (
    r"(?:(?:so|thus|therefore|hence|overall|in short|in conclusion|in summary|(?:the\s+)?short answer|ultimately|definitely|certainly|absolutely"
    r"|clearly|probably|most likely|i(?:'d| would) say|i think|i believe|well)\s*[,:]?\s*(?:that\s+)?)"
)
_SAID = expression(rf"\A\W*{_LED}{{0,3}}(?P<word>{_WORD})(?=\W*\Z|\s*[,;:–—])", re.IGNORECASE)
_PREDICATE = expression(
    r"\b(?:statement|claim|assertion|proposition|hypothesis|it|this|that)\s+is\s+(?:(?:therefore|thus|hence|indeed|clearly|definitely|certainly|in fact)\s+)?"
    r"[*_]*(?P<word>true|false|correct|incorrect)\b[*_]*(?=\W*\Z|\s*,|\s+(?:because|since|as)\b)",
    re.IGNORECASE,
)
_ON_CONDITION = expression(r"[\s*_]*[,;:]?\s*(?:(?:but|though|although)\b[^.!?\n]*)?\b(?:only\s+)?(?:if|when|unless|provided)\b|\s*,?\s*(?:and|or)\s+(?:yes|no)\b", re.IGNORECASE)


def opening_verdict(text: str) -> str | None:
    """Return the word by which a text decides at its beginning, None where it has none or leaves it open.

    Args:
        text: in plain writing: "No, 9 is divisible by 3.", not "No. 5 is the best.".
    """
    first = _OPENING.match(text)
    if first is None or CORRECTION.match(text[first.end() :].lstrip(" ,.!")):
        return None
    for pattern in (_ON_CONDITION, ON_CONDITION):
        condition = pattern.match(text, first.end())
        if condition and not SENTENCE_END.search(text, first.end(), condition.end()):
            return None
    others = [_SAID.match(sentence) for sentence in SENTENCE_END.split(text[first.end() : _TAIL])]
    decided = {common_name(found["word"]) for found in (first, *others) if found}
    return first["word"] if len(decided) == 1 else None


def closing_verdict(text: str) -> str | None:
    """Return the word by which a text decides in its last sentence, None where it has none or leaves it open.

    Args:
        text: in plain writing: "…, so the claim is false.", "Therefore, yes."
    """
    sentences = [sentence for sentence in SENTENCE_END.split(text[-_TAIL:]) if sentence.strip()]
    if not sentences or text.rstrip().endswith("?"):
        return None
    if common_name(text.strip(" *_.!\n")) in ("yes", "no"):
        return text.strip(" *_.!\n")
    last = sentences[-1]
    said = _SAID.match(last)
    if said:
        conditional = _ON_CONDITION.match(last, said.end()) or ON_CONDITION.match(last, said.end())
        return None if conditional else said["word"]
    found = {match["word"].lower(): match for match in _PREDICATE.finditer(last)}
    if len(found) != 1 or HYPOTHETICAL.search(last) or IN_DOUBT.search(last):
        return None
    word, match = found.popitem()
    if NEGATION.search(last[: match.start("word")]):
        return None
    return {"correct": "true", "incorrect": "false"}.get(word, word)
