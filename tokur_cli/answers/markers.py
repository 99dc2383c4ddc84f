"""What we know of languages, a language a line: how they announce an answer, and how their closing sentences state one.

A word is applied to texts of its own language alone. A text in a language that is not here is read by its markup, by
what stands alone in its last line and by its closing equation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property


@dataclass(frozen=True)
class Language:
    """A language, by its words as regular expressions."""

    code: str  # its ISO 639-1 code
    answer: str  # its words for "answer"
    link: str  # what stands between these and the answer
    stems: str  # what its words for "answer" have in common: a text without one has no marker of this language
    conclusion: str  # words that draw a conclusion
    unsure: str  # words by which a sentence denies or doubts its number or makes a bound of it
    common: str  # words, or a script, that tell it from the others
    has_decimal_comma: bool = True  # whether it writes 0,5 for a half

    @cached_property
    def marker(self) -> re.Pattern[str]:
        """What announces an answer."""
        return re.compile(rf"(?:{self.answer})(?:{self.link})", re.IGNORECASE)

    def with_points(self, text: str) -> str:
        """Return a text with decimal points, ``1234.5`` for a German ``1.234,5``; once only."""
        if not self.has_decimal_comma:
            return text
        return _CONTINENTAL.sub(lambda number: number[0].replace(".", "").replace(",", "."), text)

    def concludes(self, text: str) -> re.Match[str] | None:
        """Return the last of the words that draw a conclusion, None where a text has none."""
        return max(_words(self.conclusion).finditer(text), key=re.Match.end, default=None)

    def is_unsure(self, text: str) -> bool:
        """Return whether words deny or doubt what a text says, or make a bound of it."""
        return bool(_words(self.unsure).search(text))


_CONTINENTAL = re.compile(r"(?<![\d.,(\[{])(?:[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?|\d+,\d+)(?![\d.,)\]}]*\d|[)\]}])")


@cache
def _words(alternatives: str) -> re.Pattern[str]:
    is_joined = alternatives[:1] >= "\u0e00"  # Thai, Chinese, Japanese and Korean join words
    return re.compile(alternatives if is_joined else rf"(?i)(?<!\w)(?:{alternatives or '(?!)'})(?!\w)")


# A script that another language writes with signs of its own as well comes behind that one: ja before zh, uk before
# ru. Greek comes last: formulas in any language have its letters.
_TABLE = (
    Language("en", r"\banswers?\b|\bans\b(?=\.?\s?[:=])", r"[^\n.:=]{0,60}?\b(?:is|are|was|be|becomes|equals|comes(?:\s{1,4}out)?\s{1,4}to|works\s{1,4}out\s{1,4}to|\w{1,12}'s)\b(?!n)|'s\b|[^\n.:=]{0,40}?[:=]|\s{0,4}[-–—]{1,2}>?\s|\s{0,4}\n", "ans", r"so|thus|therefore|hence|consequently|altogether|overall|finally|in (?:all|total|the end)|total|that means|which means|left|remaining|leaves|as a result|we (?:get|have|find)", r"\A(?:let(?! me)|assume|suppose|if)|not|never|neither|nor|cannot|\w+n't|no (?:longer|one|(?:real |such )?(?:solutions?|answers?|numbers?|values?|ways?))|incorrect|wrong|unknown|unclear|without knowing|impossible|un(?:defined|determined|able|sure)|insufficient|supposed to|would have|would (?:\w+ )?be\Z|doubt|guess\w*|wants?|otherwise|either|might|may be|could|maybe|perhaps|possibly|(?:more|less|fewer|greater|larger|smaller|higher|lower) than|at (?:least|most)|(?:between|over|under|above|below|minimum|maximum|(?<!add )up to|besides)(?: of)?(?=\s+\W?\d)|hardly|except|excluding|other than|apart from|all but|or (?:more|less|so|fewer)|squared|cubed|factorial|mod(?:ulo)?|(?<=[\dn]\s)choose", "the is are of and to in there has have that with for this each she he it was not all at be by or his her we how many you can they an as from", False),
    Language("es", r"\b(?:respuesta|resultado\s{1,4}final|solución\s{1,4}final)\b", r"[^\n.:=]{0,60}?(?:\b(?:es|sería|son|era)\b|[:=])", "respuesta resultado solución", r"por (?:lo )?tanto|así que|entonces|en total|luego|en resumen|quedan?", r"no|nunca|ni|si|entre|(?:más|menos|mayor|menor) (?:de|que)|(?:al|por lo) menos|como (?:mínimo|máximo)|hasta|quizás?|tal vez|puede|podrían?|o bien|sería", "el la los las que y en es no se de un una por para con hay son del tiene cuesta quedan al cada"),
    Language("fr", r"\b(?:réponse|résultat\s{1,4}final)\b", r"[^\n.:=]{0,60}?(?:\b(?:est|serait|sont)\b|[:=])", "réponse résultat", r"donc|ainsi|au total|par conséquent|(?:il )?reste", r"ne|n'\w+|pas|non|jamais|si|entre|(?:plus|moins) de|au (?:plus|moins)|jusqu'à|peut-être|peut|pourrai\w+|soit|serait", "je la le les des de et est une il elle dans pour au reste coûte du se nous avons fait la y"),
    Language("de", r"\b(?:antwort|endergebnis|gesamtergebnis|lösung|ergebnis)\b", r"[^\n.:=]{0,60}?(?:\b(?:ist|lautet|beträgt|wäre|sind)\b|[:=])", "antwort ergebnis lösung", r"also|daher|somit|deshalb|insgesamt|folglich|demnach|zusammen|übrig", r"nicht|kein\w*|nein|nie|niemals|wenn|falls|zwischen|(?:mehr|weniger|größer|kleiner) als|mindestens|höchstens|über|unter|bis zu|vielleicht|möglicherweise|könnten?|dürften?|wäre", "ich der die das und ist nicht ein eine sind er sie hat haben den dem kostet bleiben man zu mit wir auf für im"),
    Language("pt", r"\b(?:resposta|resultado\s{1,4}final)\b", r"[^\n.:=]{0,60}?(?:\b(?:é|seria|são)(?![\w])|[:=])", "resposta resultado", r"portanto|então|logo|assim|no total|ao todo|restam?|sobram?", r"não|nunca|nem|se|entre|(?:mais|menos|maior|menor) (?:de|do|que)|pelo menos|no (?:máximo|mínimo)|até|talvez|pode|poderiam?|seria", "eu os as de não e em um uma com há são do da tem custa restam ao ele ela no na dos vende por"),
    Language("it", r"\b(?:risposta|risultato\s{1,4}finale)\b", r"[^\n.:=]{0,60}?(?:(?<!\w)(?:è|sarebbe|sono)(?!\w)|[:=])", "risposta risultato", r"quindi|dunque|perciò|in totale|in tutto|restano|rimangono", r"non|mai|né|se|tra|(?:più|meno|maggiore|minore) di|almeno|al (?:massimo|minimo)|forse|può|potrebbe\w*|sarebbe", "il lo gli di non che un una con sono ci ha del della costa restano nel alla si hanno le"),
    Language("nl", r"\bantwoord\b", r"[^\n.:=]{0,60}?(?:\b(?:is|zijn|luidt|bedraagt)\b|[:=])", "antwoord", r"dus|totaal|in totaal|blijven", r"niet|geen|nee|nooit|als|tussen|(?:meer|minder) dan|minstens|hoogstens|maximaal|minimaal|misschien|mogelijk|zou(?:den)?", "ik het een van niet zijn er hij heeft dat voor met kost blijven de en"),
    Language("sv", r"\bsvar(?:et)?\b", r"[^\n.:=]{0,60}?(?:(?<!\w)(?:är|blir)(?!\w)|[:=])", "svar", r"så|därför|alltså|totalt|kvar", r"inte|ingen|aldrig|om|mellan|(?:mer|mindre) än|minst|högst|kanske|möjligen|skulle", "och är det ett att som för har kostar blir finns av kvar"),
    Language("da", r"\bsvar(?:et)?\b", r"[^\n.:=]{0,60}?(?<!\w)(?:er|bliver)(?!\w)", "svar", r"så|derfor|i alt|tilbage", r"ikke|ingen|aldrig|hvis|mellem|(?:mere|mindre) end|mindst|højst|måske|muligvis|ville", "og er det et at der har koster til hun han bliver tilbage i alt"),
    Language("fi", r"\bvastaus\b", r"[^\n.:=]{0,60}?(?:\bon\b|[:=])", "vastaus", r"yhteensä|joten|siis", r"ei|eivät|jos|ehkä|vähintään|enintään|yli|alle", "on ja se hän maksaa ovat"),
    Language("pl", r"(?<!\w)(?:odpowiedź|odpowiedzią|wynik\s{1,4}końcowy)", r"[^\n.:=]{0,60}?(?:\b(?:to|brzmi|jest|wynosi)\b|[:=])", "odpowied wynik", r"więc|zatem|razem|łącznie|w sumie|zostało", r"nie|nigdy|jeśli|jeżeli|między|(?:więcej|mniej) niż|co najmniej|ponad|maksymalnie|może|chyba|być może|mogłoby", "w i jest na się są ma z że kosztuje zostało mają"),
    Language("cs", r"(?<!\w)(?:odpověď|odpoveď)", r"[^\n.:=]{0,60}?(?:\b(?:je|zní|znie)\b|[:=])", "odpov", r"takže|celkem|celkově|tedy|zbývá", r"ne|není|nikdy|jestliže|pokud|mezi|(?:více|méně) než|alespoň|nejvýše|nejméně|možná|snad", "je na se má stojí zbývá jsou korun v"),
    Language("uk", r"(?<!\w)(?:відповідь|відповіддю)(?!\w)", r"[^\n.:=–—]{0,60}?(?:(?<!\w)(?:це|є|дорівнює|буде)(?!\w)|[:=–—]|\s-\s)", "відповід", r"отже|тому|всього|разом", r"не|ні|якщо|між|більше|менше|щонайменше|може|можливо|б|би", "[іїєґ]"),
    Language("ru", r"\bрезультат\b|(?<!\w)ответ(?:ом)?(?!\w)", r"[^\n.:=–—]{0,60}?(?:(?<!\w)(?:это|равен|будет|является|составляет)(?!\w)|[:=–—]|\s-\s)", "ответ результат", r"итак|значит|поэтому|следовательно|таким образом|итого|всего|получается", r"не|нет|нельзя|ни|если|между|больше|меньше|более|менее|минимум|максимум|до|может|возможно|наверное|бы", "[а-я]"),
    Language("tr", r"\b(?:cevap|cevab\w{1,3}|yanıt\w{0,3})(?!\w)", r"[^\n.:=]{0,30}?[:=]|\s{1,4}(?:ise\s{1,4}|şudur\s{1,4})?", "cevap cevab yanıt", r"toplam(?:da)?|bu yüzden|böylece|öyleyse|dolayısıyla|sonuç olarak|kaldı|kalır", r"değil\w*|hayır|yok|eğer|ise|en az|en fazla|belki|olabilir|arasında", "ve bir bu var kaldı eder için olur tane vardır ile"),
    Language("vi", r"(?<!\w)(?:đáp\s{1,4}án|đáp\s{1,4}số|câu\s{1,4}trả\s{1,4}lời|trả\s{1,4}lời|kết\s{1,4}quả\s{1,4}cuối\s{1,4}cùng)", r"[^\n.:=]{0,40}?(?:(?<!\w)là(?!\w)|[:=])", "đáp lời quả", r"vậy|do đó|tổng cộng|tất cả|còn lại|như vậy", r"không|chưa|nếu|giữa|hơn|ít nhất|nhiều nhất|tối đa|tối thiểu|có thể|có lẽ", "là có và của một còn được cái quả người cô anh"),
    Language("id", r"\b(?:jawaban(?:nya)?|jawapan(?:nya)?)\b", r"[^\n.:=]{0,50}?(?:\b(?:adalah|ialah|yaitu)\b|[:=])", "jawab jawap", r"jadi|maka|totalnya|sehingga|dengan demikian|sisanya", r"tidak|bukan\w*|jika|kalau|antara|(?:lebih|kurang) dari|minimal|maksimal|mungkin|belum", "yang dan di ada adalah untuk dari sisa buah semua"),
    Language("ro", r"(?<!\w)răspuns(?:ul)?", r"[^\n.:=]{0,60}?(?:\b(?:este|e)\b|[:=])", "răspuns", r"deci|în total|rămân", r"nu|dacă|între|cel (?:puțin|mult)|poate|peste|sub", "este și în sunt are costă rămân"),
    Language("hu", r"(?<!\w)(?:válasz|végeredmény)", r"[^\n.:=]{0,40}?[:=]|\s{1,4}", "válasz végered", r"tehát|összesen|marad", r"nem|ha|között|legalább|legfeljebb|talán|több mint|kevesebb", "és az egy van marad"),
    Language("sw", r"\bjibu\b", r"[^\n.:=]{0,40}?(?:\bni\b|[:=])", "jibu", r"kwa hiyo|jumla", r"si|sio|kama|labda|angalau", "ni na wa ya hiyo", False),
    Language("hi", r"(?:उत्तर|जवाब)", r"[^\n.:=]{0,30}?[:=]|\s{0,4}(?:है\s{0,4}[:,]?\s{0,4})?", "उत्तर जवाब", r"इसलिए|अतः|कुल|तो", r"नहीं|न|नही|अगर|यदि|शायद|कम से कम|अधिकतम|से अधिक|से कम|हो सकता", "[ऀ-ॿ]", False),
    Language("bn", r"উত্তর(?:টি)?", r"[^\n.:=]{0,30}?[:=]|\s{0,4}(?:হলো|হল|হচ্ছে)?\s{0,4}", "উত্তর", r"সুতরাং|অতএব|মোট|তাই", r"না|নয়|যদি|হয়তো|কমপক্ষে", "[ঀ-৿]", False),
    Language("ta", r"(?:விடை|பதில்|సమాధానం|ഉത്തരം|ಉತ್ತರ|જવાબ|ਜਵਾਬ|ចម្លើយ|အဖြေ)", r"[^\n.:=]{0,30}?[:=]|\s{0,4}(?:គឺ|သည်|မှာ)?\s{0,4}", "விடை பதில் సమాధానం ഉത്തരം ಉತ್ತರ જવાબ ਜਵਾਬ ចម្លើយ အဖြေ", r"", r"", "[਀-ൿက-႟ក-៿]", False),
    Language("ar", r"(?<!\w)(?:و|ف)?(?:ال)?(?:إجابة|اجابة|جواب|ناتج|حل)(?!\w)|(?<!\w)پاسخ", r"[^\n.:=]{0,40}?(?:(?<!\w)(?:هي|هو|تساوي|يساوي)(?!\w)|[:=])|\s{1,4}(?:نهایی\s{1,4}|صحیح\s{1,4}|ہے\s{1,4})?(?=[-+]?\d)", "جابة جواب ناتج حل پاسخ", r"لذلك|إذن|اذن|المجموع|إجمالي|وبالتالي|لذا|بالتالي|مجموعا|بنابراین|پس", r"ليس|ليست|لا|لم|لن|إذا|ربما|قد|بين|أكثر من|أقل من|على الأقل|على الأكثر|تحت", "[ء-يپچژگ]", False),
    Language("he", r"תשובה", r"[^\n.:=]{0,40}?(?:(?<!\w)(?:היא|הוא)(?!\w)|[:=])", "תשובה", r"לכן|אז|סך", r"לא|אם|אולי|לפחות|בין", "[א-ת]", False),
    Language("th", r"คำตอบ|ตอบ", r"[^\n.:=]{0,30}?(?:คือ|เป็น|ได้แก่|[:=])|\s{0,4}(?=[-+]?\d)", "ตอบ", r"ดังนั้น|รวม|ทั้งหมด|เหลือ", r"ไม่|ถ้า|หาก|อาจ|อย่างน้อย|มากกว่า|น้อยกว่า", "[ก-๛]", False),
    Language("ko", r"(?:최종\s{0,4})?(?:정답|해답|답변|답)(?![가-힣]{3})", r"[^\n.:=,]{0,16}?(?:은|는|이|[:=])\s{0,4}", "답", r"따라서|그러므로|그래서|총|모두|합계|결국|남은", r"아니|아닙|않|없|못|만약|아마|이상|이하|미만|최소|최대|사이", "[가-힣]", False),
    Language("ja", r"(?:最終的な)?(?:答え|解答|正解|回答)|答(?=\s{0,4}:)", r"[^\n。.:=,]{0,16}?(?:となるのは|は|が|[:=])\s{0,4},?", "答 正解", r"したがって|従って|よって|ゆえに|全部で|合わせて|だから|それで|残り", r"ない|ません|では(?:な|あり)|ず、|もし|かもしれ|以上|以下|未満|少なくとも|多くても|間", "[ぁ-ヿ]", False),
    Language("zh", r"(?:正确|最终|最后|最後|最終|正確)?(?:答案|选项|選項)|答(?=\s{0,4}[:,])|(?:最终|最后|最後)(?:的)?结果", r"[^\n。.:=,]{0,16}?(?:就?应该是|應該是|就?是|等于|等於|[为為選选:=])|\s{0,4}\n|\s{0,4}(?=[-+]?\d)", "答 选项 選項 结果", r"所以|因此|总共|總共|一共|共有|合计|合計|总计|故|于是|於是|还剩|剩下", r"不|没|沒|无法|無法|并非|如果|可能|也许|或许|至少|最多|超过|少于|多于|之间", "[一-鿿]", False),
    Language("el", r"(?<!\w)απάντηση", r"[^\n.:=]{0,60}?(?:είναι|[:=])", "απάντηση", r"συνολικά|άρα|επομένως", r"δεν|όχι|αν|μεταξύ|τουλάχιστον|το πολύ|ίσως", "[α-ωά-ώ]"),
)  # fmt: skip
ENGLISH = _TABLE[0]
SO = re.compile(r"(?i)\b(?:so|thus|therefore|hence|consequently)(?![^\W_])|所以|因此")
YES = (
    "yes true yeah yep yup ja jawohl richtig wahr oui vrai sí si cierto verdadero verdadera sim verdadeiro "
    "verdadeira sì vero vera да верно правда так tak prawda jo waar evet doğru はい ええ 正しい 네 예 맞습니다 참 "
    "是 是的 对 對 对的 對的 正确 正確 نعم صحيح हाँ हां जी सही ใช่ ถูกต้อง có vâng đúng ya benar כן נכון ναι igen "
    "ano"
).split()
NO = (
    "no false nope nein falsch non faux não falso falsa нет неверно неправда ні nie fałsz nee onwaar nej hayır "
    "yanlış いいえ いえ 아니요 아니오 아닙니다 거짓 不 不是 不对 不對 否 错 錯 错误 錯誤 لا خطأ नहीं गलत ไม่ "
    "ไม่ใช่ ผิด không sai tidak bukan salah לא όχι nem ne"
).split()
"""The words, in small letters, by which a text says yes or true, no or false."""
_COMMON = {language.code: frozenset(language.common.split()) for language in _TABLE}


def language_of(text: str) -> Language:
    """Return the language that a text, a sentence or more, is most likely in; English where nothing tells."""
    lowered = text.lower()
    if not text.isascii():
        for language in _TABLE:
            if language.common.startswith("[") and re.search(language.common, lowered):
                return language
    words = re.findall(r"[^\W\d_]{2,}|[^\W\d_a-z]", lowered)[-60:]
    return max(_TABLE, key=lambda language: sum(map(_COMMON[language.code].__contains__, words)))


def markers(text: str) -> list[tuple[re.Match[str], Language]]:
    """Return the words that announce answers in a text in plain writing, and whose they are, in their order."""
    lowered = text.lower()
    found = [
        (match, language)
        for language in _TABLE
        if any(stem in lowered for stem in language.stems.split())
        for match in language.marker.finditer(text)
    ]
    return sorted(found, key=lambda marker: marker[0].span())
