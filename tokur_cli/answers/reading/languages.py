"""What libraries know of a language: its number words, the names of its months, whether it writes 0,5 for a half."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

ENGLISH = "en"

_LARGEST = 1000
_GAPS = re.compile(r"[\s\-'’\u00ad]+")


@cache
def has_decimal_comma(language: str) -> bool:
    """Return whether a language writes 0,5 for a half.

    Args:
        language: its ISO 639-1 code.
    """
    if language == ENGLISH:
        return False
    from babel import Locale

    return bool(Locale.parse(language).number_symbols.get("latn", {}).get("decimal") == ",")


@cache
def month_names(language: str) -> dict[str, int]:
    """Return the names of a language's months in small letters, within dates and alone, with their numbers."""
    from babel import Locale

    months = Locale.parse(language).months
    return {
        name.lower().rstrip("."): number
        for form in ("format", "stand-alone")
        for width in ("wide", "abbreviated")
        for number, name in months[form][width].items()
        if name and not any(character.isdigit() for character in name)
    }


@cache
def _words(language: str) -> dict[str, Fraction]:
    from num2words import CONVERTER_CLASSES, num2words

    numbers = [*range(10_000, _LARGEST, -50), *range(_LARGEST, -1, -1)] if language in CONVERTER_CLASSES else []
    spelled = {_joined(num2words(number, lang=language)): Fraction(number) for number in numbers}
    return {**spelled, **{word: Fraction(value) for word, value in _OTHERS.get(language, {}).items()}}


_KOREAN = ("", "하나 한", "둘 두", "셋 세", "넷 네", "다섯", "여섯", "일곱", "여덟", "아홉")

_OTHERS: dict[str, Mapping[str, int | Fraction]] = {
    "hi": dict(
        zip(
            "शून्य एक दो तीन चार पांच छह सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस बीस इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस "
            "अट्ठाईस उनतीस तीस".split(),
            range(31),
            strict=True,
        )
    )
    | {"डेढ़": Fraction(3, 2), "ढाई": Fraction(5, 2)},
    "bn": {"দেড়": Fraction(3, 2), "আড়াই": Fraction(5, 2)},
    "uk": {"півтора": Fraction(3, 2), "півтори": Fraction(3, 2), "дві": 2},
    "pl": {"półtora": Fraction(3, 2), "dwie": 2},
    "de": {"anderthalb": Fraction(3, 2)}
    | {
        f"{name}einhalb": number + Fraction(1, 2)
        for number, name in enumerate(("ein", "zwei", "drei", "vier", "fünf"), 1)
    },
    "el": {"ενάμιση": Fraction(3, 2), "δυόμισι": Fraction(5, 2)},
    "ko": {
        f"{ten}{one}": 10 * tens + ones
        for tens, names in enumerate(("", "열", "스물 스무", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"))
        for ten in (names.split() or [""])
        for ones, forms in enumerate(_KOREAN)
        for one in (forms.split() or [""])
        if ten or one
    },
    "es": {"una": 1, "un": 1},
    "ru": {"две": 2, "одна": 1, "полтора": Fraction(3, 2), "полторы": Fraction(3, 2)},
    "pt": {"duas": 2, "uma": 1},
}
"""Forms that the library lacks: Hindi, Korea's own numerals, feminine ones."""


_PARTS = {
    2: "medio media medios meio meia metade demi demie halb halbe mezzo mezza половин połow halve نصف",
    3: "terci terç tiers drittel terz треть трет trzeci derde ثلث",
    4: "cuart quart viertel четверт czwart kwart ربع أرباع",
    5: "quint cinquième fünftel пят pięt ارب خمس",
}
_PART = [(stem, number) for number, stems in _PARTS.items() for stem in stems.split()]

_SCRIPTS = (
    ("ko", re.compile("[가-힣]")), ("ja", re.compile("[ぁ-ヿ]")), ("zh", re.compile("[一-鿿]")), ("th", re.compile("[ก-๛]")),
    ("he", re.compile("[א-ת]")), ("fa", re.compile("[پچژگ]")), ("ar", re.compile("[ء-ي]")), ("hi", re.compile("[ऀ-ॿ]")),
    ("bn", re.compile("[ঀ-৿]")), ("el", re.compile("[α-ωά-ώ]")), ("uk", re.compile("[іїєґ]")), ("ru", re.compile("[а-я]")),
)  # fmt: skip
_COMMON_WORDS = {
    "en": "the is are of and to in so has have that with for this there she he we total cost each it was not left all at takes be",
    "es": "el la los las de que y en es un una por para con hay se son del tiene total cuesta quedan queda le su al entonces lo tarda será",
    "fr": "le la les de des et est un une il elle y a dans pour au en reste coûte sont donc du se nous avons fait lui sa cette dure",
    "de": "der die das und ist ein eine sind es er sie hat haben den dem insgesamt kostet also bleiben bleibt man braucht für zu mit wir auf beträgt betragen von",
    "pt": "o os as de que e em um uma para com há são do da tem custa restam ao ele ela no na foi total sobram durou portanto",
    "it": "il lo la i gli le di che e in un una per con sono ci ha è del della costa restano totale quindi rimangono nel dura",
    "nl": "de het een en is van zijn er in hij ze heeft dat voor met kost totaal dus over nodig blijven aan",
    "pl": "w i jest na się to są ma z do że razem kosztuje zostało więc po nie łącznie koszyku dwa",
    "sv": "och är det en ett i att som för har kostar totalt alltså på den med kvar blir finns av",
    "da": "og er det en et i at der for har koster alt derfor på den med tilbage",
    "fi": "on ja se hän yhteensä maksaa joten ne ei ovat",
    "cs": "je a v na se to má celkem stojí zbývá takže jsou korun",
    "tr": "ve bir bu toplam var kaldı eder için olur tane sonuç yani ile",
    "vi": "là có và của một tất cả còn vậy số được người cái tổng cộng kết quả",
    "id": "yang dan di ada adalah jadi total untuk dari dengan sisa harga buah semua membeli memiliki ibu",
    "ro": "este și în de la un o sunt are total costă rămân deci",
    "hu": "és a az egy van összesen tehát marad",
}
_WORDS_OF = {language: frozenset(words.split()) for language, words in _COMMON_WORDS.items()}


def language_of(text: str) -> str:
    """Return the language that a text is most likely in, as its ISO 639-1 code; English where nothing tells.

    Args:
        text: a sentence or more.
    """
    lowered = text.casefold()
    if not text.isascii():
        for language, letters in _SCRIPTS:
            if letters.search(lowered):
                return language
    words = re.findall(r"[^\W\d_]+", lowered)[-60:]
    hits = {language: sum(word in known for word in words) for language, known in _WORDS_OF.items()}
    best = max(hits, key=lambda language: hits[language])
    return best if hits[best] > hits[ENGLISH] and 4 * hits[best] >= len(words) ** 0.5 else ENGLISH


def read_foreign(text: str, language: str) -> tuple[Fraction, int] | None:
    """Return the number in a language's words that a text begins with and where it ends, or None.

    Args:
        text: such as ``veinticinco manzanas``.
        language: its ISO 639-1 code.
    """
    words = [match for _, match in zip(range(8), re.finditer(r"\S+", text), strict=False)]
    if not words or words[0].start():
        return None
    known = words and _words("pt_BR" if language == "pt" else language)
    for count in range(len(words), 0, -1):
        end = words[count - 1].end()
        phrase = text[:end].rstrip(".,;:!")
        value = known.get(_joined(phrase)) if known else None
        if value is not None:
            following = words[count][0].casefold() if count < len(words) else ""
            part = next((number for stem, number in _PART if following.startswith(stem)), None)
            if part and value:
                return Fraction(value, part), words[count].end()
            return Fraction(value), len(phrase)
    return None


def _joined(words: str) -> str:
    return _GAPS.sub("", words.casefold())
