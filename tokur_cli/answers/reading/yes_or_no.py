"""The yes or no, true or false, that a text decides on."""

from __future__ import annotations

import re

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.lexicon import CORRECTION, HYPOTHETICAL, IN_DOUBT, NEGATION, ON_CONDITION
from tokur_cli.answers.reading.notation import common_name
from tokur_cli.answers.reading.statements import SENTENCE_END
from tokur_cli.answers.reading.vocabulary import VERDICTS

_TAIL = 2_000

_WORD = "|".join(sorted(map(re.escape, VERDICTS), key=len, reverse=True))
_OPENING = expression(
    rf"\A[\s*_#\"'>]*(?P<word>{_WORD})(?=\s*[*_]*\s*(?:[,.!:;–—]|-\s|$|\n)|\s\(|\s(?:it|he|she|they|there|this|that|we|you|i)\b)",
    re.IGNORECASE,
)
_LED = (
    r"(?:(?:so|thus|therefore|hence|overall|in short|in conclusion|in summary|(?:the\s+)?short answer|ultimately"
    r"|definitely|certainly|absolutely"
    r"|clearly|probably|most likely|i(?:'d| would) (?:say|lean towards?)|i think|i believe|well|hmm|sure|wait"
    r"|actually|(?:it's|that's|it is|that is)(?: an?)?)\s{0,3}[,:]?\s{0,3}(?:that\s+)?)"
)
_SAID = expression(rf"\A\W*{_LED}{{0,3}}(?P<word>{_WORD})(?=[\W_]*\Z|\s*[,;:–—])", re.IGNORECASE)
_CONCLUDED = expression(rf",\s*(?:and\s+)?(?:so|thus|therefore|hence),?\s+(?P<word>{_WORD})(?=[\W_]*\Z)", re.IGNORECASE)
_PREDICATE = expression(
    r"\b(?:(?:statement|claim|assertion|proposition|hypothesis|it|this|that)\s+is|(?:it"
    r"|that)'s)\s+(?P<denied>not\s+)?(?:(?:therefore|thus|hence|indeed|clearly|definitely|certainly|in fact)\s+)?"
    r"[*_]*(?P<word>(?:un)?true|false|correct|incorrect)\b[*_]*(?=\W*\Z|\s*[,:;–—]|\s+(?:because|since|as)\b)",
    re.IGNORECASE,
)
_SO = expression(r",\s*(?:so|thus|therefore|hence|which means)\b", re.IGNORECASE)
_TRUTH = expression(r"\b(?:un)?true\b|\bfalse\b|\b(?:in)?correct\b", re.IGNORECASE)
_ON_CONDITION = expression(
    r"[\s*_]{0,4}[,;:]?\s{0,3}(?:(?:but|though|although)\b[^.!?\n]{0,120}?)?\b(?:only\s+)?(?:if|when|unless|provided)\b|\s{0,3},?\s{0,3}(?:and|or)\s+(?:yes|no)\b",
    re.IGNORECASE,
)


def opening_verdict(text: str) -> str | None:
    """Return the word by which a text decides at its beginning, None where it has none or leaves it open.

    Args:
        text: in plain writing: "No, 9 is divisible by 3.", not "No. 5 is the best.".
    """
    text = text[:_TAIL]
    first = _OPENING.match(text)
    if first is None or CORRECTION.match(text[first.end() :].lstrip(" ,.!")):
        return None
    condition = _condition(text, first.end())
    if condition and not SENTENCE_END.search(text, first.end(), condition.end()):
        return None
    others = [_SAID.match(sentence) for sentence in SENTENCE_END.split(text[first.end() :])]
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
    word = _decided(last)
    first = _OPENING.match(text)
    if word and first and common_name(first["word"]) != common_name(word) and not CORRECTION.search(text, first.end()):
        return None
    return word


def _decided(sentence: str) -> str | None:
    """Return the word by which a sentence decides."""
    said = _SAID.match(sentence) or _CONCLUDED.search(sentence)
    if said:
        return None if _condition(sentence, said.end()) else said["word"]
    for conclusion in _SO.finditer(sentence):
        if _PREDICATE.search(sentence, conclusion.end()):
            return _decided(sentence[conclusion.end() :])
    found = _PREDICATE.search(sentence)
    if found is None or HYPOTHETICAL.search(sentence) or IN_DOUBT.search(sentence):
        return None
    words = {word.lower() for word in _TRUTH.findall(sentence)}
    if len(words) > 1 or NEGATION.search(sentence[: found.start("denied") if found["denied"] else found.start("word")]):
        return None
    if words <= {"true", "false"} and not found["denied"]:
        return found["word"]
    return "true" if (words.pop() in ("true", "correct")) != bool(found["denied"]) else "false"


def _condition(text: str, position: int) -> re.Match[str] | None:
    """Return the condition on which the word that ends at a position holds, in English or another language."""
    return _ON_CONDITION.match(text, position) or ON_CONDITION.match(text, position)
