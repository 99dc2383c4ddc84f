"""The units that an answer may carry, and what they are worth; scales such as per cent and million.

Only unambiguous names are here: "pounds" may be money or mass, so it is not. A letter is a unit after a plain number
alone: math-verify reads past it too, so that ``5m`` equals 5 but is not ``5 cm``. A word that is not
here (``apples``, ``per day``) is read past and never compared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Unit(NamedTuple):
    """A unit: its dimension and its worth in that dimension's base."""

    dimension: str
    factor: Fraction


_SCALES = {
    "1/100": "% percent percentage pct prozent pourcent procent процентов percento パーセント 퍼센트",
    "12": "dozen dozens",
    "100": "hundred 百",
    "1000": "thousand k mil mille tausend тысяч тыс tusen nghìn ribu bin ألف हजार พัน 千 천",
    "10000": "万 萬 만 หมื่น",
    "100000": "lakh lakhs लाख",
    "1000000": "million millions mn mio millón millones milioni milhões milhão millionen миллион миллиона миллионов млн"
    " mln milyon triệu juta مليون ล้าน",
    "10000000": "crore crores करोड़",
    "100000000": "亿 億 억",
    "1000000000": "bn billion billions mrd milliard milliards milliarden bilhão bilhões"
    " миллиард миллиарда миллиардов млрд mld milyar"
    " tỷ مليار",
    "1000000000000": "trillion trillions billón billones трлн 兆 조 万亿",
}
SCALES: dict[str, Fraction] = {name: Fraction(scale) for scale, names in _SCALES.items() for name in names.split()}
"""Words for a multiple. A million is exact, ``5 million`` is not 5; a per cent is a hundredth that may be left out."""

_TABLE: dict[tuple[str, str], str] = {
    ("dollar", "1"): "$ dollar dollars usd us$ dólares доллар доллара долларов",
    ("dollar", "1/100"): "cent cents ¢",
    ("euro", "1"): "€ euro euros eur евро",
    ("pound", "1"): "£ gbp",
    ("yen", "1"): "¥ 円 yen jpy 日元",
    ("yuan", "1"): "元 yuan rmb cny 块 人民币",
    ("rupee", "1"): "₹ rupee rupees inr रुपये",
    ("ruble", "1"): "₽ рубль рубля рублей руб",
    ("real", "1"): "r$ reais",
    ("lira", "1"): "₺ lira tl",
    ("zloty", "1"): "zł",
    ("length", "1/1000"): "mm millimeter millimeters millimetre millimetres 毫米 мм",
    ("length", "1/100"): "cm centimeter centimeters centimetre centimetres centímetros zentimeter 厘米 см センチ",
    ("length", "1"): "m meter meters metre metres metros mètres 米 メートル 미터 метр метра метров",
    ("length", "1000"): "km kilometer kilometers kilometre kilometres kilómetros 公里 千米 км километр километров",
    ("length", "0.0254"): "in inch inches",
    ("length", "0.3048"): "ft foot feet",
    ("length", "0.9144"): "yard yards",
    ("length", "1609.344"): "mile miles",
    ("mass", "1/1000000"): "mg milligram milligrams 毫克",
    ("mass", "1/1000"): "g gram grams gramm gramos grammes 克 グラム 그램 грамм граммов",
    ("mass", "1"): "kg kilogram kilograms kilogramm kilo kilos kilogramos 公斤 千克 キログラム 킬로그램 кг",
    ("mass", "0.028349523125"): "oz ounce ounces",
    ("mass", "0.45359237"): "lb lbs",
    ("time", "1"): "s sec secs second seconds sekunden segundos secondes 秒 초 секунд",
    ("time", "60"): "min mins minute minutes minuten minuto minutos minuti 分钟 分 分間 분 минут",
    ("time", "3600"): "h hr hrs hour hours stunde stunden hora horas heure heures ora ore 小时 時間 시간 час часов",
    ("time", "86400"): "day days tag tage tagen día días dia dias jour jours giorno giorni 天 日 日間 일 день дня дней",
    ("time", "604800"): "week weeks woche wochen semana semanas semaine semaines settimane 周 週間 주 недели недель",
    ("year", "1"): "year years yr yrs jahr jahre años anos ans années anni 年 岁 歳 년 год года лет",
    ("year", "1/12"): "month months monate meses mois mesi 个月 か月 개월 месяц месяца месяцев",
    ("volume", "1/1000"): "ml milliliter milliliters millilitre millilitres 毫升",
    ("volume", "1"): "l liter liters litre litres litro litros litri 升 リットル 리터 литр литра литров",
    ("angle", "1"): "degree degrees ° grad grados graus gradi degrés 度 도 градус градуса градусов",
    ("radian", "1"): "radian radians rad",
}

UNITS: dict[str, Unit] = {
    name: Unit(dimension, Fraction(factor)) for (dimension, factor), names in _TABLE.items() for name in names.split()
}

POWERS = {"square": 2, "sq": 2, "cubic": 3}
"""Words that stand before a unit."""

CURRENCY = "$€£¥₹₩₽₫₺₱฿₪₦₴"
"""Signs of money, for a class of characters in a regular expression."""

CURRENCY_BEFORE = (
    rf"(?:(?:US|CA|AU|HK|NT|R|S/?)\\?[{CURRENCY}]|\\?[{CURRENCY}]|(?:Rp|Rs|RM|CHF|EUR|USD|GBP|S/)\.?(?=\s?\d))"
)
"""What may stand for money before a number."""


def unit_of(word: str, power: int = 1) -> Unit | None:
    """Return the unit that a word names, such as ``cm``, to a power (``cm^2``); None for one that we do not know."""
    unit = UNITS.get(word.lower().strip("."))
    return unit if unit is None or power == 1 else Unit(f"{unit.dimension}^{power}", unit.factor**power)


def scale_of(word: str) -> str:
    """Return the scale that a word is, or that it begins with in a script without spaces (万元); empty for none."""
    word = word.lower()
    lengths = (len(word), 2, 1) if word[:1] >= "\u0e00" else (len(word),)
    return next((word[:length] for length in lengths if word[:length] in SCALES), "")
