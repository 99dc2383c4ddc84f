"""The letter that a response to a multiple choice takes, and the yes or no that a response begins or ends with."""

from __future__ import annotations

import re

from tokur_cli.answers.latex import NO, YES
from tokur_cli.answers.markers import ENGLISH, LANGUAGES, language_of
from tokur_cli.answers.sentences import CORRECTION, LETTER_OF_CHOICE, SENTENCE_END, is_cut_off, main_clause

_TAIL = 4_000
_NEAR = 80  # characters before a letter in which a word may choose or reject it

_CHOSEN = re.compile(
    r"(?i)(?<![A-Za-z])(?:option|choice|answer|choos\w*|pick\w*|select\w*|go(?:ing)? with|it's|it is|is|be"
    r"|correct\w*|therefore|so|thus|take"
    r"|opción|respuesta|alternativa|antwort|réponse|resposta|opção|letra|lettera|opzione|risposta|вариант|ответ"
    r"|cevap|pilihan|đáp án|chọn|antwoord"
    r"|选项?|選項?|答案|答え|正解|정답|답|번|विकल्प|उत्तर|ข้อ|ตอบ)\W*(?:é|es|est|ist|は|是|은|는)?\W*\Z"
)
"""What chooses the letter behind it."""

_REJECTED_BEHIND = re.compile(
    r"(?i)\)?\s*(?:(?:,|and|&|or)\s*\(?[A-J]\)?\s*)*(?:is|are|was|were|can be|must be|isn't|aren't)?\s*"
    r"(?:(?:also|both|all|clearly|obviously|definitely|probably|simply|just)\s+)?"
    r"(?:not|ruled out|eliminated|excluded|discarded|correct(?<=n't correct)|wrong|incorrect|false|out|too)"
)
_REJECTED_BEFORE = re.compile(
    r"(?i)(?:\bnot|n't|\bneither|\bnor|rather than|instead of|\bover|rul\w+ out|eliminat\w+|exclud\w+|\bunlike"
    r"|不是|不选|排除)\s*(?:(?!but\b)\w\w+\s+){0,5}(?:option|choice|be|is)?\W*\Z"
)
_SMALL = re.compile(r"(?<![^\s*:])\(([a-j])\)|\b(?:option|choice)\s+[a-j](?=[).\s]*(?:\Z|\n))")
_NAME_BEFORE = re.compile(r"(?i)\b(?:vitamin|hepatitis|grade|plan|type|group|class|model|point|side|angle|team)\s\Z")
_OR_ANOTHER = re.compile(r"\)?\s*(?:,?\s*or\b|/)\s*\(?[A-J]\b")
_CALLED_RIGHT = re.compile(
    r"(?i)\)?[*_\"]{0,4}\s{0,3}(?:is|was|must be|would be|should be|has to be|seems)\s+(?:(?:clearly|definitely"
    r"|fully|more|the|our|my|most|probably)\s+)*"
    r"(?:right|correct|best|only (?:answer|choice|option|one)|answer|better|plausible|likely|accurate|appropriate"
    r"|suitable)\b"
)
_VERDICT = "|".join(sorted(map(re.escape, YES | NO), key=len, reverse=True))
_OPENING = re.compile(
    rf"\A[\s*_#\"'>]*(?P<word>{_VERDICT})(?=\s*[*_]*\s*(?:[,.!:;–—]|-\s|$|\n)|\s\(|\s(?:it|he|she|they|there|this"
    rf"|that|we|you|i)\b)",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    rf"\A\W*(?:(?:so|thus|therefore|hence|overall|in conclusion)\s{{0,3}},?\s{{0,3}})?(?:(?:the|this|that)\s+"
    rf"(?:statement|claim|answer|assertion)\s+is\s+[*_]*)?(?P<word>{_VERDICT})[\W_]*\Z",
    re.IGNORECASE,
)
_ON_CONDITION = re.compile(
    r"[ *_]{0,4}[,;:]? {0,3}(?:(?:but|though|although)\b[^.!?\n]{0,120}?)?\b(?:only\s+)?(?:if|when|unless"
    r"|provided)\b|\s{0,3},?\s{0,3}(?:and|or)\s+(?:yes|no)\b",
    re.IGNORECASE,
)


def chosen_letter(text: str) -> str | None:
    """Return the letter that a text chooses, or None where it chooses none or several.

    Args:
        text: in plain writing.
    """
    text = _SMALL.sub(lambda match: match[0].upper(), text)[-_TAIL:]
    sentences = [sentence for sentence in SENTENCE_END.split(text) if sentence.strip()]
    if text.rstrip().endswith(("?", ":")) or is_cut_off(text):
        del sentences[-1:]
    lone: str | None = None
    others: set[str] = set()
    for sentence in reversed(sentences):
        language = language_of(sentence)
        main = main_clause(sentence, language)
        if not main.strip() or (language != ENGLISH and LANGUAGES[language].is_unsure(sentence)):
            continue
        kept = [match for match in LETTER_OF_CHOICE.finditer(main) if not _is_rejected(main, match)]
        for clause in (main, main[main.rfind(" but ") :]):  # "B is tempting, but C is the better choice"
            start = len(main) - len(clause)
            chosen = {_name(match) for match in kept if match.start() >= start and _is_chosen(main, match)}
            if len(chosen) == 1:
                return chosen.pop()
        names = {_name(match) for match in kept}
        if len(names) == 1 and lone is None and not others:
            lone = names.pop()
        others |= names
    return lone if others <= {lone} else None


def _is_rejected(sentence: str, letter: re.Match[str]) -> bool:
    """Return whether a sentence rejects a letter, "not B", "A is wrong", or has it in a name, "vitamin C"."""
    before = sentence[max(0, letter.start() - _NEAR) : letter.start()]
    behind = sentence[letter.end() : letter.end() + _NEAR]
    return bool(_REJECTED_BEFORE.search(before) or _REJECTED_BEHIND.match(behind) or _NAME_BEFORE.search(before))


def _is_chosen(sentence: str, letter: re.Match[str]) -> bool:
    """Return whether words choose a letter; "option C says …" but names it."""
    if _OR_ANOTHER.match(sentence, letter.end()):
        return False
    if _CALLED_RIGHT.match(sentence, letter.end()):
        return True
    behind = sentence[letter.end() :].strip(' )*_."')
    before = sentence[max(0, letter.start() - _NEAR) : letter.start()]
    return bool(_CHOSEN.search(before)) and (
        not behind[:1].isalpha() or not before.lower().endswith(("option ", "choice "))
    )


def _name(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def opening_verdict(text: str) -> str | None:
    """Return the word by which a text decides at its beginning, None where it has none or leaves it open.

    Args:
        text: in plain writing: "No, 9 is divisible by 3.", not "No. 5 is the best.".
    """
    text = text[:_TAIL]
    first = _OPENING.match(text)
    if first is None or CORRECTION.match(text[first.end() :].lstrip(" ,.!")) or _ON_CONDITION.match(text, first.end()):
        return None
    language = language_of(text)
    rest = SENTENCE_END.split(text[first.end() :], maxsplit=1)[0]
    is_unsure = first["word"].lower() in YES and LANGUAGES[language].is_unsure(rest)
    return None if is_unsure else first["word"]  # "Ja, aber nur wenn …"


def closing_verdict(text: str) -> str | None:
    """Return the word that a text's last sentence is, but for what leads to it: "Therefore, the claim is false."."""
    sentences = [sentence for sentence in SENTENCE_END.split(text[-_TAIL:]) if sentence.strip()]
    last = _DECIDED.match(sentences[-1]) if sentences and not text.rstrip().endswith("?") else None
    return last["word"] if last else None
