r"""What a sentence states: the answer behind a marker, and the one that a text's closing sentences come to.

One answer is read, or none: where a sentence has two numbers and nothing tells which is meant, there is no answer. The
rules of English are here; a sentence in another language is read by its row in ``markers``, or by its one number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokur_cli.answers.calculations import JOINT, UNFINISHED, last_result, without_working
from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.latex import TEXT_GROUP
from tokur_cli.answers.markers import ENGLISH, LANGUAGES, language_of
from tokur_cli.answers.numbers import LETTER, Amount, amounts, read_number

SENTENCE_END = re.compile(
    r"(?:(?<!\d)\.|(?<=\d)\.|[!?]+(?!(?<=\d!)\s*[-+*/×·÷=]))(?=\s|$|[\"')\]](?:\s|$))(?!(?:(?<=\b(?:oz|lb|ft|hr|sq|vs"
    r"|No|no|Mr|Ms|Dr)\.)|(?<=\b(?:lbs|hrs|min|Mrs|тыс|млн|Mio|Mrd)\.)|(?<=\bapprox\.))\s[a-zа-яż\d])(?<!\b(?:Mr|Ms"
    r"|Dr)\.)(?<!\b(?:Mrs|i\.e|e\.g)\.)|[!?](?=[^\W\d_])|\n"
)
"""Where a sentence ends, in plain writing."""

MATH = re.compile(
    r"\$\$([^$]{1,1500})\$\$|\\\[(.{1,1500}?)\\\]|\\\((.{1,1500}?)\\\)"
    # "$12 + $4" and "$12 = $ 12" are money.
    r"|(?<![\\$\d])\$(?!\$)([^$\n]{1,300})(?<!\\)(?<![-+*/=])(?<![-+*/=]\s)\$(?!\d)",
    re.DOTALL,
)
CORRECTION = re.compile(
    r"(?i)(?:\b(?:wait|hold on|no,|no(?=\W+wait)|oops|i mean|i meant|sorry|scratch that|correction|edit(?=:)|actually"
    r"|let me (?:re|check|correct)|on second thou?ght|i made a mistake|hmm)(?![^\W_])|等等|不对|不對)"
)
"""Words that take back what was said before them."""

NEGATION = re.compile(
    r"(?i)\b(?:not|never|neither|nor|cannot|\w+n't|no (?:longer|(?:real |such )?(?:solutions?|answers?|numbers?"
    r"|values?|ways?)|one)|incorrect|wrong|unknown|unclear|impossible|undefined|undetermined)(?![^\W_])"
)
SO = re.compile(r"(?i)\b(?:so|thus|therefore|hence|consequently)(?![^\W_])")
CAUSE = re.compile(r"(?i)[,;]?\s*(?:\b(?:because|since)\b|因为|因為|由于|由於)")
"""Where the reason for an answer begins."""

_UNDETERMINED = re.compile(
    r"(?i)\b(?:I (?:cannot|can't|could not|couldn't|am unable to)|(?:cannot|can't|could not) be|\w*(?:not|n't) enough"
    r"|insufficient|impossible to"
    r"|(?:but|however|although|though)\b[^.!?]{0,60}?\b(?:wrong|incorrect|not (?:right|correct|true)))\b"
)
_IN_DOUBT = re.compile(
    r"(?i)\A\W*(?:let|assume|suppose|given|next|first|to find|recall)\b|\b(?:would have|doubt|guess\w*|wants?"
    r"|supposed to|otherwise|either|can't decide|not sure|unsure|might|may be|could|maybe|perhaps|possibly)\b"
)
"""Words of a sentence that supposes, doubts, or leaves it open which of several is meant."""

_DENIED = re.compile(r"(?i)(?:n't|\b(?:not|never|no))\s+(?:[a-z]+\s+){0,2}\Z")
_CONTRAST = re.compile(
    r"(?i)[,;]?\s*(?:\b(?:rather than|instead of|as opposed to|unlike|out of)\b|,\s+(?:not|no)\b"
    r"|\bnot\b(?=\s*(?:\S+\s){0,2}[^\s\w]?\d))|\s+[-–—]\s+(?=[^\W\d_]{2})|\s+—|\s+--\s"
)
"""Where what an answer is told apart from begins."""

_ASIDE = re.compile(r"(?<=\S)\s*\((?:[\d.,]+\s?[A-Za-z]+|[^()]*[^\W\d_]{2}[^()]*|[^()]*=[^()]*)\)")
_RESULT = re.compile(
    r"(?i)\b(?:(?:which|that|this) (?:is|equals|makes|gives|leaves)(?: us)?|that is,?|i\.e\.,?|namely"
    r"|(?:is )?equal to|gives us|(?<!after )(?<!before )(?<!by )giving(?: (?:us|him|her|them|it))?"
    r"|making(?: a total of)?|we get|makes a total of|a total of|totals?|rounds? (?:up |down )?to|rounded (?:up "
    r"|down )?to)(?![^\W_])[\s,:]*"
)
"""Words that give the result of what stands before them."""

_BOUND_BEFORE = re.compile(
    r"(?i)(?:\b(?:(?:more|less|fewer|greater|larger|smaller|higher|lower) than|at (?:least|most)|between|from|over"
    r"|under|(?<!add )(?<!adds )(?<!added )up to|above|below|(?:minimum|maximum)(?: of)?|hardly|nowhere near"
    r"|anything but|except(?: for)?|excluding|other than|apart from|besides|all but)|[><≥≤≠]|\\(?:ge|le|ne|geq|leq"
    r"|neq)(?![A-Za-z]))\s*\Z"
)
QUALIFIED = re.compile(
    r"以上|以下|未満|未满|不到|多于|少于|超过|最多|至少|미만|이상|이하|초과|より(?:大き|小さ|多|少な)"
    r"|\b(?:or (?:more|less|so|fewer)|at (?:least|most)|squared|cubed|factorial|(?:raised )?to the (?:\w+ )?power"
    r"|mod(?:ulo)?|choose)\b"
)
_RANGE = re.compile(
    r"\s?[-–—~]\s?(?=\d)|\s(?:to|bis|a|à|до|至|or|oder|o|ou|или|of)\s?(?=[-+]?\s?[$€£¥]?\d)"
    r"|\s?(?:から|至|到|或|或者|또는|か|이나)\s?(?=\d)|\s?(?:±|\\pm)"
)


def goes_on(text: str, end: int) -> bool:
    """Return whether what ends at ``end`` is but the first of several: the 10 of "10-12" and of "10 or 12"."""
    return bool(_RANGE.match(text, end))


LEADING_CHOICE = re.compile(
    r"(?:(?:so|then|option|choice|la|el|a|le|die|opción|opção|alternativa|lettre|lettera|letra|buchstabe|antwort"
    r"|opzione|вариант|pilihan|phương án|câu|ข้อ|विकल्प|选项|選項|选|選)\s*){0,2}\(?([B-HJ]|A(?!\s+(?!or\b|and\b|is\b"
    r"|because\b|since\b|as\b|but\b)[a-z]))(?![A-Za-z0-9\u00c0-\u024f'])\)?(?=[\s.,:;)*]|$|[^\x00-\x7f])(?!\s*[=<>])"
)
LETTER_OF_CHOICE = re.compile(
    r"\(([A-J])\)|(?<![A-Za-z0-9\u00c0-\u024f'$\\])(?:([B-HJ])|(A)(?!\s+(?!or\b|and\b|is\b|was\b|because\b|since\b"
    r"|as\b|but\b)[a-z]))(?![A-Za-z0-9\u00c0-\u024f'$])"
)
"""A letter of a multiple choice in a text; an 'A' before a word is an article."""

_LEADING_MARKS = re.compile(r"\A(?:\n\s*[-–•·]\s+|[\s:*#_\"'>]|\\\"|,(?=\s)|\.{2,})*")
_LETTERS = re.compile(r"\(?[A-J]\)?(?:\s*(?:,|&|,?\s*\band\b)\s*\(?[A-J]\)?(?![A-Za-z]))+")
_UNDECIDED = re.compile(r"\W*(?i:either\s+)?\(?[A-J]\)?\W*(?i:or|/)\W*\(?[A-J]\b")
_PROSE = re.compile(
    rf"(?<![\\{LETTER}\d])(?:(?!(?:sin|cos|tan|log|exp|mod|and|pmod)\b)[{LETTER}]{{3,}}"
    r"|(?i:so|is|it|we|he|in|of|to|at|by|on|as|be|if|an|my|no|up)\b)|[\u3040-\ud7ff]|[\u0400-\u1fff]{2}"
)
_WITH_ANOTHER = re.compile(
    r"(?i)(?P<of>\s{1,3}of\s+)?(?(of)|\s{1,3}(?:[a-z]+\s+)?(?:(?:more|less|fewer|[a-z]+er)\s+than|times|choose|mod"
    r"|plus|minus|divided by|multiplied by|to the power of)\s+)(?:the\s+)?[$€£]?(?:\d|\\frac)"
)
_DANGLING = re.compile(
    r"(?i)\b(?:which|who|that|and|so|then|but|or|the|an?|is|are|was|will|to|of|for|in|on|at|with|by|from|than|because"
    r"|since|making|giving|leaving|equals|gives|he|she|we|they|it|i|has|have)\s*\Z"
)
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\ud7ff]")
_PAIR = re.compile(
    r"\((?:[-+]?\d[\d./]*|\\frac\{\d+\}\{\d+\}|[-+]?[a-z]),\s*[^(),]{1,30}(?:,\s*[^(),]{1,30})?\)"
    r"|(?<![\d:])\d+(?:\s?:\s?\d+)+(?![\d:])(?<!:\d\d)"
)
_NAME = re.compile(r"([A-Z][^\d,]*), ")
_OPERATOR = r"(?:[-+*/×·÷^]|\\(?:times|cdot|div))"
_OPERATOR_BEHIND = re.compile(rf"\s*{_OPERATOR}\s*[\d($]|\s+[+×÷]\s+[A-Za-z]")
_OPERATOR_BEFORE = re.compile(rf"(?:[\d)]|(?<![A-Za-z])[A-Za-z])\s*{_OPERATOR}\s*\Z")
_ENDED = re.compile(r"[.!?:;)\]}%$\"'*_>|]\s*\Z|[\d\U0001f300-\U0001faff]\s*\Z")
_SOLVED = re.compile(
    r"(?i)(?:\A|\b(?:so|then|therefore|thus|hence|giv(?:es|ing)|get|have|means|yields|produces)\b)[^=]*=\s*"
)
"""What leads to the only equation of a sentence, or to the one that it draws from others."""

_UNSOLVED = re.compile(
    r"(?:[≠<>≤≥]|!=|\\(?:ne|le|ge|lt|gt|neq|leq|geq))\s*\Z|(?:\d\s?[a-zA-Z]|(?<![A-Za-z])[a-zA-Z]\s?(?:\^\S+|[²³]"
    r"|[-+*/]\s?\w+)|(?<![\w])-\s?[a-zA-Z]|\d+/[a-zA-Z])\s*=\s*\Z"
)
_GIVEN = re.compile(
    r"(?i)\b(?:the|these|those|all|both|his|her|their|its|my|our|your)\s+(?:[a-z]+\s+of\s+(?:the|these|those)\s+)?\Z"
)
_PREDICATE = re.compile(
    r"(?i)\b(?:is|are|equals?|leaves|gives|yields|makes|totals|costs?|will\s+[a-z]+)(?:\s+us)?\s+"
    r"(?:(?:about|approximately|exactly|only|just|then|therefore)\s+)?\Z"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """An answer that a text states, and where its statement ends."""

    text: str
    end: int


def is_prose(text: str) -> bool:
    """Return whether a text has words in it that belong to no formula."""
    return bool(_PROSE.search(TEXT_GROUP.sub(" ", text)))


def word_count(text: str) -> int:
    """Return how many words a text has, two characters for one where a script has no spaces."""
    wide = len(_WIDE.findall(text))
    return len(_WIDE.sub(" ", text).split()) + (wide + 1) // 2


def is_answer_alone(text: str) -> bool:
    """Return whether a text is an answer and nothing else: no prose but up to three words."""
    text = text.strip()
    if UNFINISHED.search(text) or len(text) > 200 or "\n" in text:
        return False
    form = canonical(text)
    if not any(character.isalnum() for character in form.text) or re.search(r"\\boxed\{\s*(?:\}|\Z)", text):
        return False
    if form.kind == "words":
        return word_count(text) <= 3
    return form.kind in ("number", "choice") or not is_prose(text)


def is_cut_off(sentence: str) -> bool:
    """Return whether a last sentence ends within a formula."""
    sentence = sentence.rstrip("*_ \n")
    return bool(UNFINISHED.search(sentence)) or sentence.count("{") > sentence.count("}")


def is_broken_off(text: str) -> bool:
    """Return whether a text ends with a word that another must follow: "The answer is"."""
    return bool(_DANGLING.search(text[-20:]))


def is_undecided(text: str) -> bool:
    """Return whether a text begins with two letters of which one is meant: "either B or C"."""
    return bool(_UNDECIDED.match(text))


def only(found: list[Amount]) -> str | None:
    """Return the one value of several amounts, None for none or several."""
    return found[0].text if len({amount.value for amount in found}) == 1 else None


def stated(following: str, *, letters: bool, language: str, worked: str = "", lead: str = "") -> Statement | None:
    """Return the answer that stands behind a marker such as "the answer is", or None where it is not one for sure.

    Args:
        following: what comes after the marker, in plain writing with decimal points.
        letters: whether a letter is wanted.
        language: the marker's, as its ISO 639-1 code.
        worked: what comes before the marker, whose last result may tell which of several numbers is meant.
        lead: the marker itself, which may deny what it announces ("La respuesta no es").
    """
    marks = _LEADING_MARKS.match(following)
    start = marks.end() if marks else 0
    rest = following[start:]
    if NEGATION.search(lead) if language == ENGLISH else LANGUAGES[language].is_unsure(lead):
        return None
    math = MATH.match(rest)
    if math:
        formula = _whole_formula(rest, math)
        return Statement(formula, start + len(formula)) if "boxed{}" not in formula else None
    end = SENTENCE_END.search(rest)
    sentence = rest[: end.start()] if end else rest
    if (end is None and is_cut_off(sentence)) or (end and end[0].startswith("?")):
        return None
    text = _behind_marker(sentence, letters, language, worked)
    return Statement(text, start + (end.end() if end else len(rest))) if text else None


def _behind_marker(sentence: str, letters: bool, language: str, worked: str) -> str | None:
    """Return what the sentence behind a marker states: alone, or within words."""
    main = _main_clause(sentence, language)
    if LANGUAGES[language].is_unsure(re.split(r"[,;]\s", main)[0]) or (letters and is_undecided(main)):
        return None
    letter = LEADING_CHOICE.match(main)
    if letter:
        several = _LETTERS.match(main)
        return several[0] if several else letter[1].upper()
    main = main if canonical(main).number else without_working(main) or main
    is_range = any(goes_on(main, amount.end) for amount in amounts(main)[:1])
    if canonical(main).kind in ("number", "choice") or not (is_prose(main) or is_range):
        return main
    found = _readings(main)
    if not found:
        return main if word_count(main) <= 6 and not NEGATION.search(main) else None
    if word_count(main) <= 3 and not only(found) and not goes_on(main, found[0].end):
        return main  # March 5, 2024
    name = _NAME.match(main)
    if name and word_count(name[1]) <= 4 and not SO.match(name[1]):
        return name[1]
    return _concluded(main, worked, language, is_marked=True)


def closing(text: str, *, language: str | None = None) -> str | None:
    """Return the answer that a text's last sentences come to, or None where they do not for sure.

    The last sentence with a number or formula counts: the result of its calculation, else its one number, where that is
    what was worked out before or the sentence draws a conclusion, else the one of its numbers that was worked out.

    Args:
        text: in plain writing.
        language: the text's, as its ISO 639-1 code; None to tell it from the text's words.
    """
    language = language or language_of(text[-500:])
    if is_cut_off(text[-300:].rpartition("\n")[2]) or is_broken_off(text):
        return None
    sentences = _sentences(LANGUAGES[language].with_points(text[-4_000:]))
    for index in range(len(sentences) - 1, -1, -1):
        sentence = sentences[index]
        if re.search(r"[?:]\s*\Z", sentence):
            return None
        found = _readings(sentence)
        is_cut = index == len(sentences) - 1 and not _ENDED.search(text[-300:])  # by a limit on tokens
        if is_cut and (not found or word_count(sentence[found[-1].end :].partition(",")[2]) > 2):
            return None
        if found:
            return _concluded(sentence, "\n".join(sentences[:index]), language, is_marked=False)
        if NEGATION.match(sentence):
            return None
    return None


def _main_clause(sentence: str, language: str) -> str:
    """Return a sentence without asides, words that are taken back, reasons and contrasts."""
    sentence = _ASIDE.sub("", sentence)
    if language != ENGLISH:
        cause = CAUSE.search(sentence)
        return sentence[: cause.start()] if cause and cause.start() else sentence
    corrected = CORRECTION.search(sentence)
    if corrected and corrected.start():
        sentence = sentence[corrected.end() :].lstrip(" ,:")
    for cue in (CAUSE, _CONTRAST):
        cut = cue.search(sentence)
        before, behind = (sentence[: cut.start()], sentence[cut.start() :]) if cut else ("", "")
        if before and "=" not in behind and (re.search(r"\d", before) or not re.search(r"\d", behind)):
            sentence = before.rstrip(" ,;")
    return sentence


def _concluded(sentence: str, worked: str, language: str, *, is_marked: bool) -> str | None:
    """Return the one answer that a sentence with numbers states, None where it may be another.

    Args:
        sentence: in plain writing.
        worked: what comes before it.
        language: as its ISO 639-1 code.
        is_marked: whether a marker announces that it states the answer.
    """
    row = LANGUAGES[language]
    main = _main_clause(sentence, language)
    if _UNDETERMINED.search(sentence) if language == ENGLISH else row.is_unsure(main):
        return None
    found = [amount for amount in _readings(main) if not _is_operand(main, amount)]
    worth = _worked_out(worked)
    result = last_result(main)
    if result:
        return _of_calculation(main, found, result)
    if _IN_DOUBT.search(main):
        return None
    equation = max(_SOLVED.finditer(main), key=re.Match.end, default=None)
    equal = only([amount for amount in found if equation and amount.end > equation.end()])
    if equation and equal and not _UNSOLVED.search(main[: equation.end()]):
        return equal
    if not found or QUALIFIED.search(main):
        return None
    said = max(_RESULT.finditer(main), key=re.Match.end, default=None)
    behind = [amount for amount in found if said and 0 <= amount.start - said.end() <= 2]
    if behind and not _is_computed_with(main, behind[0]):
        return behind[0].text
    if any(_is_dismissed(main, amount) for amount in found):
        return _resolved([amount for amount in found if not _is_dismissed(main, amount)], worth)
    concludes = row.concludes(main)
    so = max(SO.finditer(main), key=re.Match.end, default=None) if language == ENGLISH else concludes
    if is_marked and language == ENGLISH and word_count(main[: found[0].start]) <= 2:
        return found[0].text
    drawn = [amount for amount in found if so and amount.start >= so.end()]
    new = [amount for amount in found if not _GIVEN.search(main[: amount.start])]
    one = next(filter(only, (found, drawn, new)), None)
    if one is None:
        last = found[-1]
        is_predicate = _PREDICATE.search(main[: last.start]) and word_count(main[last.end :]) <= 3
        return last.text if is_predicate and worth in (None, last.value) else _resolved(found, worth)
    if is_marked or concludes or worth in (None, one[0].value):
        return one[-1].text
    # A sentence that only repeats a number of the calculation right before it adds nothing to its result.
    before = worked.rpartition("\n")[2]
    known = amounts(before)
    return _resolved(known, worth) if one[0].value in {amount.value for amount in known} else None


def _is_dismissed(text: str, amount: Amount) -> bool:
    """Return whether words make a bound, a range, a denial or something else of an amount."""
    before = text[: amount.start].rstrip() + " "
    return bool(
        _BOUND_BEFORE.search(before)
        or _DENIED.search(before)
        or _UNSOLVED.search(before)
        or goes_on(text, amount.end)
        or _is_computed_with(text, amount)
    )


def _of_calculation(main: str, found: list[Amount], result: tuple[int, int]) -> str | None:
    """Return the result of a sentence's calculation; None where other numbers follow."""
    later = [amount for amount in found if amount.start >= result[1] and not _GIVEN.search(main[: amount.start])]
    if {amount.value for amount in later} - {amount.value for amount in found if amount.start < result[1]}:
        return None
    number = next((amount for amount in found if amount.start >= result[0] - 1), None)
    return number.text if number and number.start <= result[1] else main[slice(*result)].strip()


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, formulas whole, without blank ones."""
    formulas = [math.span() for math in MATH.finditer(text)]
    pieces, start = [], 0
    for end in SENTENCE_END.finditer(text):
        if not any(first < end.start() < last for first, last in formulas):
            pieces.append(text[start : end.end()])
            start = end.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if any(character.isalnum() for character in piece)]


def _readings(sentence: str) -> list[Amount]:
    """Return the amounts of a sentence and the formulas that are more than a name."""
    pair = _PAIR.search(sentence)
    if pair and not MATH.search(sentence):
        behind = [amount.shifted(pair.end()) for amount in amounts(sentence[pair.end() :])]
        found = [Amount(pair.start(), pair.end(), pair[0], None), *behind]
        return amounts(sentence[: pair.start()]) + found
    found = []
    position = 0
    for math in MATH.finditer(sentence):
        if math.start() < position:
            continue  # joined to the one before
        found += [amount.shifted(position) for amount in amounts(sentence[position : math.start()])]
        content = next(group for group in math.groups() if group is not None)
        position = math.end()
        if re.search(r"\d|\\[a-z]", content) and not is_prose(content):
            formula = _whole_formula(sentence, math)
            position = math.start() + len(formula)
            found.append(Amount(math.start(), position, formula, canonical(formula).number))
    found += [amount.shifted(position) for amount in amounts(sentence[position:])]
    return found or amounts(sentence, spelled=True)


def _whole_formula(text: str, math: re.Match[str]) -> str:
    """Return a formula, with the formulas that ``and``, ``or`` or a comma join to it."""
    end = math.end()
    while (joined := JOINT.match(text, end)) and (following := MATH.match(text, joined.end())):
        end = following.end()
    return text[math.start() : end]


def _is_operand(text: str, amount: Amount) -> bool:
    """Return whether an amount belongs to a calculation, such as the 48 of "48+15 books"."""
    before = text[: amount.start]
    is_signed = amount.text[0] in "+-" and re.search(r"\d\s*\Z", before)
    return bool(is_signed or _OPERATOR_BEHIND.match(text, amount.end) or _OPERATOR_BEFORE.search(before))


def _is_computed_with(text: str, amount: Amount) -> bool:
    """Return whether words compute something with an amount: "3 more than 5", "a quarter of 20"."""
    another = _WITH_ANOTHER.match(text, amount.end)
    if another is None or not another["of"]:
        return another is not None
    number = amount.number
    return number is not None and (number.value.denominator != 1 or number.scale < 1)


def _resolved(found: list[Amount], worth: object) -> str | None:
    """Return the one of several amounts that the working before comes to, None where it is none of them."""
    return next((amount.text for amount in found if amount.value == worth), None)


def _worked_out(text: str) -> object:
    """Return the value of the last calculation in a text, or of what its words call a result; None for neither."""
    last: object = None
    for sentence in re.split(r"\n|(?<=[.!?])\s", text[-2_000:]):
        flat = MATH.sub(lambda math: f" {next(group for group in math.groups() if group is not None)} ", sentence)
        result = last_result(flat)
        if result:
            number = read_number(flat[slice(*result)].strip().lstrip("\\"))
            last = number.value * number.scale if number else last
        for words in _RESULT.finditer(flat, result[1] if result else 0):
            behind = amounts(flat[words.end() : words.end() + 40])
            if behind and behind[0].start <= 2:
                last = behind[0].value
    return last
