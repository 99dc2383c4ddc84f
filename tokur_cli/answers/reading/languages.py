"""What libraries know of a language: the names of its months, whether it writes 0,5 for a half; which a text is in."""

from __future__ import annotations

import re
from functools import cache

ENGLISH = "en"


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
