r"""What a text states: the answer behind a marker, and the one that its closing sentences come to.

One answer is read, or none: where a statement has two numbers and nothing tells which is meant, there is no answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from tokur_cli.answers.reading.amounts import Amount, amounts, goes_on, shown
from tokur_cli.answers.reading.boxes import TEXT_GROUP
from tokur_cli.answers.reading.calculations import JOINT, UNFINISHED, last_result, without_working
from tokur_cli.answers.reading.canonical import Canonical, canonical
from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.languages import ENGLISH
from tokur_cli.answers.reading.letters import told_apart
from tokur_cli.answers.reading.lexicon import (
    ASIDE,
    BOUND_BEFORE,
    CAUSE,
    CONTRAST,
    COPULA_BEHIND,
    CORRECTION,
    DENIED_BEFORE,
    DENIED_BEHIND,
    FUNCTION_BEFORE,
    HEAVY_WORDS,
    IN_DOUBT,
    LEADING_CHOICE,
    LETTER_OF_CHOICE,
    NEGATION,
    OTHERWISE,
    RESULT_WORDS,
    TAKEN_BACK,
    UNDETERMINED,
)
from tokur_cli.answers.reading.numbers import LETTER, QUALIFIED, read_number

_CLOSING_WORDS = expression(r"\.?\s*I hope (?:it|this) is correct.*", re.DOTALL | re.IGNORECASE)
_LEADING_MARKS = expression(r"\A(?:[\s:*#_\"'>]|\\\"|,(?=\s)|\.{2,})*")
_BULLET = expression(r"\A[\s:*#_]*\n\s*(?:[-–•·]|\d{1,2}[.)](?=\s))\s+")
SENTENCE_END = expression(
    r"(?:(?<!\d)\.|(?<=\d)\.(?!\s(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|maj|mars|led|úno|bře|dub|kvě|čer|srp|zář|říj|lis|pro)[a-zä]*\b)|[!?]+(?!(?<=\d!)\s*[-+*/×·÷=]))(?=\s|$|[\"')\]](?:\s|$))"
    r"(?!(?:(?<=\b(?:oz|lb|ft|hr|sq|vs|No|no|Mr|Ms|Dr)\.)|(?<=\b(?:lbs|hrs|min|Mrs|тыс|млн|Mio|Mrd|tys|mln|mld)\.)|(?<=\bмлрд\.)|(?<=\bapprox\.))\s[a-zа-яż\d])(?<!\b(?:Mr|Ms|Dr)\.)(?<!\b(?:Mrs|i\.e|e\.g)\.)"
    r"|[!?](?=[^\W\d_])|\n"
)
"""Where a sentence ends, in plain writing."""

MATH = expression(
    r"\$\$([^$]{1,1500})\$\$|\\\[(.{1,1500}?)\\\]|\\\((.{1,1500}?)\\\)"
    # "$12 + $4" and "$12 = $ 12" are money.
    r"|(?<![\\$\d])\$(?!\$)([^$\n]{1,300})(?<!\\)(?<![-+*/=])(?<![-+*/=]\s)\$(?!\d)",
    re.DOTALL,
)
_TERM = (
    r"(?=[\d.√π\\]|sqrt|pi\b|[A-Za-z]\b)(?:[\d.,]*\d)?"
    r"(?:\s?(?:√|\\?sqrt)\s?(?:\d+|\{[^{}]*\}|\([^()]*\))|\s?\\?(?:π|pi\b)|\\frac\{[^{}]*\}\{[^{}]*\}"
    r"|(?!a\s)[A-Za-z](?![A-Za-z']))?(?<![\s=*/])"
    r"(?:\^(?:\{[^{}]*\}|-?[\dA-Za-z]+)|[²³])?"
)
_FORMULA = expression(
    rf"[(\[][^()\[\]]*\d[^()\[\]]*[)\]]|(?:[A-Za-z]\([a-z]\)\s*=\s*)?(?:[-−]\s?)?{_TERM}(?:\s*[-−+*/×=]\s*{_TERM})*"
)
EXACT = expression(
    r"(?<![-+*/^×÷=\d.)])(?<![-+*/^×÷=\d.)]\s)(?:-?\d+/\d+|-?\\frac\{\d+\}\{\d+\})\s*(?:≈|\\approx)\s*-?\d+(?:\.\d+)?(?!\s?[-+*/^×÷])"
)
_LETTERS = expression(r"\(?[A-J]\)?(?:\s*(?:,|&|,?\s*\band\b)\s*\(?[A-J]\)?(?![A-Za-z]))+")
_OR_LETTER = expression(r"\s*(?:,?\s*or\b|/)\s*\(?[A-J]\b")
_HEDGE = expression(
    r"(?i)\A(?:(?:(?:most\s+)?(?:probably|likely)|definitely|certainly|clearly|indeed|simply|just|actually|therefore|(?:the\s+)?letter)\s+)+"
)
_RIGHT = expression(
    r"(?i)(?:\w+\s){0,2}?(?:correct|korrekt|richtig|corret|верн|правильн|juist|poprawn|doğru|đúng|right\b)"
)
_UNDECIDED = expression(r"\W*(?i:either\s+)?\(?[A-J]\)?\W*(?i:or|/)\W*\(?[A-J]\b")
_NOT_WORDS = expression(r",\s*(?:and\s+)?(?:not|nicht|no|non|pas|não|не|а не|而不是|不是)\s")
_EQUALS = expression(r"\s*=\s*(?=\S)")
_STATED = expression(r"(?:\b(?:is|are|be|equals?|of)\b|=)\s*(?=\S)")
_PROSE = expression(
    rf"(?<![\\{LETTER}\d])(?:(?!(?:sin|cos|tan|log|exp|mod|and|pmod)\b)[{LETTER}]{{3,}}"
    r"|(?i:so|is|it|we|he|in|of|to|at|by|on|as|be|if|an|my|no|up)\b)|[\u3040-\ud7ff]|[\u0400-\u1fff]{2}"
)
_UNIT_WORD = expression(rf"\s?(?:\\?%|percent\b|pct\b|[{LETTER}]+)")
_LABELS = expression(
    r"\b(?i:step|day|question|problem|exercise|figure|table|chapter|section|part|case|example|equation|option|no|number|level|page|week|month|year|"
    r"grade|room|line|row|item|phase|method|theorem|lemma|version|schritt|paso|étape|passo|шаг)s?\.?\s*#?\Z|(?:第|步骤|步驟|ステップ|단계)\s*\Z"
)
_NAMED = expression(
    r"(?:(?<=[a-z]\s)|(?<=[a-z],\s))(?!Total\b|Answer\b|Result\b|Naira\b)[A-Z][a-z]{3,}\Z|(?<![A-Za-z])[a-z]+[A-Z][A-Za-z]*\Z"
)
_AND = expression(r"(?i)\s{1,3}(?!more\b|fewer\b|less\b)[a-z]{2,}(?:\s+[a-z]{2,})?(?:\s+and|\s*&)\s+")
_REMAINDER = expression(r"(?i)=\s?\d+\s?r(?:emainder)?\.?\s?\d")
_WITH_ANOTHER = expression(
    r"(?i)(?P<part>\s{1,3}of\s+)?(?(part)|\s{1,3}(?:[a-z]+\s+)?(?:(?:more|less|fewer|[a-z]+er)\s+than|times"
    r"|choose|mod|plus|minus|divided by"
    r"|multiplied by|to the power of)\s+)(?:the\s+)?[$€£]?(?:\d|\\frac)"
)
_DANGLING = expression(
    r"(?i)\b(?:which|who|that|and|so|then|but|or|the|an?|is|are|was|will|to|of|for|in|on|at|with|by|from|than|because|since|making|giving|leaving|equals|gives|he|she|we|they|it|i|has|have)\s*\Z"
)
_WIDE = expression(r"[\u0e00-\u0eff\u3040-\ud7ff]")


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
    if UNFINISHED.search(text) or _REMAINDER.search(text):
        return False
    if len(text) > 200 or "\n" in text or not any(character.isalnum() for character in text):
        return False
    form = canonical(text)
    if not any(character.isalnum() for character in form.text) or re.search(r"\\boxed\{\s*(?:\}|\Z)", text):
        return False
    if MATH.fullmatch(text):
        return True
    if form.kind == "words":
        return word_count(text) <= 3 and not (CORRECTION.search(text) or (NEGATION.search(text) and form.text != "no"))
    return form.kind in ("number", "choice") or not is_prose(text)


def whole_formula(text: str, math: re.Match[str]) -> str:
    """Return a formula, with the formulas that ``and``, ``or`` or a comma join to it and the unit after it."""
    end = math.end()
    while True:
        joined = JOINT.match(text, end)
        following = MATH.match(text, joined.end()) if joined else None
        if following is None:
            break
        end = following.end()
    formula = text[math.start() : end]
    unit = _UNIT_WORD.match(text, end)
    number = canonical(formula + unit[0]).number if unit else None
    return formula + unit[0] if unit and number and (number.unit or number.scale != 1) else formula


def stated(following: str, *, letters: bool, language: str, worked: str = "", lead: str = "") -> Statement | None:
    """Return the answer that stands behind a marker such as "the answer is", or None where it is not one for sure.

    Args:
        following: what comes after the marker, in plain writing.
        letters: whether a letter is wanted.
        language: the marker's, as its ISO 639-1 code.
        worked: what comes before the marker, whose last result may tell which of several numbers is meant.
        lead: the marker itself, which may deny what it announces ("La respuesta no es").
    """
    passed = amounts(lead, language=language)
    lead = lead[passed[-1].end :] if passed else lead  # "The answer isn't 45; it's": the denial is over
    bullet = _BULLET.match(following)
    start = bullet.end() if bullet else 0
    marks = _LEADING_MARKS.match(following[start:])
    start += marks.end() if marks else 0
    following = _CLOSING_WORDS.sub("", following)
    rest = following[start:]
    math = MATH.match(rest)
    if math:
        equals = _EQUALS.match(rest, math.end())
        if equals:
            found = stated(rest[equals.end() :], letters=letters, language=language, worked=worked, lead=lead)
            return found and Statement(found.text, start + equals.end() + found.end)
        formula = whole_formula(rest, math)
        if (
            not any(character.isalnum() for character in canonical(formula).text)
            or "boxed{}" in formula
            or NEGATION.search(lead)
            or is_computed_with(rest, Amount(0, len(formula), formula, canonical(formula).number))
        ):
            return None
        return Statement(formula, start + math.start() + len(formula))
    end = SENTENCE_END.search(rest)
    sentence = rest[: end.start()] if end else rest
    if end is None and is_cut_off(sentence):
        return None
    text = _of_sentence(sentence, letters=letters, language=language, worked=worked, lead=lead)
    return Statement(text, start + (end.end() if end else len(rest))) if text else None


def is_cut_off(sentence: str) -> bool:
    """Return whether a last sentence ends within a formula."""
    sentence = sentence.rstrip("*_ \n")
    return (
        bool(UNFINISHED.search(sentence))
        or sentence.count("{") > sentence.count("}")
        or (sentence.count("$") == 1 and "\\" in sentence)
    )


def is_broken_off(text: str) -> bool:
    """Return whether a text ends with a word that another must follow: "The answer is"."""
    return bool(_DANGLING.search(text[-20:])) and " " in text.strip()


def _of_sentence(sentence: str, *, letters: bool, language: str, worked: str, lead: str) -> str | None:
    sentence = COPULA_BEHIND.sub("", sentence.strip(" \t*_\"'")).rstrip(" \t*_\"',;")
    if sentence.endswith("}") and sentence.count("{") < sentence.count("}"):
        sentence = sentence.rstrip("}").rstrip(" \"'")
    if (
        not sentence
        or any(words.search(sentence) for words in (TAKEN_BACK, OTHERWISE))
        or UNDETERMINED.search(lead + sentence)
    ):
        return None
    corrected = CORRECTION.search(sentence)
    if corrected and canonical(sentence).kind != "words" and corrected.start():
        rest = list(LETTER_OF_CHOICE.finditer(sentence, corrected.end())) if letters else []
        if letters:
            return rest[0][0].strip("()") if len({letter[0] for letter in rest}) == 1 else None
        return only(amounts(sentence[corrected.end() :], language=language))
    sentence = ASIDE.sub("", sentence)
    chosen = told_apart(lead, sentence) if letters else None
    if chosen:
        return chosen
    cause = CAUSE.search(sentence)
    main = sentence[: cause.start()].rstrip(" ,;") if cause and cause.start() else sentence
    denied = without_denied(main, lead, language)
    if denied is not None and not letters:
        return only(denied)
    contrast = CONTRAST.search(main)
    main = main[: contrast.start()].rstrip(" ,;") if contrast and contrast.start() else main
    result = list(RESULT_WORDS.finditer(main))
    if result and result[-1].end() < len(main) and amounts(main[: result[-1].start()]):
        behind = amounts(main[result[-1].end() :], language=language)
        if behind and behind[0].start == 0 and not is_computed_with(main[result[-1].end() :], behind[0]):
            return behind[0].text
    exact = EXACT.match(main)
    if exact:
        return exact[0]
    main = without_working(main) or main
    form = _form(main, language)
    if NEGATION.search(lead) and form.text != "no":
        return None
    if letters:
        named = LETTER_OF_CHOICE.findall(lead)
        if len(named) == 1 and _RIGHT.match(main):
            return "".join(named[0])
        if is_undecided(main):
            return None
        main = _HEDGE.sub("", main)
    letter = LEADING_CHOICE.match(main)
    if letter and (letters or len(sentence.split()) > 1):
        if _OR_LETTER.match(main, letter.end()):
            return None
        several = _LETTERS.match(main)
        return several[0] if several else letter[1].upper()
    if is_bound(lead) or is_bound(main[: len(main) - len(main.lstrip("><≥≤≠ "))]):
        return None
    if (
        form.text in ("yes", "no")
        or form.kind in ("number", "choice")
        or (not is_prose(main) and not _is_range(main, language))
    ):
        return _single(main, language)
    return _with_words(main, language, worked)


def is_undecided(text: str) -> bool:
    """Return whether a text begins with two letters of which one is meant: "either B or C"."""
    return bool(_UNDECIDED.match(text))


def is_operand(text: str, amount: Amount) -> bool:
    """Return whether an amount is part of a calculation, such as the 48 of "48+15 books"."""
    behind = re.match(r"\s*(?:[-+*/×·÷^]|\\(?:times|cdot|div))\s*[\d($]|\s+[+×÷]\s+[A-Za-z]", text[amount.end :])
    before = re.search(r"[\d)]\s*(?:[-+*/×·÷^]|\\(?:times|cdot|div))\s*\Z", text[: amount.start])
    symbol = re.search(r"(?<![A-Za-z])[A-Za-z]\s*(?:[-+*/×·^]|\\(?:times|cdot|div))\s*\Z", text[: amount.start])
    return bool(behind or before or symbol or (amount.text[0] in "+-" and re.search(r"\d\s*\Z", text[: amount.start])))


def only(found: list[Amount]) -> str | None:
    """Return the one value of several amounts, None for none or several."""
    return found[0].text if len({amount.value for amount in found}) == 1 else None


def without_denied(sentence: str, lead: str, language: str) -> list[Amount] | None:
    """Return the amounts of a sentence that it does not deny; None where it denies none."""
    found = amounts(sentence, language=language)
    kept = []
    for index, amount in enumerate(found):
        before = sentence[found[index - 1].end if index else 0 : amount.start]
        behind = sentence[amount.end : found[index + 1].start if index + 1 < len(found) else len(sentence)]
        lead_denies = not index and DENIED_BEFORE.search(lead.rstrip() + " " + before if len(before) < 12 else before)
        if not (lead_denies or DENIED_BEFORE.search(before) or DENIED_BEHIND.match(behind)):
            kept.append(amount)
    return kept if len(kept) < len(found) else None


def _is_range(text: str, language: str) -> bool:
    """Return whether a text is a range of two numbers, or two of which one is meant ("5 ou 6"; "5 or 6" is a list)."""
    found = amounts(text)
    if language != ENGLISH and found and goes_on(text, found[0].end):
        return True
    to = re.match(r"\s?[-–—~]|\s(?:to|bis|a|à|до|至)\s", text[found[0].end :]) if len(found) == 2 else None
    return to is not None and found[0].start == 0 and goes_on(text, found[0].end)


def _form(text: str, language: str) -> Canonical:
    if language != ENGLISH:
        number = read_number(text, language=language)
        if number:
            return Canonical("number", text, text, number)
    return canonical(text)


def _single(text: str, language: str) -> str:
    """Return an answer that stands alone, its decimal comma as a point where its language tells that it is one."""
    moment = amounts(text, language=language)[:1]
    if moment and moment[0].number is None and (moment[0].start, moment[0].end) == (0, len(text)):
        return moment[0].text
    number = read_number(text, language=language)
    if language == ENGLISH or number is None or number == read_number(text):
        return text
    found = amounts(text, language=language) or amounts(text, language=language, spelled=True)
    return found[0].text if len(found) == 1 else shown(text, number, language)


def _with_words(main: str, language: str, worked: str) -> str | None:
    """Return the answer of a statement that has words in it."""
    formula = _leading_formula(main)
    found = amounts(main, language=language)
    if not found:
        found = amounts(main, language=language, spelled=True)
    if formula and not (found and found[0].start == 0 and len(found[0].text) >= len(formula)):
        return formula
    if not found:
        main = _NOT_WORDS.split(main, maxsplit=1)[0]
        whole = list(_STATED.finditer(main))
        if whole and not is_prose(main[whole[-1].end() :]):
            return main[whole[-1].end() :].strip()
        return main if word_count(main) <= 6 and not NEGATION.search(main) else None
    first = found[0]
    before = main[: first.start]
    result = last_result(main)
    if result and (before.strip() or is_operand(main, first)):
        return main[slice(*result)].strip()
    if len(found) > 1 and found[1].value != first.value and is_one_of_two(main, first, found[1]):
        return resolved(found, worked)
    if NEGATION.search(before) or goes_on(main, first.end) or is_computed_with(main, first) or is_bound(before):
        return None
    name = before.partition(",")[0]
    if "," in before and name[:1].isupper() and word_count(name) <= 4 and name.casefold() not in ("so", "then", "thus"):
        return name.strip()
    if len({amount.value for amount in found}) == 1:
        qualified = read_number(main[first.start : first.end + 24].split(",")[0]) is None and QUALIFIED.search(
            main, first.end, first.end + 24
        )
        return None if is_function(before) or qualified else first.text
    if IN_DOUBT.search(main):
        return None
    words = [word.lower().strip(",:;") for word in before.split()]
    light = word_count(before) <= 3 and HEAVY_WORDS.isdisjoint(words) and not is_label(before, language)
    if light or re.search(r"total of\s*\Z", before):
        return first.text
    return resolved(found, worked)


def is_function(before: str) -> bool:
    """Return whether the words before a number make another one of it: "half of 24", "el doble de 8"."""
    return bool(FUNCTION_BEFORE.search(before.rstrip() + " "))


def is_bound(before: str) -> bool:
    """Return whether the words before a number make it a bound or deny it: "more than", "höchstens", "至少"."""
    return bool(BOUND_BEFORE.search(before.rstrip() + " "))


def is_label(before: str, language: str) -> bool:
    """Return whether the word before a number makes it the name of something: "step 3", "on Route 66"."""
    before = before.rstrip()
    return bool(_LABELS.search(before) or (language == ENGLISH and _NAMED.search(before)))


def is_one_of_two(text: str, first: Amount, second: Amount) -> bool:
    """Return whether two amounts of different things stand side by side: "12 apples and 5 oranges"."""
    return bool(_AND.fullmatch(text, first.end, second.start))


def is_computed_with(text: str, amount: Amount) -> bool:
    """Return whether words make an amount but a part of what is meant: "3 more than 5", "a quarter of 20"."""
    another = _WITH_ANOTHER.match(text, amount.end)
    if another is None or not another["part"]:
        return another is not None
    number = amount.number
    return number is not None and (number.value.denominator != 1 or number.scale < 1) and number.places == 0


def resolved(found: list[Amount], worked: str) -> str | None:
    """Return the one of several amounts that the working before comes to, None where it is none or several."""
    worth = worked_out(worked)
    same = [amount for amount in found if worth is not None and amount.value == worth]
    return same[0].text if same else None


def rounds(value: object, exact: object) -> bool:
    """Return whether a value is a whole number next to an exact one that is none: 3 or 4 for 3.5."""
    if not isinstance(value, Fraction) or not isinstance(exact, Fraction):
        return False
    return value.denominator == 1 and exact.denominator != 1 and abs(value - exact) < 1


def worked_out(text: str) -> object:
    """Return the value of the last calculation in a text, or of what its words call a result; None for neither."""
    text = text[-2_000:]
    last: object = None
    for sentence in re.split(r"\n|(?<=[.!?])\s", text):
        flat = MATH.sub(
            lambda match: " " + next(group for group in match.groups() if group is not None) + " ", sentence
        )
        result = last_result(flat)
        if result:
            number = read_number(flat[slice(*result)].strip().lstrip("\\"))
            if number:
                last = number.value * number.scale
        for verbal in RESULT_WORDS.finditer(flat, result[1] if result else 0):
            behind = amounts(flat[verbal.end() : verbal.end() + 40])
            if behind and behind[0].start <= 2:
                last = behind[0].value
    return last


def _leading_formula(sentence: str) -> str | None:
    r"""Return the formula before prose: ``3\sqrt{2}`` of "3\sqrt{2} units", ``(3, 4)`` of "(3, 4) in all"."""
    formula = _FORMULA.match(sentence)
    if formula is None:
        return None
    # "10 - 12 weeks" is not a difference, and "5x more" not a product.
    symbolic = re.search(r"[A-Za-z√π\\^²³(\[]", formula[0])
    if symbolic and re.search(r"[-−+*/×=√π²³^,\\]", formula[0]):
        return formula[0].strip()
    return None
