"""Days and times of day in a text: ``5. März 2024``, ``10 h 30``, ``halb elf``, ``下午两点半``."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.foreign import hour_words
from tokur_cli.answers.reading.languages import ENGLISH, month_names

_DATE = expression(
    r"(?<!\d)\d{4}[-/]\d{1,2}[-/]\d{1,2}(?!\d)|\d{4}\s?[年년]\s?\d{1,2}\s?[月월]\s?\d{1,2}\s?[日일號号]?"
    r"|(?i:\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)[a-z]*\.?\s+\d{1,2}(?:st|nd|rd|th)?(?:,?\s+\d{4})?\b)"
    r"|(?i:\b\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)[a-z]*\.?(?:,?\s+\d{4})?\b)"
)
_LATE = r"下午|晚上|午後|오후|傍晚|夜"
_EARLY = r"上午|早上|午前|오전|凌晨"
_CLOCK = expression(
    rf"(?P<late>{_LATE})?(?:{_EARLY})?\s?(?<!\d)(?P<hour>[01]?\d|2[0-4])\s?(?:h|Uhr|giờ|[点點時时시](?![間间])|:)\s?(?P<minute>[0-5]\d)"
    rf"(?![\d:])(?:分|분|\s?Uhr)?(?!\s?(?:min|phút))|(?P<late2>{_LATE})?(?:{_EARLY})?(?<!\d)(?P<hour2>[01]?\d|2[0-4])[点點시](?![\d间間간])"
    r"(?P<half>\s?[半반])?"
    r"|(?<![\d.,])(?P<hour3>[01]?\d|2[0-4])\.(?P<minute3>[0-5]\d)(?=\s?Uhr\b)(?:\s?Uhr)?"
    r"|(?<!\w)(?i:saat|kl\.?|klo|godz\.?|o godzinie|alle(?: ore)?)\s(?P<hour4>[01]?\d|2[0-4])\.(?P<minute4>[0-5]\d)(?![\d.,%])"
    r"|(?P<late5>下午|晚上|午後|傍晚|夜)?(?:上午|早上|午前|凌晨)?(?P<hour5>\d\d?|[一二两三四五六七八九十]{1,3})[点點時](?:半|(?P<minute5>[一二三四五]?十[一二三四五六七八九]?|\d\d)分)"
    r"|(?P<late6>오후)?\s?(?P<hour6>한|두|세|네|다섯|여섯|일곱|여덟|아홉|열|열한|열두)\s?시\s?반"
)
_HOURS = {word: hour for hour, word in enumerate("一 二 三 四 五 六 七 八 九 十 十一 十二".split(), 1)} | {"两": 2}
_HOURS |= {word: hour for hour, word in enumerate("한 두 세 네 다섯 여섯 일곱 여덟 아홉 열 열한 열두".split(), 1)}

_ORDINALS = {
    "ru": "перво|второ|третье|четверто|пято|шесто|седьмо|восьмо|девято|десято|одиннадцато|двенадцато",
    "pl": "pierwszej|drugiej|trzeciej|czwartej|piątej|szóstej|siódmej|ósmej|dziewiątej|dziesiątej|jedenastej|dwunastej",
}
"""The hours as "half of the eleventh" names them."""

_SPOKEN: dict[str, tuple[tuple[str, int], ...]] = {
    "de": ((r"halb {}", -30), (r"viertel vor {}", -15), (r"viertel nach {}", 15)),
    "nl": ((r"half {}", -30), (r"kwart voor {}", -15), (r"kwart over {}", 15)),
    "sv": ((r"halv {}", -30), (r"kvart i {}", -15), (r"kvart över {}", 15)),
    "da": ((r"halv {}", -30), (r"kvart i {}", -15), (r"kvart over {}", 15)),
    "pl": ((r"w?pół do {}", -30),),
    "id": ((r"(?:pukul|jam) setengah {}", -30),),
    "hu": ((r"fél {}(?:kor)?", -30),),
    "ru": ((r"половин[ае] {}(?:го)?", -30),),
    "es": ((r"las? {} y media", 30), (r"las? {} y cuarto", 15), (r"las? {} menos cuarto", -15)),
    "pt": ((r"[àa]s? {} e meia(?! (?:horas?|dúzia))", 30), (r"[àa]s? {} e um quarto", 15)),
    "it": (
        (r"al(?:le|l') ?{} e mezz[ao]", 30),
        (r"al(?:le|l') ?{} e un quarto", 15),
        (r"al(?:le|l') ?{} meno un quarto", -15),
    ),
    "fr": ((r"à {} heures? et demie", 30), (r"à {} heures? et quart", 15), (r"à {} heures? moins le quart", -15)),
}
"""How a language says half past and a quarter to an hour, and the minutes to be added to that hour."""


class Moment(NamedTuple):
    """A day or a time of day where it stands in a text, and as it is written in any language."""

    start: int
    end: int
    text: str


def first_date(text: str, start: int) -> re.Match[str] | None:
    """Return the first day in digits or in English at or behind ``start``."""
    return _DATE.search(text, start)


def first_moment(text: str, start: int, language: str) -> Moment | None:
    """Return the first time of day as in 10 h 30, "halb elf" or 上午10点30分, or day in a language's words.

    Args:
        text: in plain writing.
        start: where to begin.
        language: that of the text around it, as its ISO 639-1 code.
    """
    clock = _CLOCK.search(text, start)
    if clock and ":" not in clock[0]:
        return Moment(clock.start(), clock.end(), _of_clock(clock))
    if language == ENGLISH:
        return None
    spoken = _spoken(text, start, language)
    if spoken:
        return spoken
    day = _days(language).search(text, start)
    if day is None:
        return None
    month = month_names(language)[day["month"].lower().rstrip(".")]
    year = f"{day['year']}-" if day["year"] else ""
    return Moment(day.start(), day.end(), f"{year}{month:02}-{int(day['day']):02}")


def _of_clock(clock: re.Match[str]) -> str:
    groups = {name.rstrip("23456"): value for name, value in clock.groupdict().items() if value}
    written, minute = groups["hour"], groups.get("minute")
    hour = int(written) if written.isdigit() else _HOURS.get(written, 0)
    if minute is None:
        minute = "30" if "半" in clock[0] or "반" in clock[0] else "00"
    elif not minute.isdigit():
        tens, _, ones = minute.partition("十")
        minute = str(10 * (_HOURS.get(tens) or 1) + _HOURS.get(ones, 0))
    return f"{hour}:{minute}" + (" pm" if "late" in groups and hour <= 12 else "")


def _spoken(text: str, start: int, language: str) -> Moment | None:
    for pattern, minutes in _spoken_patterns(language):
        found = pattern.search(text, start)
        if found:
            hour = _hours(language)[found["hour"].casefold()]
            total = (60 * hour + minutes) % 720 or 720
            hours, minute = divmod(total, 60)
            return Moment(found.start(), found.end(), f"{hours or 12}:{minute:02}")
    return None


@cache
def _hours(language: str) -> dict[str, int]:
    """Return the names of the hours, 1 to 12, in digits and in words."""
    named = _ORDINALS.get(language, "").split("|")
    words = {word: hour for hour, word in enumerate(named, 1) if word}
    return {str(hour): hour for hour in range(1, 13)} | (words or hour_words(language))


@cache
def _spoken_patterns(language: str) -> tuple[tuple[re.Pattern[str], int], ...]:
    if language not in _SPOKEN:
        return ()
    names = "|".join(sorted(map(re.escape, _hours(language)), key=len, reverse=True))
    return tuple(
        (re.compile(r"(?i)(?<!\w)" + form.format(rf"(?P<hour>{names})") + r"(?!\w)"), minutes)
        for form, minutes in _SPOKEN[language]
    )


@cache
def _days(language: str) -> re.Pattern[str]:
    names = month_names(language) and "|".join(sorted(map(re.escape, month_names(language)), key=len, reverse=True))
    if not names:
        return re.compile(r"(?!)")
    return re.compile(
        rf"(?i)(?<!\d)(?P<day>[12]?\d|3[01])(?:\.|º|er|-?го)?\s+(?:de\s+|di\s+)?(?P<month>{names})\b\.?(?:,?\s+(?:de\s+|del\s+)?(?P<year>\d{{4}}))?"
        r"(?:\s*(?:года|року|г\.|roku))?"
    )
