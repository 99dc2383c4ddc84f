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
    "en": "the is are of and to in so has have that with for this there she he we total cost each it was not left all at takes be a an on by or from his her him they them i my you your our per than more less how many much were had will would do does if when after before then every day days year years hours minutes dollars no some one two three four five can must get gets another am as",
    "es": "el la los las de que y en es un una por para con hay se son del tiene total cuesta quedan queda le su al entonces lo tarda será a está están dura cada uno hora horas días año años era fueron tendrá quedó compró ganó pagó vendió cuánto respuesta probabilidad temperatura niños no sino número ser puede resultado sean paga sí si tal vez",
    "fr": "le la les de des et est un une il elle y a dans pour au en reste coûte sont donc du se nous avons fait lui sa cette dure ce c d l qu on à aux par chaque chacun heure heures jours ans plus ses leur reçoit achète vend gagne faut probabilité température pommes enfants total ville compte ne pas être peut résultat je réponse représente soit cela valeur non oui",
    "de": "der die das und ist ein eine sind es er sie hat haben den dem insgesamt kostet also bleiben bleibt man braucht für zu mit wir auf beträgt betragen von dauert stunden tage tagen jahre wird werden wurden war waren noch im am um ihm ihr pro jeder jede beim bis mal sich kinder wahrscheinlichkeit temperatur antwort ja nein nicht richtig ich mir vielleicht sicher aber nur wenn",
    "pt": "o os as de que e em um uma para com há são do da tem custa restam ao ele ela no na foi total sobram durou portanto a é está dura leva cada horas dias anos às nas você probabilidade temperatura resposta maçãs comprou vendeu ganhou pagou dos das sim não mas apenas se alternativa isso representa cento",
    "it": "il lo la i gli le di che e in un una per con sono ci ha è del della costa restano totale quindi rimangono nel dura al alla nella dei delle degli lui lei ogni ore giorni anni probabilità temperatura risposta mele comprato venduto dal vogliono treno arriva alle ma se sì servono almeno no non",
    "nl": "de het een en is van zijn er in hij ze heeft dat voor met kost totaal dus over nodig blijven aan duurt uur dagen jaar nog elk per naar bij kans temperatuur antwoord appels verkocht gekocht betaalt zij om nee alleen als geen ja niet maar antwoorden",
    "pl": "w i jest na się to są ma z do że razem kosztuje zostało więc po nie łącznie koszyku dwa trwa godzin dni lat każdy jej jego prawdopodobieństwo temperatura wynosi odpowiedź mają sprzedała kupił o wpół przyjeżdża pociąg klasie tak trzeba",
    "sv": "och är det en ett i att som för har kostar totalt alltså på den med kvar blir finns av timmar dagar år varje svaret äpplen tar hon han",
    "da": "og er det en et i at der for har koster alt derfor på den med tilbage timer dage år hver svaret æbler tager hun han bliver",
    "fi": "on ja se hän yhteensä maksaa joten ne ei ovat",
    "cs": "je a v na se to má celkem stojí zbývá takže jsou korun",
    "tr": "ve bir bu toplam var kaldı eder için olur tane sonuç yani ile saat gün yıl her tanesi cevap olasılık sıcaklık kadar daha dir sürer sürüyor vardır elma yolculuk sınıfta gerekir en az büyüktür evet",
    "vi": "là có và của một tất cả còn vậy số được người cái tổng cộng kết quả mất ngày giờ mỗi đáp án bạn cô anh em táo đồng phải bằng",
    "id": "yang dan di ada adalah jadi total untuk dari dengan sisa harga buah semua membeli memiliki ibu jam hari tahun setiap jawaban apel sebanyak bukan jawabannya tidak melainkan totalnya seluruhnya ya",
    "ro": "este și în de la un o sunt are total costă rămân deci",
    "hu": "és a az egy van összesen tehát marad",
}
_LETTERS_OF = {
    "es": "ñ¿¡", "pt": "ãõ", "fr": "œîû", "de": "ß", "pl": "łżźśćńąę", "tr": "şğı", "cs": "řěů", "sv": "å", "hu": "őű", "ro": "țșă", "da": "æøå",
    "vi": "đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
}  # fmt: skip
"""Letters that one language alone has, or hardly another of these."""

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
    hits = {
        language: sum(word in known for word in words)
        + 2 * any(letter in lowered for letter in _LETTERS_OF.get(language, ""))
        for language, known in _WORDS_OF.items()
    }
    best = max(hits, key=lambda language: hits[language])
    return best if hits[best] > hits[ENGLISH] and 4 * hits[best] >= len(words) ** 0.5 else ENGLISH
