"""The letter that a response to a multiple choice takes, and the yes or no that a response begins with."""

from __future__ import annotations

import re

from tokur_cli.answers.latex import NO, YES, common_name
from tokur_cli.answers.markers import ENGLISH, LANGUAGES, language_of
from tokur_cli.answers.sentences import CAUSE, CORRECTION, IN_DOUBT, LETTER_OF_CHOICE, SENTENCE_END, SO, is_broken_off

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
    r"|不是|不选"
    r"|排除)"
    r"\s*(?:(?!but\b)\w\w+\s+){0,5}(?:option|choice|be|is)?\W*\Z"
)
_LABELLED = re.compile(r"\A\W{0,4}\(?([A-J])[).:](?=\s|\*|$)")
_LABELLED_LINES = re.compile(r"(?m)^\W{0,4}\(?([A-J])[).:](?=\s|\*|$)")
_SMALL = re.compile(r"(?<![^\s*:])\(([a-j])\)|\b(?:option|choice)\s+[a-j](?=[).\s]*(?:\Z|\n))")
_LABEL_ALONE = re.compile(
    r"(?i)(?:\A\W*|[^\w\s]\s*|\b(?:so|thus|therefore|hence|then)\s+|\A\s*the\s+)(?:option|choice|answer)\W*\Z"
)
_WORD_BEFORE = re.compile(r"(?i)(?<![a-z'])([a-z][a-z']*)\.?[ \"*_(]{0,6}\Z")
_LEADING_TO_A_CHOICE = frozenset(
    (
        "between chose chosen selected picked only just leaves leaving leave with for to that but then than "
        "matches match fits like prefer say "
        "think believe mark circle letter or and both because be as called labelled labeled either nor "
        "neither not over of eliminate out options choices answers letters that's it's there's maybe perhaps "
        "possibly actually really definitely probably clearly certainly hence so thus therefore now however "
        "instead indeed choose go elijo escojo choisis prends wähle nehme scelgo escolho marco la el die"
    ).split()
)
_AFFIRMED = re.compile(
    r"(?i)\)?[*_\"]{0,4}\s{0,3}(?:is|are|was|must be|would be|should be|seems?(?: to be)?|looks"
    r"|appears(?: to be)?|makes|works|fits"
    r"|satisf\w+|matches)\b"
)
_CALLED_RIGHT = re.compile(
    r"(?i)\)?[*_\"]{0,4}\s{0,3}(?:is|was|must be|would be|should be|has to be|seems)\s+(?:(?:clearly|definitely"
    r"|fully|more|the|our|my|most|probably)\s+)*"
    r"(?:right|correct|best|only (?:answer|choice|option|one)|answer|better|plausible|likely|accurate|appropriate"
    r"|suitable)\b"
)
_CONSIDERED = re.compile(
    r"(?i)\W{0,6}(?:(?:now|next|first|then),?\s)?(?:if|consider|check|suppose|assume|look at|let's (?:check"
    r"|consider|look)|let [A-J])\b"
)
_JOINED = re.compile(r"(?i)[\s,)]{0,3}(?:and|or|&)[\s(]{0,3}")
_EQUATED = re.compile(r"\s{0,3}=\s*[\d(\\$-]")

_VERDICT = "|".join(sorted(map(re.escape, YES | NO), key=len, reverse=True))
_OPENING = re.compile(
    rf"\A[\s*_#\"'>]*(?P<word>{_VERDICT})(?=\s*[*_]*\s*(?:[,.!:;–—]|-\s|$|\n)|\s\(|\s(?:it|he|she|they|there|this"
    rf"|that|we|you|i)\b)",
    re.IGNORECASE,
)
_LED = (
    r"(?:(?:so|thus|therefore|hence|overall|in short|in conclusion|in summary|(?:the\s+)?short answer|ultimately"
    r"|definitely|certainly|absolutely"
    r"|clearly|probably|most likely|i(?:'d| would) (?:say|lean towards?)|i think|i believe|well|hmm|sure|wait"
    r"|actually|(?:it's|that's|it is|that is)(?: an?)?)\s{0,3}[,:]?\s{0,3}(?:that\s+)?)"
)
_SAID = re.compile(rf"\A\W*{_LED}{{0,3}}(?P<word>{_VERDICT})(?=[\W_]*\Z|\s*[,;:–—])", re.IGNORECASE)
_DECIDED = re.compile(
    rf"\A\W*{_LED}{{0,3}}(?:(?:the|this|that)\s+(?:statement|claim|answer"
    rf"|assertion)\s+is\s+[*_]*)?(?P<word>{_VERDICT})[\W_]*\Z",
    re.IGNORECASE,
)
_ON_CONDITION = re.compile(
    r"[\s*_]{0,4}[,;:]?\s{0,3}(?:(?:but|though|although)\b[^.!?\n]{0,120}?)?\b(?:only\s+)?(?:if|when|unless"
    r"|provided)\b|\s{0,3},?\s{0,3}(?:and|or)\s+(?:yes|no)\b",
    re.IGNORECASE,
)


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
        del sentences[-1:]
    lone: str | None = None
    is_affirmed = is_labelled = False
    described: set[str] = set()
    last = True
    for sentence in reversed(sentences):
        letters = _letters(sentence)
        kept = [match for match in letters if not _denied(sentence, match)]
        language = language_of(sentence)
        if language != ENGLISH and LANGUAGES[language].is_unsure(sentence):
            continue
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
    return bool(word and word[1].lower() not in _LEADING_TO_A_CHOICE and not _CHOSEN.search(_before(sentence, letter)))


def _is_chosen(sentence: str, letter: re.Match[str]) -> bool:
    """Return whether words choose a letter; "option C says …" but names it."""
    if _CALLED_RIGHT.match(sentence, letter.end()):
        return True
    before = _before(sentence, letter)
    if not _CHOSEN.search(before):
        return False
    behind = sentence[letter.end() :].strip(' )*_."')
    return not _LABEL_ALONE.search(before) or not behind[:1].isalpha() or bool(_AFFIRMED.match(sentence, letter.end()))


def _before(sentence: str, letter: re.Match[str]) -> str:
    return sentence[max(0, letter.start() - _NEAR) : letter.start()]


def _denied(sentence: str, letter: re.Match[str]) -> bool:
    """Return whether a sentence rejects a letter: "not B", "A is wrong"."""
    return bool(
        _REJECTED_BEFORE.search(_before(sentence, letter))
        or _REJECTED_BEHIND.match(sentence[letter.end() : letter.end() + _NEAR])
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
    if first is None or CORRECTION.match(text[first.end() :].lstrip(" ,.!")):
        return None
    condition = _ON_CONDITION.match(text, first.end())
    if condition and not SENTENCE_END.search(text, first.end(), condition.end()):
        return None
    language = language_of(text)
    rest = SENTENCE_END.split(text[first.end() :], maxsplit=1)[0]
    if language != ENGLISH and first["word"].lower() in YES and LANGUAGES[language].is_unsure(rest):
        return None  # "Ja, aber nur wenn …"
    others = [_SAID.match(sentence) for sentence in SENTENCE_END.split(text[first.end() :])]
    decided = {common_name(found["word"]) for found in (first, *others) if found}
    return first["word"] if len(decided) == 1 else None


def closing_verdict(text: str) -> str | None:
    """Return the word that a text's last sentence is, but for what leads to it: "Therefore, the claim is false."."""
    sentences = [sentence for sentence in SENTENCE_END.split(text[-_TAIL:]) if sentence.strip()]
    last = _DECIDED.match(sentences[-1]) if sentences and not text.rstrip().endswith("?") else None
    return last["word"] if last else None
