"""Numbers in the words of languages other than English: ``treinta y una``, ``zwei Drittel``, ``2 mil millones``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.units import UNITS, scale_of

_LARGEST = 1000
_LONGEST = 80
_GAPS = expression(r"[\s\-'’\u00ad]+")
_MARKS = expression("[\u064b-\u0652]")  # vowels, which Arabic mostly leaves out
_WORD = expression(r"[\s\-]*(?P<word>[^\W\d_][^\s\d,;:!?()\"]*)")

_KOREAN = ("", "하나 한", "둘 두", "셋 세", "넷 네", "다섯", "여섯", "일곱", "여덟", "아홉")
_HINDI = (
    "शून्य एक दो तीन चार पांच छह सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस बीस इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस "
    "अट्ठाईस उनतीस तीस इकतीस बत्तीस तैंतीस चौंतीस पैंतीस छत्तीस सैंतीस अड़तीस उनतालीस चालीस इकतालीस बयालीस तैंतालीस चवालीस पैंतालीस छियालीस सैंतालीस "
    "अड़तालीस उनचास पचास इक्यावन बावन तिरपन चौवन पचपन छप्पन सत्तावन अट्ठावन उनसठ साठ इकसठ बासठ तिरसठ चौंसठ पैंसठ छियासठ सड़सठ अड़सठ उनहत्तर सत्तर "
    "इकहत्तर बहत्तर तिहत्तर चौहत्तर पचहत्तर छिहत्तर सतहत्तर अठहत्तर उन्यासी अस्सी इक्यासी बयासी तिरासी चौरासी पचासी छियासी सत्तासी अट्ठासी नवासी नब्बे "
    "इक्यानवे बानवे तिरानवे चौरानवे पचानवे छियानवे सत्तानवे अट्ठानवे निन्यानवे सौ"
)

_OTHERS: dict[str, Mapping[str, int | Fraction]] = {
    "hi": {name: number for number, name in enumerate(_HINDI.split())}
    | {"पाँच": 5, "छः": 6, "डेढ़": Fraction(3, 2), "ढाई": Fraction(5, 2), "आधा": Fraction(1, 2), "आधी": Fraction(1, 2)},
    "bn": {"দেড়": Fraction(3, 2), "আড়াই": Fraction(5, 2)},
    "uk": {"півтора": Fraction(3, 2), "півтори": Fraction(3, 2), "дві": 2, "одна": 1},
    "pl": {"półtora": Fraction(3, 2), "półtorej": Fraction(3, 2), "dwie": 2},
    "de": {"anderthalb": Fraction(3, 2)}
    | {
        f"{name}einhalb": number + Fraction(1, 2)
        for number, name in enumerate("ein zwei drei vier fünf sechs sieben acht neun zehn".split(), 1)
    },
    "nl": {"anderhalf": Fraction(3, 2), "anderhalve": Fraction(3, 2)},
    "fr": {"septante": 70, "huitante": 80, "nonante": 90, "quatrevingt": 80}
    | {f"{name}cent": 100 * number for number, name in enumerate("deux trois quatre cinq six sept huit neuf".split(), 2)},
    "el": {"ενάμιση": Fraction(3, 2), "δυόμισι": Fraction(5, 2)},
    "ko": {
        f"{ten}{one}": 10 * tens + ones
        for tens, names in enumerate(("", "열", "스물 스무", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"))
        for ten in (names.split() or [""])
        for ones, forms in enumerate(_KOREAN)
        for one in (forms.split() or [""])
        if ten or one
    },
    "cs": {"dvě": 2},
    "es": {"veintiún": 21, "veintiuna": 21},
    "ja": {"ゼロ": 0},
    "ar": {"نصف": Fraction(1, 2), "ثلث": Fraction(1, 3), "ربع": Fraction(1, 4), "ثلثان": Fraction(2, 3), "ثلثين": Fraction(2, 3), "ثلثي": Fraction(2, 3), "ثلثا": Fraction(2, 3)},
    "ru": {"две": 2, "одна": 1, "полтора": Fraction(3, 2), "полторы": Fraction(3, 2), "полмиллиона": 500_000},
    "pt": {"duas": 2},
    "he": {name: number for number, name in enumerate("אחד שניים שלושה ארבעה חמישה שישה שבעה שמונה תשעה עשרה".split(), 1)},
    "tr": {"yarım": Fraction(1, 2)},
    "vi": {"mốt": 1, "tư": 4, "lăm": 5},
}
"""Forms that the library lacks: Hindi, Korea's own numerals, feminine ones."""

_ARTICLES: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "es": "un una", "fr": "un une", "de": "ein eine einen einem einer", "pt": "um uma", "it": "un uno una",
        "nl": "een één", "ro": "un o", "sv": "en ett", "da": "en et", "tr": "bir", "hu": "egy",
    }.items()
}  # fmt: skip
"""Words that are one where a part, a scale, a unit or nothing follows them, and an article otherwise."""

_DETERMINERS = frozenset(("한", "두", "세", "네"))
"""Korean numbers that stand before what they count alone; 네 by itself is a yes."""

_JOINERS = {"es": "y", "pt": "e", "it": "e", "fr": "et", "ro": "și", "vi": "linh lẻ", "ar": "و", "he": "ו", "el": "και"}
"""What stands between the parts of a number: the "y" of "treinta y uno"."""

_PARTS: dict[str, tuple[str, ...]] = {
    # halves, thirds, … tenths, as regular expressions
    "es": ("medi[oa]s?", "terci[oa]s?", "cuart[oa]s?", "quint[oa]s?", "sext[oa]s?", "séptim[oa]s?", "octav[oa]s?", "noven[oa]s?", "décim[oa]s?"),
    "pt": ("mei[oa]s?|metade", "terç[oa]s?", "quart[oa]s?", "quint[oa]s?", "sext[oa]s?", "sétim[oa]s?", "oitav[oa]s?", "non[oa]s?", "décim[oa]s?"),
    "it": ("mezz[oai]", "terz[oi]", "quart[oi]", "quint[oi]", "sest[oi]", "settim[oi]", "ottav[oi]", "non[oi]", "decim[oi]"),
    "fr": ("demie?s?", "tiers", "quarts?", "cinquièmes?", "sixièmes?", "septièmes?", "huitièmes?", "neuvièmes?", "dixièmes?"),
    "de": ("halb(?:e[nrsm]?)?", "drittel", "viertel", "fünftel", "sechstel", "siebtel", "achtel", "neuntel", "zehntel"),
    "nl": ("halve|half", "derden?", "vierden?|kwart", "vijfden?", "zesden?", "zevenden?", "achtsten?", "negenden?", "tienden?"),
    **dict.fromkeys(("sv", "da"), ("halv[aet]?", "tredje?del(?:ar|er?)?", "fj[äe]rdedel(?:ar|er?)?", "femtedel(?:ar|er?)?", "sj[äe]ttedel(?:ar|er?)?")),
    "ru": ("половин\\w{0,2}", "трет(?:ь|ья|и|ей|ьих|ям)", "четв[её]рт(?:ь|ая|ых|ые|и|ей|ям|ями)", "пят(?:ая|ых|ые|ым)", "шест(?:ая|ых|ые|ым)", "седьм(?:ая|ых|ые|ым)", "восьм(?:ая|ых|ые|ым)", "девят(?:ая|ых|ые|ым)", "десят(?:ая|ых|ые|ым)"),
    "uk": ("половин\\w{0,2}", "трет(?:я|ина|ини|іх|і)", "четверт(?:а|і|их)|чверт[іь]", "п'ят(?:а|і|их)", "шост(?:а|і|их)", "сьом(?:а|і|их)", "восьм(?:а|і|их)", "дев'ят(?:а|і|их)", "десят(?:а|і|их)"),
    "pl": ("połow[aąyę]", "trzeci(?:a|e|ch)", "czwart(?:a|e|ych)|ćwierci", "piąt(?:a|e|ych)", "szóst(?:a|e|ych)", "siódm(?:a|e|ych)", "ósm(?:a|e|ych)", "dziewiąt(?:a|e|ych)", "dziesiąt(?:a|e|ych)"),
    "ar": ("نصف", "ثلث|أثلاث", "ربع|أرباع", "خمس|أخماس", "سدس|أسداس", "سبع|أسباع", "ثمن|أثمان", "تسع|أتساع", "عشر|أعشار"),
    "hi": ("आधा", "तिहाई", "चौथाई", "पांचवां|पाँचवाँ"),
}  # fmt: skip
_THOUSANDS = {
    "de": "tausend(?:und)?", "nl": "duizend(?:en)?", "it": "mil(?:a|le)", "sv": "tusen", "da": "tusind(?:e(?!t))?", "hu": "ezer",
    "fi": "tuhatta|tuhat", "tr": "bin",
}  # fmt: skip
"""The thousand of languages that write a number as one word."""

_RATIOS: dict[str, str] = {"vi": r"\s*phần\s*", "th": r"\s*(?:ใน|ส่วน)\s*"}
"""What stands between numerator and denominator: "ba phần tư" is three quarters."""

AND_A_HALF = expression(
    r"\s(?:and a half|y medi[ao]|e mei[ao]|et demie?|e mezz[ao]|en een halve?|und ein(?:e[nrs]?)? halb(?:e[nrs]?)?|och en halv|og en halv|i pół|с половиной|rưỡi|buçuk|ونصف)(?![^\W\d_])"
)
"""The half that words behind a number add to it."""

_QUARTERS = {"साढ़े": Fraction(1, 2), "साढ़े": Fraction(1, 2), "सवा": Fraction(1, 4), "पौने": Fraction(-1, 4)}
_HINDI_QUARTERS = expression(rf"({'|'.join(_QUARTERS)})\s+")
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
    shift = _HINDI_QUARTERS.match(text) if language == "hi" else None
    if shift:
        whole = _group(text, shift.end(), language)
        return (whole[0] + _QUARTERS[shift[1]], whole[1]) if whole else None
    if language == "tr":
        inverted = _turkish_fraction(text)
        if inverted:
            return inverted
    total = group = Fraction(0)
    position, room, limit = 0, Fraction(10**18), Fraction(10**18)
    while True:
        begin = _behind_joiner(text, position, language, limit < 10**18 and not group) if position else 0
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
    total += group
    if not position:
        return None
    divided = _divided(text, total, position, language)
    if divided:
        return divided
    if language in ("ar", "he") and re.compile(r"\s*[וو](?!نصف|ربع|ثلث|חצי|רבע|שליש)[^\W\d_]").match(text, position):
        return None  # what is added is not known
    if language in _RATIOS and re.compile(_RATIOS[language]).match(text, position):
        return None
    word, following = _joined(text[:position]), _WORD.match(text, position)
    if word in _ARTICLES.get(language, ()) and following:
        name = following["word"].lower().rstrip(".")
        if not AND_A_HALF.match(text, position) and name not in UNITS and scale_of([name], language)[0] == 1:
            return None
    if language == "ko" and word in _DETERMINERS and not following:
        return None
    return total, position


def begins_with_number(text: str, language: str) -> bool:
    """Return whether a text begins with a word for a number, whatever follows it."""
    found = _group(text, 0, language)
    return found is not None and _joined(text[: found[1]]) not in _ARTICLES.get(language, ())


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
    articles = dict.fromkeys(_ARTICLES.get(language, ()), Fraction(1))
    return {**spelled, **articles, **{word: Fraction(value) for word, value in _OTHERS.get(language, {}).items()}}


def _joined(words: str) -> str:
    return _MARKS.sub("", _GAPS.sub("", words.casefold()))


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
        if value is not None and (value < 1000 or language in _THOUSANDS or not _GAPS.search(phrase)):
            return value, start + len(phrase)
    return None


def _value(phrase: str, known: Mapping[str, Fraction], language: str) -> Fraction | None:
    """Return the value of words written without gaps: as the library has them, or of thousands and a rest."""
    if language == "tr":
        phrase = _TURKISH_COPULA.sub("", phrase)
    if phrase in known:
        return known[phrase]
    thousand = _THOUSANDS.get(language)
    if thousand:
        count, found, rest = (re.compile(thousand).sub("\0", phrase, count=1)).partition("\0")
        parts = known.get(count) if count else Fraction(1), known.get(rest) if rest else Fraction(0)
        if found and None not in parts and all(part is not None and part < 1000 for part in parts):
            return Fraction(parts[0] or 0) * 1000 + Fraction(parts[1] or 0)
    for cut in range(3, len(phrase) - 2):
        first = known.get(phrase[:cut])
        if first and first.denominator == 1 and first >= 100 and first % 100 == 0:
            rest = known.get(phrase[cut:])
            if rest and rest.denominator == 1 and rest < _room(first):
                return first + rest
    return None


def _room(value: Fraction) -> Fraction:
    """Return what must be above a number that is added to this one: 10 for 20, 1000 for 5000."""
    room = 1
    while value >= 20 and value.denominator == 1 and value % (room * 10) == 0:
        room *= 10
    return Fraction(room)


def _behind_gap(text: str, position: int) -> int:
    gap = re.compile(r"[\s\-]+").match(text, position)
    return gap.end() if gap else position


def _behind_joiner(text: str, position: int, language: str, scaled: bool) -> int:
    """Return where the next part of a number may begin: behind the blank, and the "y" or the comma if there is one."""
    start = _behind_gap(text, position + (scaled and text.startswith(", ", position)))
    for joiner in _JOINERS.get(language, "").split():
        if text.startswith(joiner, start) and (language in ("ar", "he") or text[start + len(joiner) :][:1] == " "):
            return _behind_gap(text, start + len(joiner))
    return start


def _scale_behind(text: str, end: int, language: str) -> tuple[Fraction, int]:
    """Return the thousands or millions that the words behind a number say, and where they end; 1 without."""
    scale = Fraction(1)
    for _ in range(2):
        of = re.compile(r"\sde(?=\s)").match(text, end) if language == "ro" else None
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
    for number, names in enumerate(_PARTS.get(language, ()), 2):
        if re.fullmatch(names, name) and count.denominator == 1:
            return count / number, word.start("word") + len(name)
    ratio = re.compile(_RATIOS[language]).match(text, end) if language in _RATIOS else None
    parts = _group(text, ratio.end(), language) if ratio else None
    return (count / parts[0], parts[1]) if parts and parts[0] else None


def _turkish_fraction(text: str) -> tuple[Fraction, int] | None:
    """Return the fraction of "dörtte üç", which names its parts first."""
    found = _TURKISH_PARTS.match(text)
    known = _words("tr")
    parts = known.get(found["parts"].casefold()) if found else None
    count = _group(text, found.start("count"), "tr") if found and parts and parts > 1 else None
    return (count[0] / parts, count[1]) if count and parts else None
