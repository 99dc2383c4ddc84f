"""Words by which texts state an answer, in the languages that we know: markers, conclusions, negations, reasons.

Each list is one language's words a line. A text in a language that is not here is read by its markup, by what stands
alone in its last line and by its closing equation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.numbers import LETTER

# (a language; its words for "answer"; the words between it and the answer)
_LANGUAGES: tuple[tuple[str, str, str], ...] = (
    (
        "en",
        r"\banswers?\b|\bans\b(?=\.?\s?[:=])",
        r"[^\n.:=]{0,60}?\b(?:is|are|was|be|becomes|equals|comes(?:\s{1,4}out)?\s{1,4}to|works\s{1,4}out\s{1,4}to|\w{1,12}'s)\b(?!n)"
        r"|'s\b|[^\n.:=]{0,40}?[:=]|\s{0,4}[-–—]{1,2}>?\s|\s{0,4}\n",
    ),
    (
        "es",
        r"\b(?:respuesta|resultado\s{1,4}final|solución\s{1,4}final)\b",
        r"[^\n.:=]{0,60}?(?:\b(?:es|sería|son|era)\b|[:=])",
    ),
    ("fr", r"\b(?:réponse|résultat\s{1,4}final)\b", r"[^\n.:=]{0,60}?(?:\b(?:est|serait|sont)\b|[:=])"),
    (
        "de",
        r"\b(?:antwort|endergebnis|gesamtergebnis|lösung|ergebnis)\b",
        r"[^\n.:=]{0,60}?(?:\b(?:ist|lautet|beträgt|wäre|sind)\b|[:=])",
    ),
    ("pt", r"\b(?:resposta|resultado\s{1,4}final)\b", r"[^\n.:=]{0,60}?(?:\b(?:é|seria|são)(?![\w])|[:=])"),
    ("it", r"\b(?:risposta|risultato\s{1,4}finale)\b", r"[^\n.:=]{0,60}?(?:(?<!\w)(?:è|sarebbe|sono)(?!\w)|[:=])"),
    ("nl", r"\bantwoord\b", r"[^\n.:=]{0,60}?(?:\b(?:is|zijn|luidt|bedraagt)\b|[:=])"),
    ("sv", r"\bsvar(?:et)?\b", r"[^\n.:=]{0,60}?(?:(?<!\w)(?:är|blir)(?!\w)|[:=])"),
    ("da", r"\bsvar(?:et)?\b", r"[^\n.:=]{0,60}?(?<!\w)(?:er|bliver)(?!\w)"),
    ("fi", r"\bvastaus\b", r"[^\n.:=]{0,60}?(?:\bon\b|[:=])"),
    (
        "pl",
        r"(?<!\w)(?:odpowiedź|odpowiedzią|wynik\s{1,4}końcowy)",
        r"[^\n.:=]{0,60}?(?:\b(?:to|brzmi|jest|wynosi)\b|[:=])",
    ),
    ("cs", r"(?<!\w)(?:odpověď|odpoveď)", r"[^\n.:=]{0,60}?(?:\b(?:je|zní|znie)\b|[:=])"),
    (
        "ru",
        r"\bрезультат\b|(?<!\w)ответ(?:ом)?(?!\w)",
        r"[^\n.:=–—]{0,60}?(?:(?<!\w)(?:это|равен|будет|является|составляет)(?!\w)|[:=–—]|\s-\s)",
    ),
    (
        "uk",
        r"(?<!\w)(?:відповідь|відповіддю)(?!\w)",
        r"[^\n.:=–—]{0,60}?(?:(?<!\w)(?:це|є|дорівнює|буде)(?!\w)|[:=–—]|\s-\s)",
    ),
    ("tr", r"\b(?:cevap|cevab\w{1,3}|yanıt\w{0,3})(?!\w)", r"[^\n.:=]{0,30}?[:=]|\s{1,4}(?:ise\s{1,4}|şudur\s{1,4})?"),
    (
        "vi",
        r"(?<!\w)(?:đáp\s{1,4}án|đáp\s{1,4}số|câu\s{1,4}trả\s{1,4}lời|trả\s{1,4}lời|kết\s{1,4}quả\s{1,4}cuối\s{1,4}cùng)",
        r"[^\n.:=]{0,40}?(?:(?<!\w)là(?!\w)|[:=])",
    ),
    ("id", r"\b(?:jawaban(?:nya)?|jawapan(?:nya)?)\b", r"[^\n.:=]{0,50}?(?:\b(?:adalah|ialah|yaitu)\b|[:=])"),
    ("el", r"(?<!\w)απάντηση", r"[^\n.:=]{0,60}?(?:είναι|[:=])"),
    ("ro", r"(?<!\w)răspuns(?:ul)?", r"[^\n.:=]{0,60}?(?:\b(?:este|e)\b|[:=])"),
    ("hu", r"(?<!\w)(?:válasz|végeredmény)", r"[^\n.:=]{0,40}?[:=]|\s{1,4}"),
    ("sw", r"\bjibu\b", r"[^\n.:=]{0,40}?(?:\bni\b|[:=])"),
    ("hi", r"(?:उत्तर|जवाब)", r"[^\n.:=]{0,30}?[:=]|\s{0,4}(?:है\s{0,4}[:,]?\s{0,4})?"),
    ("bn", r"উত্তর(?:টি)?", r"[^\n.:=]{0,30}?[:=]|\s{0,4}(?:হলো|হল|হচ্ছে)?\s{0,4}"),
    ("ta", r"(?:விடை|பதில்|సమాధానం|ഉത്തരം|ಉತ್ತರ|જવાબ|ਜਵਾਬ|ចម្លើយ|အဖြေ)", r"[^\n.:=]{0,30}?[:=]|\s{0,4}(?:គឺ|သည်|မှာ)?\s{0,4}"),
    (
        "ar",
        r"(?<!\w)(?:و|ف)?(?:ال)?(?:إجابة|اجابة|جواب|ناتج|حل)(?!\w)|(?<!\w)پاسخ",
        r"[^\n.:=]{0,40}?(?:(?<!\w)(?:هي|هو|تساوي|يساوي)(?!\w)|[:=])|\s{1,4}(?:نهایی\s{1,4}|صحیح\s{1,4}|ہے\s{1,4})?(?=[-+]?\d)",
    ),
    ("he", r"תשובה", r"[^\n.:=]{0,40}?(?:(?<!\w)(?:היא|הוא)(?!\w)|[:=])"),
    ("th", r"คำตอบ|ตอบ", r"[^\n.:=]{0,30}?(?:คือ|เป็น|ได้แก่|[:=])|\s{0,4}(?=[-+]?\d)"),
    (
        "zh",
        r"(?:正确|最终|最后|最後|最終|正確)?(?:答案|选项|選項)|答(?=\s{0,4}[:,])|(?:最终|最后|最後)(?:的)?结果",
        r"[^\n。.:=,]{0,16}?(?:就?应该是|應該是|就?是|等于|等於|[为為選选:=])|\s{0,4}\n|\s{0,4}(?=[-+]?\d)",
    ),
    (
        "ja",
        r"(?:最終的な)?(?:答え|解答|正解|回答)|答(?=\s{0,4}:)",
        r"[^\n。.:=,]{0,16}?(?:となるのは|は|が|[:=])\s{0,4},?",
    ),
    ("ko", r"(?:최종\s{0,4})?(?:정답|해답|답변|답)(?![가-힣]{3})", r"[^\n.:=,]{0,16}?(?:은|는|이|[:=])\s{0,4}"),
)

_FINAL = expression(
    r"(?i)final|endg|schluss|definit|ostateczn|konečn|окончат|итог|остаточ|最终|最后|最終|最後|최종|cuối|nihai|akhir|अंतिम|نهائي|สุดท้าย|סופית|τελικ|slutlig|eind"
)
_STEMS = {
    "en": "ans", "es": "respuesta resultado solución", "fr": "réponse résultat", "de": "antwort ergebnis lösung",
    "pt": "resposta resultado", "it": "risposta risultato", "nl": "antwoord", "sv": "svar", "da": "svar", "fi": "vastaus", "pl": "odpowied wynik",
    "cs": "odpov", "ru": "ответ результат", "uk": "відповід", "tr": "cevap cevab yanıt", "vi": "đáp lời quả", "id": "jawab jawap",
    "el": "απάντηση", "ro": "răspuns", "hu": "válasz végered", "sw": "jibu", "hi": "उत्तर जवाब", "bn": "উত্তর",
    "ta": "விடை பதில் సమాధానం ഉത്തരം ಉತ್ತರ જવાબ ਜਵਾਬ ចម្លើយ အဖြေ", "ar": "جابة جواب ناتج حل پاسخ", "he": "תשובה", "th": "ตอบ",
    "zh": "答 选项 選項 结果", "ja": "答 正解", "ko": "답",
}  # fmt: skip
"""What the words for "answer" have in common: a text without one of a language's has no marker of that language."""

_MARKERS = tuple(
    (code, tuple(_STEMS[code].split()), expression(rf"(?:{noun})(?:{link})", re.IGNORECASE))
    for code, noun, link in _LANGUAGES
)


@dataclass(frozen=True, slots=True)
class Marker:
    """Words that announce an answer: "The final answer is", "答案是".

    Attributes:
        start: where it begins.
        end: where it ends and what it announces begins.
        text: the words.
        language: its ISO 639-1 code.
    """

    start: int
    end: int
    text: str
    language: str

    def is_final(self, text: str) -> bool:
        """Return whether it calls its answer the final one, in itself or shortly before."""
        return bool(_FINAL.search(text, max(0, self.start - 16), self.end))


def end_of_first_marker(text: str) -> int | None:
    """Return where the first marker of a text ends, None where it has none."""
    lowered = text.lower()
    found = [
        match.end()
        for code, stems, pattern in _MARKERS
        if any(stem in lowered for stem in stems) and (match := pattern.search(text))
    ]
    return min(found, default=None)


def markers(text: str, start: int = 0, end: int | None = None) -> list[Marker]:
    """Return the markers in a part of a text, in their order.

    Args:
        text: in plain writing.
        start: where to begin.
        end: where to end; None for the text's end.
    """
    end = len(text) if end is None else end
    lowered = text[start:end].lower()
    found = [
        Marker(match.start(), match.end(), match[0], code)
        for code, stems, pattern in _MARKERS
        if any(stem in lowered for stem in stems)
        for match in pattern.finditer(text, start, end)
    ]
    return sorted(found, key=lambda marker: (marker.start, marker.end))


_W, _E = r"(?<![^\W_])", r"(?![^\W_])"
CONCLUSION = expression(
    rf"(?i){_W}(?:so|thus|therefore|hence|consequently|altogether|overall|finally|in (?:all|total|the end)|total|that means|which means"
    r"|left|remaining|leaves|as a result|we (?:get|have|find)"
    r"|por (?:lo )?tanto|así que|entonces|en total|luego|en resumen|quedan?|donc|ainsi|au total|par conséquent|reste|il reste"
    r"|also|daher|somit|deshalb|insgesamt|folglich|demnach|zusammen|übrig|portanto|então|logo|assim|no total|ao todo|quindi|dunque|perciò|in totale|in tutto"
    r"|dus|totaal|så|därför|alltså|totalt|derfor|więc|zatem|razem|łącznie|w sumie|takže|celkem|celkově|tedy"
    r"|итак|значит|поэтому|следовательно|таким образом|итого|всего|получается|отже|тому|всього|разом"
    r"|toplam(?:da)?|bu yüzden|böylece|öyleyse|dolayısıyla|sonuç olarak|vậy|do đó|tổng cộng|tất cả|còn lại|như vậy|jadi|maka|totalnya|sehingga|dengan demikian"
    r"|لذلك|إذن|اذن|المجموع|إجمالي|وبالتالي|لذا|بالتالي|مجموعا|بنابراین|پس|इसलिए|अतः|कुल|तो|সুতরাং|অতএব|মোট|তাই|לכן|אז|סך|συνολικά|άρα|επομένως|deci|tehát|összesen|yhteensä|kwa hiyo"
    rf"){_E}|所以|因此|总共|總共|一共|共有|合计|合計|总计|故|于是|於是|即|还剩|剩下|したがって|従って|よって|ゆえに|全部で|合わせて|だから|それで|残り|따라서|그러므로|그래서|총|모두|합계|결국|남은|ดังนั้น|รวม|ทั้งหมด|เหลือ"
)
"""Words that draw a conclusion."""

NEGATION = expression(
    rf"(?i){_W}(?:not|never|neither|nor|cannot|can't|\w+n't|no longer|incorrect|wrong|unknown|unclear|impossible|undefined|undetermined"
    r"|nicht|kein\w*|no(?! total\b)|nunca|n'est pas|ne|pas|não|non|nie|не|нет|нельзя|недостаточно|niet|inte|ikke|değil|không|bukan|tidak|ليس|ليست|لا|غير|नहीं|না|নয়|לא|δεν|nu este|nem|ei|si)"
    rf"{_E}|不是|不会|不會|不能|不可能|不应|不應|不等于|并非|並非|无法|無法|ではな|じゃな|わから|ません|できな|아니|않|없|ไม่"
)
"""Words that deny what they stand by."""

UNDETERMINED = expression(
    rf"(?i){_W}(?:I (?:cannot|can't|could not|couldn't|am unable to|am not able to)|cannot be|can't be|can not be|could not be|can't (?:determine|decide|tell|say)|cannot (?:determine|decide|tell|say)|not enough|insufficient|impossible to"
    r"|não dá para|não sei|no sé|no se sabe|je ne sais pas|on ne sait pas|weiß (?:ich )?nicht|non so|non si può|nie wiem|не знаю|неизвестно|weet (?:ik )?niet|tôi không biết|bilmiyorum|no se puede|no es posible|on ne peut pas|impossible de|nicht (?:bestimm|berechn|lös|möglich|eindeutig)\w*|não é possível|non è possibile|нельзя|невозможно|недостаточно|неможливо"
    rf"|nie można|không thể|tidak dapat|لا يمكن|belirlenemez|ei voida|kan niet){_E}|无法|無法|不能确定|不能確定|条件不足|求められません|できません|わかりません|決められません|알 수 없|नहीं किया जा|ไม่สามารถ"
)
"""Words that say that there is no answer."""

DENIED_BEHIND = expression(
    r"\s*[^\s\d]{0,12}?\s?[^\s\d]{0,6}?(?:ではな|ではあ|じゃな|じゃあ|でな|ではご|(?:이|가)?\s?(?:아니|아닙|아닌)|नहीं|(?<!\w)değil|নয়|(?<!\w)nahi)"
    r"|(?i:\s+(?:[a-z]+\s+){0,2}?(?:is|are|was|were|(?:can|could|must)(?=not|n't|\s+not)|(?=isn't|aren't|wasn't))\s*(?:(?:clearly|certainly|definitely|also|obviously)\s+)?(?:not\b|\w*n't\b|wrong|incorrect|false))"
)
"""What denies the number in front of it, in languages whose verb comes last."""

DENIED_BEFORE = expression(
    rf"(?i)(?:n't|{_W}(?:not|never|nicht|kein\w*|no|non|pas|não|nao|не|нет|ні|nie|niet|inte|ikke|không phải(?: là)?|không|bukan(?:lah)?|ليس(?:ت)?|لا|לא|δεν)|不是|并非|並非|不会是|ไม่ใช่)"
    rf"(?:\s+(?:[{LETTER}]+\s+){{0,2}})?\s*\Z"
)
"""What denies the number behind it."""

CORRECTION = expression(
    rf"(?i)(?:{_W}(?:wait|hold on|(?:no|nein|non|não|nie|nee|nej|hayır|không|tidak|bukan|όχι|לא|لا),|no(?=\W+wait)|oops|i mean|i meant|sorry|scratch that|correction|just kidding|edit(?=:)|actually|en realidad|en fait|tatsächlich|na verdade|in realtà|на самом деле|let me (?:re|check|correct)|on second thou?ght|i made a mistake|hmm"
    r"|espera|entschuldigung|désolée?|disculpa|lo siento|scusa(?:te)?|mi dispiace|desculpa|przepraszam|özür dilerim|maaf|xin lỗi|perdón|perdona|corrijo|mejor dicho|attends|attendez|pardon|plutôt|moment|warte|halt|korrektur|espere|desculpe|aspetta|anzi|стоп|подожди\w*|нет,|извините|вернее|точнее|poprawka|chwila|bekle|pardon|düzeltme|khoan|tunggu|eh bukan|لحظة|عذرا|عفوا|रुकिए|रुको|माफ़|नहीं,|wacht)"
    rf"{_E}|等等|不对|不對|其实|其實|实际上|実は|計算し直す|(?<![^\s.,!?])不,|更正|抱歉|对不起|對不起|不好意思|ごめん|申し訳|ขอโทษ|미안|等一下|待って|いや|訂正|失礼|すみません|잠깐|아니|죄송|เดี๋ยว|ขอแก้)"
)
"""Words that take back what was said before them."""

ON_CONDITION = expression(
    rf"(?i)[\s*_]*[,;:.]?\s*(?:{_W}(?:wenn|falls|sofern|si|siempre que|à condition|se|desde que|purché|если|при условии|якщо|jeśli|jeżeli|pod warunkiem|als|mits|om|hvis|eğer|nếu|jika|إذا|بشرط|यदि|अगर)"
    rf"{_E}|如果|只要|只有|前提|ถ้า|หาก"
    rf"|(?:{_W}(?:aber|allerdings|jedoch|mais|pero|mas|ma|però|но|але|ale|maar|men|ama|fakat|ancak|nhưng|tapi|ولكن|لكن|लेकिन|परंतु|किंतु){_E}|但|不过|不過|ただし|でも|しかし|단|하지만|다만|แต่)[^.!?\n]{{0,80}}?"
    rf"(?:{_W}(?:wenn|falls|sofern|nur|si|seulement|uniquement|que si|solo|sólo|solamente|únicamente|siempre que|se|só|apenas|somente|soltanto|если|только|якщо|лише|jeśli|jeżeli|tylko|als|alleen|mits|om|bara|endast|hvis|kun"
    rf"|eğer|ise|yalnızca|sadece|nếu|khi|jika|hanya|إذا|فقط|بشرط|यदि|अगर|केवल|तब){_E}|如果|只有|只在|仅|僅|前提|除非|当|場合|限|とき|なら|때만|경우|조건|때에만|เมื่อ|ถ้า|เฉพาะ|หาก)"
    r"|[^.!?\n]{0,60}(?:場合に限|場合のみ|때만|경우에만|的时候才|时才))"
)
"""What makes a yes or no hold on a condition: "…, aber nur wenn", ただし…限り."""

WHOLE = expression(
    rf"(?i)\A\W*(?:(?:so|also|donc|quindi|entonces|portanto|dus|итак|所以|因此|따라서),?\s*)?(?:(?:von den|sur les|de l[ao]s|d[ao]s|delle|dei|degli|из|van de|spośród|z|من بين|trong(?: số)?|จาก[{LETTER}]{{0,16}})\s*(?=\d)"
    rf"|(?=(?:在|这)?\d+\s?[{LETTER}\s]{{0,16}}?(?:中|里面?|のうち|중|में से)))(?:在|这)?(?P<number>\d+)"
    rf"|(?P<turkish>\d+)(?=\s[{LETTER}]+[ıiuü]n\s\d)"
)
"""The number of all of which a part is told at a sentence's beginning: "Von den 50 …", 50个…中."""

CAUSE = expression(
    rf"(?i)[,;]?\s*(?:{_W}(?:because|since|weil|denn|porque|ya que|pues|parce que|car|puisque|perché|poiché|pois|já que|потому что|так как|поскольку|бо|тому що"
    rf"|omdat|want|ponieważ|çünkü|vì|bởi vì|karena|لأن|क्योंकि|কারণ|כי){_E}|因为|因為|由于|由於|なぜなら|왜냐하면|เพราะ|เนื่องจาก)"
)
"""Where the reason for an answer begins."""

ASIDE = expression(r"(?<=\S)\s*\((?:[\d.,]+\s?[A-Za-z]+|[^()]*[^\W\d_]{2}[^()]*|[^()]*=[^()]*)\)")
"""Words in brackets, and calculations, behind what they explain."""

SO = expression(
    rf"(?i){_W}(?:so|thus|therefore|hence|consequently|por (?:lo )?tanto|así que|entonces|donc|also|daher|somit|deshalb|portanto|então|logo|quindi|dunque|dus|så|därför|derfor"
    rf"|więc|zatem|takže|поэтому|значит|следовательно|отже|тому|bu yüzden|öyleyse|vậy|do đó|jadi|maka|لذلك|إذن|इसलिए|अतः|সুতরাং|তাই|לכן|άρα|deci|tehát){_E}"
    r"|所以|因此|故|于是|於是|したがって|従って|よって|だから|なので|ので(?=,)|から(?=,)|따라서|그러므로|그래서|때문에|므로|으니까?|ดังนั้น"
)
"""Words that begin a conclusion from what stands before them."""

CONTRAST = expression(
    rf"(?i)[,;]?\s*(?:{_W}(?:rather than|instead of|as opposed to|unlike|out of|sondern|statt|en lugar de|en vez de|au lieu de|invece(?: di)?|em vez de|in plaats van|zamiast|yerine|thay vì){_E}|而不是|而非"
    rf"|(?:{_W}(?:not|nicht|no|non|et non|pas|não|e não|не|а не|niet|nie|a nie|ikke|inte|không phải|bukan|وليس|ليس|न कि|ולא){_E}|不是|ไม่ใช่)(?=\s*(?:\S+\s){{0,2}}[^\s\w]?\d))"
    r"|\s+[-–—]\s+(?=[^\W\d_]{2})|\s+—|\s+--\s"
)
"""Where what an answer is told apart from begins."""

HEAVY_WORDS = frozenset(
    # bounds, labels and beginnings of a clause that has numbers of its own
    (
        "that the all these of root square cube log logarithm factorial those his her their its more less fewer greater "
        "smaller larger over under above below least most up minimum maximum between from than not step steps question "
        "problem part day week year page line row case option figure table example equation chapter number no when if "
        "after before for with without in on at by during because since per every each any both another other twice half "
        "double triple either whether to until mehr weniger mindestens höchstens über unter zwischen nicht más menos "
        "mínimo entre al plus moins mais più meno tra больше меньше более менее не между"
    ).split()
)
"""Words before a number that make it a bound, a label, or part of something else."""

RESULT_WORDS = expression(
    rf"(?i){_W}(?:(?:which|that|this) (?:is|equals|makes|gives|leaves)(?: us)?|that is,?|i\.e\.,?|namely|(?:is )?equal to|gives us|(?<!after )(?<!before )(?<!by )giving(?: (?:us|him|her|them|it))?|making(?: a total of)?|we get|makes a total of|a total of|totals?|rounds? (?:up |down )?to|rounded (?:up |down )?to"
    r"|es decir,?|o sea,?|lo que da|c'est-à-dire|soit|das heißt|d\.\s?h\.|also insgesamt|ou seja,?|isto é,?|cioè|ovvero|то есть|czyli|yani|tức là|yaitu|أي|यानी"
    rf"){_E}[\s,:]*|(?:得到|等于|等於|得|即|也就是|总共|總共|一共|共计|つまり|合計で?|合わせて|全部で|즉|총|모두)(?:有|是)?"
)
"""Words that give the result of what stands before them."""

BOUND_BEFORE = expression(
    rf"(?i)(?:{_W}(?:(?:more|less|fewer|greater|larger|smaller|higher|lower) than|at (?:least|most)|between|from|over|under|(?<!add )(?<!adds )(?<!added )up to|above|below|(?:minimum|maximum)(?: of)?"
    r"|hardly|scarcely|ma(?:x|ks)[iy]mal(?:nie|t)?|minimal(?:nie|t)?|maximaal|minimaal|maximalement|अधिकतम|न्यूनतम|tối đa|tối thiểu|högst|højst|mindst|nejvýše|nanejvýš|nejméně|legfeljebb|legalább|nowhere near|anything but|except(?: for)?|excluding|other than|apart from|besides|all but|höchstens|mindestens|mehr als|weniger als|über|unter|niemals|bis zu|plus de|moins de|au (?:plus|moins)"
    r"|jamais|(?:inférieure?|supérieure?)s? à|plus (?:petite?|grande?) que|(?:menor|mayor|maior|inferior|superior) (?:que|de|do que|a)|(?:minore|maggiore) di|(?:inferiore|superiore) a|(?:kleiner|größer|höher|niedriger) als|(?:mniejsz|większ)\w+ niż|(?:groter|kleiner|minder|meer) dan|(?:mindre|större|mer) än|(?:mindre|større|mere) end|(?:menší|větší) než|(?:nhỏ|lớn) hơn|(?:kurang|lebih) dari|(?:أصغر|أكبر) من|más de|menos de|como (?:mínimo|máximo)|a lo sumo|al menos|hasta|mais de|pelo menos|no máximo|almeno|più di|meno di|al massimo|co najmniej|ponad|mniej niż|więcej niż"
    r"|ít nhất|nhiều nhất|hơn|minstens|meer dan|minst|больше|более|меньше|менее|минимум|максимум|до|en az|en fazla|कम से कम|أكثر من|أقل من|على الأقل|(?:plus|más|mais) (?:ou|o) (?:moins|menos)"
    rf"){_E}|至少|最多|超过|不到|多于|少于|小于|大于|小於|大於|低于|高于|น้อยกว่า|มากกว่า|少なくとも|多くても|최소|최대|[><≥≤≠]|\\(?:ge|le|ne|geq|leq|neq)(?![A-Za-z]))\s*\Z"
)
"""Words before a number that make it a bound, or deny it."""

FUNCTION_BEFORE = expression(
    rf"(?i){_W}(?:(?:root|half|third|quarter|square|cube|double|twice|triple|factorial|log\w*|percent)(?:\s+of)?(?:\s+the)?|double de|moitié de|doble de|mitad de|dobro de|metade de|doppio di|metà di"
    r"|doppelte von|hälfte von|viertel von|дважды|вдвое|половина|ضعف|نصف|gấp đôi|một nửa|iki katı)\s*\Z"
)
"""Words before a number that make another one of it."""

HYPOTHETICAL = expression(
    rf"(?i)\A\W*(?:let|assume|suppose|given|if|next|now we|we (?:still )?need|first|to find|recall)\b|{_W}(?:contradicts?|бы|wäre|serait|sería|seria|sarebbe|would have|doubt|guess\w*|wants?|forgot|supposed to|nobody|false that){_E}"
)
"""Sentences that state nothing."""

IN_DOUBT = expression(
    rf"(?i){_W}(?:either|can't decide|not sure|unsure|might|may be|could|maybe|perhaps|possibly|o bien|entweder|soit|oder|peut-être|il se peut|pourrai(?:en)?t|vielleicht|könnten?|dürften?|podrían?|poderiam?|potrebbe(?:ro)?|могл[оаи]|zou(?:den)? kunnen|mogłoby|möglicherweise|womöglich|eventuell|quizás?|posiblemente|puede que|possivelmente|pode ser|può darsi|misschien|mogelijk|być może|chyba|tal vez|talvez|forse|может|возможно|может быть|może|belki|olabilir|mungkin|có thể|ربما|قد يكون|قد تكون|शायद|हो सकता)"
    rf"{_E}|可能|不太?确定|不太?確定|也许|也許|或许|どちらか|かもしれ|아마|อาจ"
)
"""Words that leave it open which of several is meant."""

TAKEN_BACK = expression(
    rf"(?i){_W}(?:but|however|although|though|yet|pero|mais|aber|mas|ma|но|ale|fakat|nhưng|tapi|لكن|लेकिन){_E}[^.!?]{{0,60}}?{_W}(?:wrong|incorrect|not (?:right|correct|true)|mistaken|false"
    rf"|incorrect[oa]|falsch|faux|fausse|errad[oa]|sbagliat[oa]|неверно|неправильно|yanlış|sai|salah|خطأ|गलत){_E}|(?:但|不过|可是)[^.!?]{{0,20}}(?:错|不对|錯)"
    r"|\bif there (?:were|was)\b"
)
"""Words that take back the statement before them in its own sentence."""

OTHERWISE = expression(
    rf"(?i)[,;(]\s*(?:and |und |et |y |e |и )?{_W}(?:otherwise|else|sonst|andernfalls|sinon|si no|de lo contrario|caso contrário|senão|altrimenti|иначе|в противном случае|w przeciwnym razie|anders|annars|ellers"
    rf"|aksi halde|aksi takdirde|nếu không|وإلا|अन्यथा){_E}|否则|否則|そうでなければ|그렇지 않으면|มิฉะนั้น"
    r"|\b(?:if|wenn|falls|si|se|если)\b[^.!?\n]{1,80}?\s(?:or|oder|ou|o|или)\s[^.!?\n]{1,60}?\b(?:if|wenn|falls|si|se|если)\b"
    r"|\b(?:if|wenn|falls|si|se|если)\b[^.!?\n]{1,80}?,?\s(?:or|and|oder|und|ou|et|o|y|e|или|и)\s[^.!?\n]{1,60}?\b(?:if|wenn|falls|si|se|если)\b"
)
"""Words that make the statement before them hold in one case alone."""

QUESTION_LINE = expression(
    r"(?im)^[ \t]{0,8}(?:#{1,6}[ \t]{0,4})?(?:(?:next\s{1,3}|new\s{1,3}|another\s{1,3})?(?:question|problem|exercise|example|instruction|human|user|q)\s{0,3}\d{0,3}\s{0,3}:|<\|(?:im_end|endoftext|eot_id)"
    r"|(?:pregunta|frage|pergunta|domanda|вопрос|задача|soru|câu hỏi|pertanyaan|سؤال|السؤال|प्रश्न|問題|问题|題目|题目|문제|질문|คำถาม|vraag|pytanie)\s{0,3}\d{0,3}\s{0,3}:)"
)
"""A line that asks the next question, as base models go on to do."""

LEADING_CHOICE = expression(
    r"(?:(?:donc|also|daher|logo|portanto|quindi|dunque|dus|alors|então|option|choice|la|el|a|le|die|der|de|optie|opción|opção|alternativa|lettre|lettera|letra|literal|buchstabe|réponse|respuesta|resposta|risposta|[Aa]ntwort|antwoord|odpowiedź|ответ"
    r"|opzione|вариант|буква|pilihan|phương án|câu|şık|ข้อ|विकल्प|选项|選項|选|選)\s*){0,3}"
    r"\(?([B-HJ]|A(?!\s+(?!or\b|and\b|is\b|because\b|since\b|as\b|but\b)[a-z]))(?![A-Za-z0-9\u00c0-\u024f'])\)?(?=[\s.,:;)*]|$|[^\x00-\x7f])(?!\s*[=<>])"
)
"""A letter that a statement begins with."""

COPULA_BEHIND = expression(
    r"\s*(?:です|である|だ|になります|となります|입니다|이다|이에요|예요|है|हैं|होगा|হয়|ครับ|ค่ะ|คะ|است|می‌باشد|ہے|'?d[ıiuü]r|(?<=[çfhkpsşt])t[ıiuü]r|olur|eder)\s*[.!]*\s*$"
)
"""What closes a statement behind the answer, where the verb comes last."""

LETTER_OF_CHOICE = expression(
    r"\(([A-J])\)|(?<![A-Za-z0-9\u00c0-\u024f'$\\])(?:([B-HJ])|(A)(?!\s+(?!or\b|and\b|is\b|was\b|because\b|since\b|as\b|but\b)[a-z]))(?![A-Za-z0-9\u00c0-\u024f'$])"
)
"""A letter of a multiple choice in a text; an 'A' before a word is an article."""

CHOSEN = expression(
    r"(?i)(?<![A-Za-z])(?:option|choice|answer|choos\w*|pick\w*|select\w*|go(?:ing)? with|it's|it is|is|be|correct\w*|therefore|so|thus|take"
    r"|opción|respuesta|alternativa|antwort|variante|réponse|resposta|opção|letra|lettera|opzione|risposta|вариант|ответ|seçenek|cevap|şık|pilihan"
    r"|lựa chọn|đáp án|chọn|odpowiedź|antwoord|选项?|選項?|答案|答え|正解|正确|正確|정답|답|번|الخيار|الإجابة|विकल्प|उत्तर|ข้อ|ตอบ|כן|תשובה|wähle|nehme|elijo|escojo|selecciono|choisis|scelgo|escolho|выбираю|wybieram|kies|väljer|vælger)\W*(?:é|es|est|ist|は|是|은|는)?\W*\Z"
)
"""What chooses the letter behind it."""

REJECTED_BEHIND = expression(
    r"(?i)\)?\s*(?:(?:,|and|&|or|y|et|und|e|и|ve)\s*\(?[A-J]\)?\s*)*(?:is|are|was|were|can be|must be|isn't|aren't|es|son|est|sont|ist|sind|são|è|sono)?\s*(?:(?:also|both|all|clearly|obviously|definitely|probably|simply|just)\s+)?(?:not|ruled out|eliminated|excluded|discarded|correct(?<=n't correct)|wrong|incorrect|false|out|too|falsch|incorrect\w*|faux|fausses?|falsas?|errad\w+|sbagliat\w+|错|不对|間違|誤|틀|неверн\w*|неправильн\w*|yanlış|ผิด|خطأ|गलत|(?:이|가|은|는)?\s?아니|ではな|じゃな|नहीं|değil)"
)
"""What rejects the letters in front of it."""

REJECTED_BEFORE = expression(
    r"(?i)(?:\bnot|n't|\bneither|\bnor|rather than|instead of|\bover|rul\w+ out|eliminat\w+|exclud\w+|\bunlike|nicht|statt|\bno|\bni|pas|não|non|не|nie|niet|bukan|không phải"
    r"|不是|不选|排除|而非)\s*(?:(?!(?:but|sino|sondern|mais|mas|ma)\b)\w\w+\s+){0,5}(?:option|choice|be|is|opción|opção)?\W*\Z"
)
"""What rejects the letter behind it."""
