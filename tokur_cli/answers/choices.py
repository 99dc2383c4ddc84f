"""The letter that a response to a multiple choice takes, and the yes or no that a response begins or ends with."""

from __future__ import annotations

import re

from tokur_cli.answers.latex import NO, YES
from tokur_cli.answers.markers import ENGLISH, LANGUAGES, language_of
from tokur_cli.answers.sentences import CORRECTION, LETTER_OF_CHOICE, SENTENCE_END, UNDECIDED, is_cut_off, main_clause

_TAIL = 4_000

_CHOSEN = re.compile(
    r"(?i)(?<![A-Za-z])(?:answer|choos\w*|pick\w*|select\w*|go(?:ing)? with|it's|it is|is|be|correct\w*|take"
    r"|opción|respuesta|alternativa|antwort|réponse|resposta|opção|letra|lettera|opzione|risposta|вариант|ответ"
    r"|cevap|pilihan|đáp án|chọn|antwoord"
    r"|选项?|選項?|答案|答え|正解|정답|답|번|विकल्प|उत्तर|ข้อ|ตอบ)\W*(?:(?:option|choice|é|es|est|ist)\b|は|是|은|는)?\W*\Z"
)
"""What chooses the letter behind it."""

_CALLED_CORRECT = re.compile(
    r"(?i)\)?[*_\"]{0,4}\s{0,3}(?:is|was|must be|would be|should be|has to be|seems)\s+(?:[a-z]+\s+){0,2}?"
    r"(?:right|correct|best|only (?:answer|choice|option|one)|answer|better|plausible|likely|accurate|appropriate)\b"
    r"|\)?\s+it is\b"
)
_CLAUSE = re.compile(r"(?i),?\s+(?=(?:but|so|therefore|hence)\b)|;\s")
_SMALL = re.compile(r"(?<![^\s*:])\(([a-j])\)|\b(?:option|choice)\s+[a-j](?=[).\s]*(?:\Z|\n))")
_NAME_BEFORE = re.compile(r"(?i)\b(?:vitamin|hepatitis|grade|plan|type|group|class|model|point|side|angle|team)\s\Z")
_VERDICT = "|".join(sorted(map(re.escape, YES | NO), key=len, reverse=True))
_OPENING = re.compile(
    rf"\A[\s*_#\"'>]*(?P<word>{_VERDICT})(?=\s*[*_]*\s*(?:[,.!:;–—]|-\s|$|\n)|\s\(|\s(?:it|he|she|they|there|this"
    rf"|that|we|you|i)\b)",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    rf"\A\W*(?:(?:so|thus|therefore|hence|overall|in conclusion)\W{{1,3}})?(?:(?:the|this|that)\s+"
    rf"(?:statement|claim|answer|assertion)\s+is\s+[*_]*)?(?P<word>{_VERDICT})[\W_]*\Z",
    re.IGNORECASE,
)
_OPEN = re.compile(r"(?i)\b(?:if|when|unless|provided)\b|\b(?:and|or)\s+(?:yes|no)\b")
"""What leaves a verdict open that stands before it."""


def chosen_letter(text: str) -> str | None:
    """Return the letter that a text chooses, or None where it chooses none or several.

    A clause that denies or doubts chooses none; a text with one letter in its other clauses chooses that.

    Args:
        text: in plain writing.
    """
    text = _SMALL.sub(lambda match: match[0].upper(), text)[-_TAIL:]
    sentences = [sentence for sentence in SENTENCE_END.split(text) if sentence.strip()]
    if text.rstrip().endswith(("?", ":")) or is_cut_off(text):
        del sentences[-1:]
    named: set[str] = set()
    for sentence in reversed(sentences):
        language = language_of(sentence)
        for clause in reversed(_CLAUSE.split(main_clause(sentence, language))):
            if LANGUAGES[language].is_unsure(clause):
                continue
            chosen: set[str] = set()
            for letter in LETTER_OF_CHOICE.finditer(clause):
                before = clause[: letter.start()]
                if _NAME_BEFORE.search(before):
                    continue
                name = letter[1] or letter[2]
                named.add(name)
                is_chosen = _CHOSEN.search(before) or _CALLED_CORRECT.match(clause, letter.end())
                if is_chosen and not UNDECIDED.match(clause, letter.start()):
                    chosen.add(name)
            if len(chosen) == 1:
                return chosen.pop()
    return named.pop() if len(named) == 1 else None


def opening_verdict(text: str) -> str | None:
    """Return the word by which a text decides at its beginning, None where it has none or leaves it open.

    Args:
        text: in plain writing: "No, 9 is divisible by 3.", not "No. 5 is the best.".
    """
    first = _OPENING.match(text)
    if first is None or CORRECTION.match(text[first.end() :].lstrip(" ,.!")):
        return None
    language = language_of(text[:_TAIL])
    rest = SENTENCE_END.split(text[first.end() : _TAIL], maxsplit=1)[0]
    is_unsure = language != ENGLISH and first["word"].lower() in YES and LANGUAGES[language].is_unsure(rest)
    return None if is_unsure or _OPEN.search(rest) else first["word"]  # "Ja, aber nur wenn …"


def closing_verdict(text: str) -> str | None:
    """Return the word that a text's last sentence is, but for what leads to it: "Therefore, the claim is false."."""
    sentences = [sentence for sentence in SENTENCE_END.split(text[-_TAIL:]) if sentence.strip()]
    last = _DECIDED.match(sentences[-1]) if sentences and not text.rstrip().endswith("?") else None
    return last["word"] if last else None
