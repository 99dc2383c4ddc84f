"""Words of many languages: numbers, as far as the library lacks them, what joins them, and the ways to say yes and no."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tokur_cli.answers.reading.expressions import expression

_KOREAN = ("", "하나 한", "둘 두", "셋 세", "넷 네", "다섯", "여섯", "일곱", "여덟", "아홉")
_HINDI = (
    "शून्य एक दो तीन चार पांच छह सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस बीस इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस "
    "अट्ठाईस उनतीस तीस इकतीस बत्तीस तैंतीस चौंतीस पैंतीस छत्तीस सैंतीस अड़तीस उनतालीस चालीस इकतालीस बयालीस तैंतालीस चवालीस पैंतालीस छियालीस सैंतालीस "
    "अड़तालीस उनचास पचास इक्यावन बावन तिरपन चौवन पचपन छप्पन सत्तावन अट्ठावन उनसठ साठ इकसठ बासठ तिरसठ चौंसठ पैंसठ छियासठ सड़सठ अड़सठ उनहत्तर सत्तर "
    "इकहत्तर बहत्तर तिहत्तर चौहत्तर पचहत्तर छिहत्तर सतहत्तर अठहत्तर उन्यासी अस्सी इक्यासी बयासी तिरासी चौरासी पचासी छियासी सत्तासी अट्ठासी नवासी नब्बे "
    "इक्यानवे बानवे तिरानवे चौरानवे पचानवे छियानवे सत्तानवे अट्ठानवे निन्यानवे सौ"
)

OTHERS: dict[str, Mapping[str, int | Fraction]] = {
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
    | {
        f"{name}cent": 100 * number
        for number, name in enumerate("deux trois quatre cinq six sept huit neuf".split(), 2)
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
    "cs": {"dvě": 2},
    "ro": {"două": 2},
    "es": {"veintiún": 21, "veintiuna": 21},
    "ja": {"ゼロ": 0},
    "ar": {
        "نصف": Fraction(1, 2),
        "ثلث": Fraction(1, 3),
        "ربع": Fraction(1, 4),
        "ثلثان": Fraction(2, 3),
        "ثلثين": Fraction(2, 3),
        "ثلثي": Fraction(2, 3),
        "ثلثا": Fraction(2, 3),
    },
    "ru": {"две": 2, "одна": 1, "полтора": Fraction(3, 2), "полторы": Fraction(3, 2), "полмиллиона": 500_000},
    "pt": {"duas": 2},
    "he": {
        name: number for number, name in enumerate("אחד שניים שלושה ארבעה חמישה שישה שבעה שמונה תשעה עשרה".split(), 1)
    },
    "tr": {"yarım": Fraction(1, 2)},
    "vi": {"mốt": 1, "tư": 4, "lăm": 5},
}
"""Forms that the library lacks: Hindi, Korea's own numerals, feminine ones."""

ARTICLES: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "es": "un una", "fr": "un une", "de": "ein eine einen einem einer", "pt": "um uma", "it": "un uno una",
        "nl": "een één", "ro": "un o", "sv": "en ett", "da": "en et", "tr": "bir", "hu": "egy",
    }.items()
}  # fmt: skip
"""Words that are one where a part, a scale, a unit or nothing follows them, and an article otherwise."""

DETERMINERS = frozenset(("한", "두", "세", "네"))
"""Korean numbers that stand before what they count alone; 네 by itself is a yes."""

JOINERS = {"es": "y", "pt": "e", "it": "e", "fr": "et", "ro": "și", "vi": "linh lẻ", "ar": "و", "he": "ו", "el": "και"}
"""What stands between the parts of a number: the "y" of "treinta y uno"."""

_PART_NAMES: dict[str, tuple[str, ...]] = {
    # halves, thirds, … tenths
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
PARTS = {language: tuple(expression(names) for names in parts) for language, parts in _PART_NAMES.items()}
"""Regular expressions of the words for halves, thirds, … tenths."""

_THOUSANDS = {
    "de": "tausend(?:und)?", "nl": "duizend(?:en)?", "it": "mil(?:a|le)", "sv": "tusen", "da": "tusind(?:e(?!t))?", "hu": "ezer",
    "fi": "tuhatta|tuhat", "tr": "bin",
}  # fmt: skip
THOUSANDS = {language: expression(word) for language, word in _THOUSANDS.items()}
"""The thousand of languages that write a number as one word."""

HUNDREDS = {language: expression(word) for language, word in (("de", "hundert"), ("nl", "honderd"), ("sv", "hundra"))}
"""The hundred of which they count more than nine: "vijfentwintighonderd" is 2500."""

RATIOS = {"vi": expression(r"\s*phần\s*(?!trăm)"), "th": expression(r"\s*(?:ใน|ส่วน)\s*")}
"""What stands between numerator and denominator: "ba phần tư" is three quarters."""

AND_A_HALF = expression(
    r"\s(?:and a half|y medi[ao]|e mei[ao]|et demie?|e mezz[ao]|en een halve?|und ein(?:e[nrs]?)? halb(?:e[nrs]?)?|och en halv|og en halv|setengah|i pół|с половиной|rưỡi|buçuk|ونصف)(?![^\W\d_])"
)
"""The half that words behind a number add to it."""

AND_A_QUARTER = expression(
    r"(?i)\s(?:and a quarter|y cuarto|e um quarto|et quart|e un quarto|en een kwart|und ein(?:e[nr]?)? viertel|och en kvart|i kwadrans|с четвертью|وربع)(?![^\W\d_])"
)
"""The quarter that words behind a number add to it."""

QUARTERS = {"साढ़े": Fraction(1, 2), "सवा": Fraction(1, 4), "पौने": Fraction(-1, 4)}
"""What the words in front of a Hindi number add to it."""

YES = frozenset(
    "yes true yeah yep yup ja jawohl richtig wahr oui vrai sí si cierto verdadero verdadera sim verdadeiro verdadeira sì vero vera да верно правда так tak prawda jo waar evet doğru はい ええ 正しい "
    "네 예 맞습니다 참 是 是的 对 對 对的 對的 正确 正確 نعم صحيح हाँ हां जी सही ใช่ ถูกต้อง có vâng đúng ya benar כן נכון ναι igen ano".split()
)
NO = frozenset(
    "no false nope nein falsch non faux não falso falsa нет неверно неправда ні nie fałsz nee onwaar nej hayır yanlış いいえ いえ 아니요 아니오 아닙니다 거짓 不 不是 不对 不對 否 错 錯 错误 錯誤 لا خطأ नहीं गलत "
    "ไม่ ไม่ใช่ ผิด không sai tidak bukan salah לא όχι nem ne".split()
)
VERDICTS = YES | NO
"""The words, in small letters, by which a text says yes or true, no or false."""
