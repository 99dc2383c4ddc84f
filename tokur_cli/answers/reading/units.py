"""The units that an answer may carry, and what they are worth.

Only unambiguous names are here: "pounds" may be money or mass, so it is not. A letter is a unit after a plain number
alone: math-verify reads past it too, so that ``5m`` equals 5 but is not ``5 cm``. A word that is not
here (``apples``, ``per day``) is read past and never compared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tokur_cli.answers.reading.expressions import expression


class Unit(NamedTuple):
    """A unit: its dimension and its worth in that dimension's base."""

    dimension: str
    factor: Fraction


_SCALES = {
    "1/100": "% percent percentage pct prozent pourcent pour\u00a0cent procent procenta procentów процент процента процентов por\u00a0ciento por\u00a0cento per\u00a0cento yüzde "
    "phần\u00a0trăm persen प्रतिशत শতাংশ بالمئة بالمائة في\u00a0المئة في\u00a0المائة เปอร์เซ็นต์ パーセント 퍼센트",
    "12": "dozen dozens dutzend docena docenas douzaine douzaines dúzia dúzias dozzina dozzine tuzin tuziny tuzinów lusin düzine dozijn dussin дюжина дюжины дюжин دزينة دستة दर्जन "
    "ダース 打 다스 โหล tá",
    "100": "hundred 百",
    "1000": "thousand k mil mila mille tausend тысяча тысячи тысяч тысячам тыс тисяча тисячі тисяч тис tysiąc tysięcy tysiące tys tisíc tisíce tisíců duizend tusen ezer mie mii nghìn ngàn ribu "
    "bin ألف ألفا آلاف الف هزار हजार हज़ार হাজার χιλιάδες אלף אלפים พัน 千 천 กิโล",
    "10000": "万 萬 만 หมื่น",
    "100000": "lakh lakhs लाख লাখ แสน",
    "1000000": "million millions mn millón millones milione milioni milhão milhões milioane millionen millioner mio миллион миллиона миллионов млн мільйон мільйони мільйонів mln "
    "miljoen miljoner miljon miljoonaa milion miliony milionów milionů millió triệu juta milyon مليون مليونا ملايين میلیون εκατομμύριο εκατομμύρια מיליון ล้าน 百万 百萬 백만",
    "10000000": "crore crores करोड़ কোটি 千万 千萬 천만 สิบล้าน",
    "100000000": "亿 億 억 ร้อยล้าน",
    "1000000000": "bn milliard milliards milliarde milliarden milliarder mrd миллиард миллиарда миллиардов млрд мільярд мільярди мільярдів mld mlrd miliard miliardy miliardów miliardů "
    "miliarda miliardo miliardi miliarde billion billions bilhão bilhões miljard miljarder miljardia milliárd tỷ tỉ miliar milyar مليار مليارا مليارات میلیارد अरब δισεκατομμύριο "
    "δισεκατομμύρια מיליארד พันล้าน 十亿 十億 십억",
    "1000000000000": "trillion trillions billionen billones billón biljoen bilione bilioni bilião biliões bilionów biliony biljon biljoner billioner trilhão trilhões трлн триллион "
    "триллиона триллионов трильйон трильйони trilyon triliun تريليون تريليونات ล้านล้าน 兆 조 万亿 萬億",
}
SCALES: dict[str, Fraction] = {
    name.replace("\u00a0", " "): Fraction(scale) for scale, names in _SCALES.items() for name in names.split(" ")
}
"""Words for a multiple. A million is exact, ``5 million`` is not 5; a per cent is a hundredth that may be left out."""

_INFLECTED = tuple(
    (expression(rf"(?:{stems})(?!th|är|air)\w{{0,3}}"), Fraction(scale))
    for scale, stems in (
        (10**3, "тысяч|тисяч|tysi[ąę]c|tisíc|bin(?=[dea])"),
        (10**6, "mil+i[oóò]n|миллион|мільйон|milyon|miljoo?n"),
        (10**9, "mil+i?ard|миллиард|мільярд|milyar|miljard"),
        (10**12, "триллион|трильйон|trilyon"),
    )
)
"""What the forms of words for thousands and millions have in common."""

_LONG_SCALE = {
    name: Fraction(10) ** exponent
    for exponent, names in {12: "billion billions bilion", 15: "billiarde billiarden", 18: "trillion trillions"}.items()
    for name in names.split()
}
_LOCAL_SCALES = {
    **dict.fromkeys("cs da de es fi fr hu it nl no pl sv".split(), _LONG_SCALE),
    "pt": {"mi": Fraction(10**6)},
    "hi": {"सौ": Fraction(100)},
}
"""Words whose worth depends on the language: a German Billion is a million millions."""

_TABLE: dict[tuple[str, str], str] = {
    ("dollar", "1"): "$ dollar dollars usd us$ dólar dólares dolares доллар доллара долларов dolar dolarów",
    ("dollar", "1/100"): "cent cents ¢ centavo centavos",
    ("euro", "1"): "€ euro euros eur евро يورو",
    ("pound", "1"): "£ gbp",
    ("yen", "1"): "¥ 円 yen jpy 日元",
    ("yuan", "1"): "元 yuan rmb cny 块 塊 人民币 元钱",
    ("won", "1"): "원 ₩ won krw",
    ("dong", "1"): "₫ đồng vnd",
    ("lira", "1"): "₺ lira tl",
    ("peso", "1"): "₱ pesos",
    ("baht", "1"): "฿ บาท baht",
    ("shekel", "1"): "₪ שקל שקלים",
    ("naira", "1"): "₦",
    ("hryvnia", "1"): "₴ гривень гривні",
    ("zloty", "1"): "zł zloty złotych złote",
    ("real", "1"): "r$ reais",
    ("rupiah", "1"): "rp rupiah",
    ("franc", "1"): "chf franken",
    ("rupee", "1"): "₹ rupee rupees inr रुपये रुपए रुपया",
    ("ruble", "1"): "₽ руб. рубль рубля рублей руб",
    ("length", "1/1000"): "mm millimeter millimeters millimetre millimetres 毫米 мм",
    (
        "length",
        "1/100",
    ): "cm centimeter centimeters centimetre centimetres centímetros centimètres zentimeter 厘米 см センチ 센티미터",
    (
        "length",
        "1",
    ): "m meter meters metre metres metro metros mètre mètres 米 公尺 メートル 미터 метр метра метров متر मीटर เมตร",
    (
        "length",
        "1000",
    ): "km kilometer kilometers kilometre kilometres kilómetro kilómetros quilômetro quilômetros kilomètre "
    "kilomètres chilometri 公里 千米 キロメートル 킬로미터 км километр километра километров كيلومتر किलोमीटर กิโลเมตร",
    ("length", "0.0254"): "in inch inches",
    ("length", "0.3048"): "ft foot feet",
    ("length", "0.9144"): "yard yards",
    ("length", "1609.344"): "mile miles",
    ("mass", "1/1000000"): "mg milligram milligrams 毫克",
    ("mass", "1/1000"): "g gram grams gramm gramos grammes gramas 克 グラム 그램 грамм граммов",
    (
        "mass",
        "1",
    ): "kg kilogram kilograms kilogramm kilo kilos kilogramos 公斤 千克 キログラム 킬로그램 кг килограмм килограмма "
    "килограммов كيلوغرام किलोग्राम กิโลกรัม",
    ("mass", "0.028349523125"): "oz ounce ounces",
    ("mass", "0.45359237"): "lb lbs",
    (
        "time",
        "1",
    ): "s sec secs second seconds sekunde sekunden segundo segundos seconde secondes 秒 초 секунда секунды секунд",
    (
        "time",
        "60",
    ): "min mins minute minutes minuten minuto minutos minuti 分钟 分鐘 分 分間 분 минута минуты минут دقيقة دقائق "
    "मिनट นาที phút dakika menit minut",
    (
        "time",
        "3600",
    ): "h hr hrs hour hours stunde stunden std hora horas heure heures ora ore 小时 小時 時間 시간 час часа часов "
    "ساعة ساعات घंटे घंटा ชั่วโมง giờ saat jam godzina godziny godzin uur uren",
    (
        "time",
        "86400",
    ): "day days tag tage tagen día días dia dias jour jours giorno giorni 天 日 日間 일 день дня дней يوم أيام "
    "दिन วัน ngày gün hari dni dagen",
    (
        "time",
        "604800",
    ): "week weeks woche wochen semana semanas semaine semaines settimane 周 週間 주 неделя недели недель",
    ("year", "1"): "year years yr yrs jahr jahre años anos ans années anni 年 岁 歳 년 год года лет",
    ("year", "1/12"): "month months monat monate meses mois mesi 个月 か月 ヶ月 개월 месяц месяца месяцев",
    ("volume", "1/1000"): "ml milliliter milliliters millilitre millilitres 毫升",
    ("volume", "1"): "l liter liters litre litres litro litros litri 升 リットル 리터 литр литра литров",
    ("angle", "1"): "degree degrees ° grad grados graus gradi degrés 度 도 градус градуса градусов",
    ("radian", "1"): "radian radians rad",
    ("speed", "1"): "mph",
}

UNITS: dict[str, Unit] = {
    name: Unit(dimension, Fraction(factor)) for (dimension, factor), names in _TABLE.items() for name in names.split()
}

CURRENCY = "$€£¥₹₩₽₫₺₱฿₪₦₴"
"""Signs of money, for a class of characters in a regular expression."""

CURRENCY_BEFORE = (
    rf"(?:(?:US|CA|AU|HK|NT|R|S/?)\\?[{CURRENCY}]|\\?[{CURRENCY}]|(?:Rp|Rs|RM|CHF|EUR|USD|GBP|S/)\.?(?=\s?\d))"
)
"""What may stand for money before a number."""

_POWERS = {"square": 2, "sq": 2, "cubic": 3}


def unit_of(words: list[str], power: int = 1) -> Unit | None:
    """Return the unit that ``words`` name, or None for words that name none we know.

    Args:
        words: what stands after a number, in lower case: ``["square", "centimeters"]``, ``["°"]``.
        power: an exponent written after it, 2 in ``cm^2``.
    """
    if words and words[0] in _POWERS:
        power, words = _POWERS[words[0]], words[1:]
    # "5 miles per hour" is not a length, so a unit stands alone.
    unit = UNITS.get(words[0].strip(".")) if len(words) == 1 else None
    if unit is None or power == 1:
        return unit
    return Unit(f"{unit.dimension}^{power}", unit.factor**power)


def scale_of(words: list[str], language: str = "en") -> tuple[Fraction, list[str]]:
    """Return the scale that ``words`` begin with, 1 where they begin with none, and the rest of them.

    Args:
        words: what stands after a number, in lower case: ``["mil", "millones", "de", "euros"]``, ``["万元"]``.
        language: that of the text around it, as its ISO 639-1 code: a German Billion has twelve zeros.
    """
    scale, rest = Fraction(1), words
    while rest and rest[0] not in UNITS:
        further, left = _first_scale(rest, language)
        if further == 1 or (scale != 1 and (further < 1000 or scale < 100)):
            break
        scale, rest = scale * further, left
    if scale != 1 and rest and rest[0] in ("de", "di", "of"):
        rest = rest[1:]
    return scale, rest


def _first_scale(words: list[str], language: str) -> tuple[Fraction, list[str]]:
    first = words[0].rstrip(".")
    local = _LOCAL_SCALES.get(language, {}).get(first)
    if local:
        return local, words[1:]
    if " ".join(words[:2]) in SCALES and len(words) > 1:
        return SCALES[" ".join(words[:2])], words[2:]
    if first in SCALES:
        return SCALES[first], words[1:]
    if first[:1] >= "\u0e00":  # a script without spaces: 万元
        for length in range(min(len(first) - 1, 8), 0, -1):
            if first[:length] in SCALES:
                return SCALES[first[:length]], [first[length:], *words[1:]]
    for stem, scale in _INFLECTED:
        if stem.fullmatch(first):
            return scale, words[1:]
    return Fraction(1), words
