"""Numbers in the words of languages other than English: ``treinta y una``, ``zwei Drittel``, ``2 mil millones``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.units import UNITS, scale_of
from tokur_cli.answers.reading.vocabulary import (
    AND_A_HALF,
    ARTICLES,
    DETERMINERS,
    HUNDREDS,
    JOINERS,
    OTHERS,
    PARTS,
    QUARTERS,
    RATIOS,
    THOUSANDS,
)

_LARGEST = 1000
_LONGEST = 80
_GAPS = expression(r"[\s\-'’\u00ad]+")
_GAP = expression(r"[\s\-]+")
_MARKS = expression("[\u064b-\u0652]")  # vowels, which Arabic mostly leaves out
_WORD = expression(r"[\s\-]*(?P<word>[^\W\d_][^\s\d,;:!?()\"]*)")
_OF = expression(r"\sde(?=\s)")
_ADDED = expression(r"\s*[וو](?!نصف|ربع|ثلث|חצי|רבע|שליש)[^\W\d_]")
_QUARTER = expression(rf"({'|'.join(QUARTERS)})\s+")
_TURKISH_COPULA = expression(r"[dt][ıiuü]r\Z")
_TURKISH_PARTS = expression(r"(?P<parts>[^\W\d_]+?)(?:da|de|ta|te)\s+(?P<count>\S+)")


def read_foreign(text: str, language: str) -> tuple[Fraction, int] | None:
    """Return the number in a language's words that a text begins with and where it ends, or None.

    None, too, where number words follow that make no one number with it: what is said is then not sure.

    Args:
        text: such as ``veinticinco manzanas``.
        language: its ISO 639-1 code.
    """
    if not text or not text[0].isalpha():
        return None
    shift = _QUARTER.match(text) if language == "hi" else None
    if shift:
        whole = _group(text, shift.end(), language)
        return (whole[0] + QUARTERS[shift[1]], whole[1]) if whole else None
    inverted = _turkish_fraction(text) if language == "tr" else None
    found = inverted or _sum(text, language)
    if inverted or found is None:
        return inverted
    divided = _divided(text, *found, language)
    if divided:
        return divided
    return None if _is_part_of_more(text, found[1], language) else found


def _sum(text: str, language: str) -> tuple[Fraction, int] | None:
    """Return the number below ten thousand, or of several such with their scales, that a text begins with."""
    total = group = Fraction(0)
    position, room, limit = 0, Fraction(10**18), Fraction(10**18)
    while True:
        thousands = (limit < 10**18 and not group) or room >= 1000
        begin = _behind_joiner(text, position, language, thousands) if position else 0
        found = _group(text, begin, language)
        if found is None:
            break
        value, end = found
        scale, scaled_end = _scale_behind(text, end, language)
        if value >= room or (scale > 1 and scale >= limit):
            if begin == _behind_gap(text, position):
                return None  # "uno dos": which is meant?
            break
        group, position, room = group + value, scaled_end, _room(value)
        if scale > 1:
            total, group, room, limit = total + group * scale, Fraction(0), scale, scale
    return (total + group, position) if position else None


def _is_part_of_more(text: str, end: int, language: str) -> bool:
    """Return whether the words up to ``end`` are not sure to be a number: more is added, or they are an article."""
    if language in ("ar", "he"):
        return bool(_ADDED.match(text, end))
    added = _behind_joiner(text, end, language, scaled=False)
    if added > _behind_gap(text, end) and _WORD.match(text, added) and not AND_A_HALF.match(text, end):
        return _group(text, added, language) is None  # "treinta y tantos"
    if language in RATIOS and RATIOS[language].match(text, end):
        return True
    word, following = _joined(text[:end]), _WORD.match(text, end)
    if language == "ko":
        return word in DETERMINERS and not following
    if word not in ARTICLES.get(language, ()) or not following or AND_A_HALF.match(text, end):
        return False
    name = following["word"].lower().rstrip(".")
    return name not in UNITS and scale_of([name], language)[0] == 1


def begins_with_number(text: str, language: str) -> bool:
    """Return whether a text begins with a word for a number, whatever follows it."""
    found = _group(text, 0, language)
    return found is not None and _joined(text[: found[1]]) not in ARTICLES.get(language, ())


def hour_words(language: str) -> dict[str, int]:
    """Return a language's words for 1 to 24, as ``read_foreign`` knows them."""
    return {
        word: int(value)
        for word, value in _words(language).items()
        if value.denominator == 1 and 1 <= value <= 24 and word
    }


@cache
def _words(language: str) -> dict[str, Fraction]:
    from num2words import CONVERTER_CLASSES, num2words

    code = "pt_BR" if language == "pt" else language
    numbers = [*range(10_000, _LARGEST, -50), *range(_LARGEST, -1, -1)] if code in CONVERTER_CLASSES else []
    spelled = {_joined(num2words(number, lang=code)): Fraction(number) for number in numbers}
    articles = dict.fromkeys(ARTICLES.get(language, ()), Fraction(1))
    others = {word: Fraction(value) for word, value in OTHERS.get(language, {}).items()}
    return {"0": Fraction(0), "1": Fraction(1), **spelled, **articles, **others}


def _joined(words: str) -> str:
    return _MARKS.sub("", _GAPS.sub("", words.casefold())).replace("tré", "tre")  # ventitré, but duecentoventitre


def _group(text: str, start: int, language: str) -> tuple[Fraction, int] | None:
    """Return the longest run of words from ``start`` on that is a number below 10,000, and where it ends."""
    known = _words(language)
    ends: list[int] = []
    position = start
    for _ in range(8):
        word = _WORD.match(text, position)
        if word is None or (not ends and word.start("word") != start):
            break
        position = word.end()
        ends.append(position)
        if word["word"].endswith("."):
            break
    for end in reversed(ends):
        phrase = text[start:end].rstrip(".")
        value = _value(_joined(phrase), known, language) if len(phrase) <= _LONGEST else None
        if value is not None and (value < 1000 or language in THOUSANDS or not _GAPS.search(phrase)):
            return value, start + len(phrase)
    return None


def _value(phrase: str, known: Mapping[str, Fraction], language: str) -> Fraction | None:
    """Return the value of words written without gaps: one of the library's, or the sum of two of them."""
    if language == "tr":
        phrase = _TURKISH_COPULA.sub("", phrase)
    if phrase in known:
        return known[phrase]
    for words, worth in ((THOUSANDS, 1000), (HUNDREDS, 100)):
        many = words[language].search(phrase) if language in words else None
        if many:
            count, ones = known.get(phrase[: many.start()] or "1"), known.get(phrase[many.end() :] or "0")
            if count and ones is not None and count < 1000 and ones < worth:
                return count * worth + ones
    for cut in range(3, len(phrase) - 1):
        first: Fraction | None = known.get(phrase[:cut])
        if first and first.denominator == 1 and first >= 20:
            second = known.get(phrase[cut:])
            if second and second.denominator == 1 and second < _room(first):
                return first + second
    return None


def _room(value: Fraction) -> Fraction:
    """Return what must be above a number that is added to this one: 10 for 20, 1000 for 5000."""
    room = 1
    while value >= 20 and value.denominator == 1 and value % (room * 10) == 0:
        room *= 10
    return Fraction(room)


def _behind_gap(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position


def _behind_joiner(text: str, position: int, language: str, scaled: bool) -> int:
    """Return where the next part of a number may begin: behind the blank, and the "y" or the comma if there is one."""
    start = _behind_gap(text, position + (scaled and text.startswith(", ", position)))
    for joiner in JOINERS.get(language, "").split():
        if text.startswith(joiner, start) and (language in ("ar", "he") or text[start + len(joiner) :][:1] == " "):
            return _behind_gap(text, start + len(joiner))
    return start


def _scale_behind(text: str, end: int, language: str) -> tuple[Fraction, int]:
    """Return the thousands or millions that the words behind a number say, and where they end; 1 without."""
    scale = Fraction(1)
    for _ in range(2):
        of = _OF.match(text, end) if language == "ro" else None
        word = _WORD.match(text, of.end() if of else end)
        if word is None:
            break
        name = _MARKS.sub("", word["word"].rstrip(".").lower())
        further, rest = scale_of([name], language)
        if further < 100 or rest:
            break
        scale, end = scale * further, word.start("word") + len(word["word"].rstrip("."))
    return scale, end


def _divided(text: str, count: Fraction, end: int, language: str) -> tuple[Fraction, int] | None:
    """Return the fraction that a count and the word for its parts make: "tres cuartos"."""
    word = _WORD.match(text, end)
    if word is None or not count:
        return None
    name = word["word"].rstrip(".").casefold()
    for number, part in enumerate(PARTS.get(language, ()), 2):
        if part.fullmatch(name) and count.denominator == 1:
            return count / number, word.start("word") + len(name)
    ratio = RATIOS[language].match(text, end) if language in RATIOS else None
    parts = _group(text, ratio.end(), language) if ratio else None
    return (count / parts[0], parts[1]) if parts and parts[0] else None


def _turkish_fraction(text: str) -> tuple[Fraction, int] | None:
    """Return the fraction of "dörtte üç", which names its parts first."""
    found = _TURKISH_PARTS.match(text)
    known = _words("tr")
    parts = known.get(found["parts"].casefold()) if found else None
    count = _group(text, found.start("count"), "tr") if found and parts and parts > 1 else None
    return (count[0] / parts, count[1]) if count and parts else None
