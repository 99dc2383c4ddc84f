r"""What a sentence states: the answer behind a marker, and the one that a text's closing sentences come to.

One answer is read, or none: where a sentence has two numbers and nothing tells which is meant, there is no answer. The
rules of English are here; a sentence in another language is read by its row in ``markers``, or by its one number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from tokur_cli.answers.calculations import JOINT, UNFINISHED, last_result, without_working
from tokur_cli.answers.canonical import Canonical, canonical
from tokur_cli.answers.latex import TEXT_GROUP
from tokur_cli.answers.markers import ENGLISH, LANGUAGES, language_of
from tokur_cli.answers.numbers import LETTER, QUALIFIED, Amount, amounts, goes_on, read_number, shown

SENTENCE_END = re.compile(
    r"(?:(?<!\d)\.|(?<=\d)\.|[!?]+(?!(?<=\d!)\s*[-+*/×·÷=]))(?=\s|$|[\"')\]](?:\s|$))"
    r"(?!(?:(?<=\b(?:oz|lb|ft|hr|sq|vs|No|no|Mr|Ms|Dr)\.)|(?<=\b(?:lbs|hrs|min|Mrs|тыс|млн|Mio|Mrd)\.)"
    r"|(?<=\bapprox\.))\s[a-zа-яż\d])(?<!\b(?:Mr|Ms|Dr)\.)(?<!\b(?:Mrs|i\.e|e\.g)\.)"
    r"|[!?](?=[^\W\d_])|\n"
)
"""Where a sentence ends, in plain writing."""

MATH = re.compile(
    r"\$\$([^$]{1,1500})\$\$|\\\[(.{1,1500}?)\\\]|\\\((.{1,1500}?)\\\)"
    # "$12 + $4" and "$12 = $ 12" are money.
    r"|(?<![\\$\d])\$(?!\$)([^$\n]{1,300})(?<!\\)(?<![-+*/=])(?<![-+*/=]\s)\$(?!\d)",
    re.DOTALL,
)
CORRECTION = re.compile(
    r"(?i)(?:\b(?:wait|hold on|no,|no(?=\W+wait)|oops|i mean|i meant|sorry|scratch that|correction|edit(?=:)"
    r"|actually|let me (?:re|check|correct)"
    r"|on second thou?ght|i made a mistake|hmm)(?![^\W_])|等等|不对|不對)"
)
"""Words that take back what was said before them."""

NEGATION = re.compile(
    r"(?i)\b(?:not|never|neither|nor|cannot|\w+n't|no (?:longer|(?:real |such )?(?:solutions?|answers?|numbers?"
    r"|values?|ways?)|one)|incorrect"
    r"|wrong|unknown|unclear|impossible|undefined|undetermined)(?![^\W_])"
)
SO = re.compile(r"(?i)\b(?:so|thus|therefore|hence|consequently)(?![^\W_])")
CAUSE = re.compile(r"(?i)[,;]?\s*(?:\b(?:because|since)\b|因为|因為|由于|由於)")
"""Where the reason for an answer begins."""

IN_DOUBT = re.compile(r"(?i)\b(?:either|can't decide|not sure|unsure|might|may be|could|maybe|perhaps|possibly)\b")
"""Words that leave it open which of several is meant."""

_UNDETERMINED = re.compile(
    r"(?i)\b(?:I (?:cannot|can't|could not|couldn't|am unable to|am not able to)|(?:cannot|can't|can not|could not) be"
    r"|(?:but|however|although|though|yet)\b[^.!?]{0,60}?\b(?:wrong|incorrect|not (?:right|correct|true)|mistaken"
    r"|false)"
    r"|(?:can't|cannot) (?:determine|decide|tell|say)|not enough|insufficient|impossible to)\b"
)
_HYPOTHETICAL = re.compile(
    r"(?i)\A\W*(?:let|assume|suppose|given|if|next|now we|we (?:still )?need|first|to find|recall)\b"
    r"|\b(?:contradicts?|would have|doubt|guess\w*|wants?|forgot|supposed to|nobody|false that|otherwise)\b"
)
_DENIED_BEFORE = re.compile(r"(?i)(?:n't|\b(?:not|never|no))\s+(?:[a-z]+\s+){0,2}\Z")
_DENIED_BEHIND = re.compile(
    r"(?i)\s+(?:[a-z]+\s+){0,2}?(?:is|are|was|were)\s*(?:(?:clearly|certainly|also)\s+)?(?:not\b|wrong|incorrect|false)"
)
_CONTRAST = re.compile(
    r"(?i)[,;]?\s*(?:\b(?:rather than|instead of|as opposed to|unlike|out of)\b|,\s+(?:not|no)\b"
    r"|\bnot\b(?=\s*(?:\S+\s){0,2}[^\s\w]?\d))"
    r"|\s+[-–—]\s+(?=[^\W\d_]{2})|\s+—|\s+--\s"
)
"""Where what an answer is told apart from begins."""

_ASIDE = re.compile(r"(?<=\S)\s*\((?:[\d.,]+\s?[A-Za-z]+|[^()]*[^\W\d_]{2}[^()]*|[^()]*=[^()]*)\)")
_RESULT = re.compile(
    r"(?i)\b(?:(?:which|that|this) (?:is|equals|makes|gives|leaves)(?: us)?|that is,?|i\.e\.,?|namely"
    r"|(?:is )?equal to|gives us"
    r"|(?<!after )(?<!before )(?<!by )giving(?: (?:us|him|her|them|it))?|making(?: a total of)?|we get"
    r"|makes a total of|a total of|totals?"
    r"|rounds? (?:up |down )?to|rounded (?:up |down )?to)(?![^\W_])[\s,:]*"
    r"|(?:得到|等于|等於|得|即|总共|總共|一共|共计|合計で?|合わせて|全部で"
    r"|총|모두)(?:有|是)?"
)
"""Words that give the result of what stands before them."""

_BOUND_BEFORE = re.compile(
    r"(?i)(?:\b(?:(?:more|less|fewer|greater|larger|smaller|higher|lower) than|at (?:least|most)|between|from|over"
    r"|under"
    r"|(?<!add )(?<!adds )(?<!added )up to|above|below|(?:minimum|maximum)(?: of)?|hardly|nowhere near|anything but"
    r"|except(?: for)?|excluding"
    r"|other than|apart from|besides|all but)|[><≥≤≠]|\\(?:ge|le|ne|geq|leq|neq)(?![A-Za-z]))\s*\Z"
)
_FUNCTION_BEFORE = re.compile(
    r"(?i)\b(?:root|half|third|quarter|square|cube|double|twice|triple|factorial|log\w*"
    r"|percent)(?:\s+of)?(?:\s+the)?\s*\Z"
)
_HEAVY_WORDS = frozenset(
    (
        "that the all these of root square cube log factorial those his her their its more less fewer greater "
        "smaller larger over under above below least most up minimum maximum between from than not step question "
        "problem part day week year page line row case option figure table example equation chapter number no "
        "when if after before for with without in on at by during because since per every each any both another "
        "other twice half double triple either whether to until"
    ).split()
)
"""Words before a number that make it a bound, a label, or belong to something else."""

_COPULA_BEHIND = re.compile(
    r"\s*(?:です|である|だ|になります|となります|입니다|이다|이에요|예요|है|हैं|होगा|হয়|ครับ|ค่ะ|คะ|است|ہے|'?d[ıiuü]r|olur)\s*[.!]*\s*$"
)
LEADING_CHOICE = re.compile(
    r"(?:(?:so|then|option|choice|la|el|a|le|die|opción|opção|alternativa|lettre|lettera|letra|buchstabe|antwort"
    r"|opzione|вариант"
    r"|pilihan|phương án|câu|ข้อ|विकल्प|选项|選項|选|選)\s*){0,2}"
    r"\(?([B-HJ]|A(?!\s+(?!or\b|and\b|is\b|because\b|since\b|as\b"
    r"|but\b)[a-z]))(?![A-Za-z0-9\u00c0-\u024f'])\)?(?=[\s.,:;)*]|$|[^\x00-\x7f])(?!\s*[=<>])"
)
LETTER_OF_CHOICE = re.compile(
    r"\(([A-J])\)|(?<![A-Za-z0-9\u00c0-\u024f'$\\])(?:([B-HJ])|(A)(?!\s+(?!or\b|and\b|is\b|was\b|because\b|since\b"
    r"|as\b|but\b)[a-z]))(?![A-Za-z0-9\u00c0-\u024f'$])"
)
"""A letter of a multiple choice in a text; an 'A' before a word is an article."""

_CLOSING_WORDS = re.compile(r"\.?\s*I hope (?:it|this) is correct.*", re.DOTALL | re.IGNORECASE)
_LEADING_MARKS = re.compile(r"\A(?:[\s:*#_\"'>]|\\\"|,(?=\s)|\.{2,})*")
_BULLET = re.compile(r"\A[\s:*#_]*\n\s*(?:[-–•·]|\d{1,2}[.)](?=\s))\s+")
_TERM = (
    r"(?=[\d.√π\\]|sqrt|pi\b|[A-Za-z]\b)(?:[\d.,]*\d)?"
    r"(?:\s?(?:√|\\?sqrt)\s?(?:\d+|\{[^{}]*\}|\([^()]*\))|\s?\\?(?:π|pi\b)|\\frac\{[^{}]*\}\{[^{}]*\}"
    r"|(?!a\s)[A-Za-z](?![A-Za-z']))?(?<![\s=*/])(?:\^(?:\{[^{}]*\}|-?[\dA-Za-z]+)|[²³])?"
)
_FORMULA = re.compile(
    rf"[(\[][^()\[\]]*\d[^()\[\]]*[)\]]|(?:[A-Za-z]\([a-z]\)\s*=\s*)?(?:[-−]\s?)?{_TERM}(?:\s*[-−+*/×=]\s*{_TERM})*"
)
_EXACT = re.compile(
    r"(?<![-+*/^×÷=\d.)])(?<![-+*/^×÷=\d.)]\s)(?:-?\d+/\d+|-?\\frac\{\d+\}\{\d+\})\s*(?:≈"
    r"|\\approx)\s*-?\d+(?:\.\d+)?(?!\s?[-+*/^×÷])"
)
_LETTERS = re.compile(r"\(?[A-J]\)?(?:\s*(?:,|&|,?\s*\band\b)\s*\(?[A-J]\)?(?![A-Za-z]))+")
_OR_LETTER = re.compile(r"\s*(?:,?\s*or\b|/)\s*\(?[A-J]\b")
_HEDGE = re.compile(
    r"(?i)\A(?:(?:(?:most\s+)?(?:probably|likely)|definitely|certainly|clearly|indeed|simply|just|actually|therefore"
    r"|(?:the\s+)?letter)\s+)+"
)
_RIGHT = re.compile(r"(?i)(?:\w+\s){0,2}?(?:correct|right\b)")
_UNDECIDED = re.compile(r"\W*(?i:either\s+)?\(?[A-J]\)?\W*(?i:or|/)\W*\(?[A-J]\b")
_STATED = re.compile(r"(?:\b(?:is|are|be|equals?|of)\b|=)\s*(?=\S)")
_PROSE = re.compile(
    rf"(?<![\\{LETTER}\d])(?:(?!(?:sin|cos|tan|log|exp|mod|and|pmod)\b)[{LETTER}]{{3,}}"
    r"|(?i:so|is|it|we|he|in|of|to|at|by|on|as|be|if|an|my|no|up)\b)|[\u3040-\ud7ff]|[\u0400-\u1fff]{2}"
)
_UNIT_WORD = re.compile(rf"\s?(?:\\?%|percent\b|pct\b|[{LETTER}]+)")
_LABELS = re.compile(
    r"(?i)\b(?:step|day|question|problem|exercise|figure|table|chapter|section|part|case|example|equation|option|no"
    r"|number|level|page|week|month"
    r"|year|grade|room|line|row|item|phase|method|theorem|lemma|version)s?\.?\s*#?\Z"
)
_NAMED = re.compile(
    r"(?:(?<=[a-z]\s)|(?<=[a-z],\s))(?!Total\b|Answer\b|Result\b)[A-Z][a-z]{3,}\Z|(?<![A-Za-z])[a-z]+[A-Z][A-Za-z]*\Z"
)
_AND = re.compile(r"(?i)\s{1,3}(?!more\b|fewer\b|less\b)[a-z]{2,}(?:\s+[a-z]{2,})?(?:\s+and|\s*&)\s+")
_REMAINDER = re.compile(r"(?i)=\s?\d+\s?r(?:emainder)?\.?\s?\d")
_WITH_ANOTHER = re.compile(
    r"(?i)(?P<of>\s{1,3}of\s+)?(?(of)|\s{1,3}(?:[a-z]+\s+)?(?:(?:more|less|fewer|[a-z]+er)\s+than|times|choose|mod"
    r"|plus|minus|divided by"
    r"|multiplied by|to the power of)\s+)(?:the\s+)?[$€£]?(?:\d|\\frac)"
)
_DANGLING = re.compile(
    r"(?i)\b(?:which|who|that|and|so|then|but|or|the|an?|is|are|was|will|to|of|for|in|on|at|with|by|from|than"
    r"|because|since|making|giving"
    r"|leaving|equals|gives|he|she|we|they|it|i|has|have)\s*\Z"
)
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\ud7ff]")
_PAIR = re.compile(r"\((?:[-+]?\d[\d./]*|\\frac\{\d+\}\{\d+\}|[-+]?[a-z]),\s*[^(),]{1,30}(?:,\s*[^(),]{1,30})?\)")
_RATIO = re.compile(r"(?<![\d:])\d+(?:\s?:\s?\d+)+(?![\d:])")
_ENDED = re.compile(r"[.!?:;)\]}%$\"'*_>|]\s*\Z|[\d\U0001f300-\U0001faff]\s*\Z")
_ASSIGNMENT = re.compile(r"(?<![A-Za-z\d])[A-Za-z](?:_\{?\w+\}?|\d)?\s?=\s?(-?\d[\d.,/]*)(?<![.,])")
_SOLVED = re.compile(
    r"(?i)\b(?:so|therefore|thus|hence|giving|gives|yields|then|means(?:\s+that)?"
    r"|get)\s+\$?(?-i:[A-Za-z])\s*=\s*-?[\d.,/]*\d[$.\s]*\Z"
)
_UNSOLVED = re.compile(
    r"(?:[≠<>≤≥]|!=|\\(?:ne|le|ge|lt|gt|neq|leq|geq))\s*\Z"
    r"|(?:\d\s?[a-zA-Z]|(?<![A-Za-z])[a-zA-Z]\s?(?:\^\S+|[²³]|[-+*/]\s?\w+)|(?<![\w])-\s?[a-zA-Z]"
    r"|\d+/[a-zA-Z])\s*=\s*\Z"
)
_ROUNDED = re.compile(r"(?i)\bround(?:s|ed|ing)?\b|\bnearest\b")
_FRONTED = re.compile(
    r"(?i)\A\W*(?:(?:so|thus|therefore|hence|then|now|in conclusion|overall|finally),?\s+)?"
    r"(?P<adjunct>(?:after|in|at|for|with|by|of|out of|on|during|within|from|since|because|as|when|before|over|per"
    r"|under)\b"
    r"(?:[^,;\n]|,(?=\d{3}))*),\s+(?=\S)"
)
_GIVEN = re.compile(
    r"(?i)\b(?:the|these|those|all|both|his|her|their|its|my|our|your)\s+(?:[a-z]+\s+of\s+(?:the|these|those)\s+)?\Z"
)
_YEAR, _IN_YEAR = re.compile(r"(?:1[5-9]|20)\d\d"), re.compile(r"(?i)\b(?:in|by|since|until|year)\s+\Z")
_ROW = re.compile(r"\A\s*(?:\||[-*•]\s[^:=\n]{1,60}[:|])")
_SOLUTIONS = re.compile(
    r"(?i)\b(?:solutions?|roots?|zeros|zeroes|values?(?:\s+of\s+\$?[a-z]\$?)?|numbers|integers|primes|angles|sides"
    r"|lengths|factors|divisors)"
    r"\s+(?:are|is)\s*:?\s*(?P<list>[^\n]{1,160})\Z"
    r"|\A\W*(?:(?:so|thus|therefore|hence),?\s+)?(?P<cases>(?P<name>[a-z])\s*=\s*[^\s,]+\s*(?:,|,?\s*or"
    r"|,?\s*and)\s*(?P=name)\s*=\s*\S+)\Z"
)
_WHEN = re.compile(
    r"(?i)(?<!\bso)(?<!\bthen)(?<!\band),?\s(?:when|if|provided)\s(?:(?!\s(?:when|if|provided)\s)[^,;=])*\Z"
)
_BROKEN_OFF_LIST = re.compile(r"(?m)^[ \t]{0,8}\d{1,2}[.)][ \t][^\n]*\n{1,3}[ \t]{0,8}\d{1,2}[.)]\s*\Z")
_IMPERATIVE = re.compile(
    r"(?i)\A\W*(?:\d{1,2}[.)]\s*)?(?:then\s+)?(?:add|subtract|multiply|divide|calculate|compute|find|determine|solve"
    r"|count|identify|note)\b"
    r"|\A\W*(?:we (?:know|are (?:told|given)|have been)|it is given|(?:the )?(?:problem|question) (?:says|states"
    r"|tells|gives|asks|mentions))\b"
)
_FINITE = (
    r"(?<!can )(?<!could )(?<!to )\b(?:is|are|was|were|has|have|had|costs?|gets?|got|makes?|needs?|will|earns?|buys?"
    r"|bought|pays?|sold|sells?|ate"
    r"|eats?)\b"
)
_CLAUSE_BEFORE = re.compile(rf"(?i)\A(?:(?!\b(?:when|if|that|which|who|where)\b).)*?{_FINITE}", re.DOTALL)
_PREDICATE = re.compile(
    r"(?i)\b(?:is|are|equals?|leaves|gives|yields|makes|totals|costs?|weighs?|holds?|lasts?|will\s+[a-z]+)(?:\s+us)?\s+"
    r"(?:(?:a|an|the)\s+(?:remainder|total|sum|result)\s+of\s+)?"
    r"(?:(?:about|approximately|exactly|only|just|then|therefore)\s+)?(?=[-+$€£\\]{0,2}\d)"
    r"|[a-z\d]:\s+(?=[-+$€£\\]{0,2}\d)"
)
_SUBJECT = re.compile(r"(?i)\s{0,3}(?:[a-z]+\s+)?(?:is|are)\s+(?:the|our|my|what)\b")
_JUDGES = re.compile(
    r"(?i)\A\W*(?:(?:so|thus|therefore|hence),?\s+)?(?:the\s+(?:number|integer|value)\s+)?[-+]?[\d.,/]*\d\s+(?:is"
    r"|are)\s+"
    r"(?:(?:not|indeed|also|clearly|definitely|in fact|both|neither|an?|the)\s+)*"
    r"(?:prime|composite|even|odd|divisible|multiple|factor|divisor|perfect|square|cube|triangular|palindrom\w+|greater"
    r"|less|larger|smaller|bigger|positive|negative|(?:ir)?rational|integer|whole|natural|real|(?:co|relatively )prime"
    r"|(?:in)?correct|true|false|possible|impossible)\b"
    r"|\A\W*(?:yes|no|true|false|correct|incorrect|indeed)\b[,.:;!\s]"
)
"""A sentence that judges a number, "11 is prime", or answers a question with yes or no: it states no value."""


@dataclass(frozen=True, slots=True)
class Statement:
    """An answer that a text states, and where its statement ends."""

    text: str
    end: int


def is_prose(text: str) -> bool:
    """Return whether a text has words in it that belong to no formula."""
    return bool(_PROSE.search(TEXT_GROUP.sub(" ", text)))


def word_count(text: str) -> int:
    """Return how many words a text has, two characters for one where a script has no spaces."""
    wide = len(_WIDE.findall(text))
    return len(_WIDE.sub(" ", text).split()) + (wide + 1) // 2


def is_answer_alone(text: str) -> bool:
    """Return whether a text is an answer and nothing else: no prose but up to three words."""
    text = text.strip()
    if UNFINISHED.search(text) or _REMAINDER.search(text):
        return False
    if len(text) > 200 or "\n" in text or not any(character.isalnum() for character in text):
        return False
    form = canonical(text)
    if not any(character.isalnum() for character in form.text) or re.search(r"\\boxed\{\s*(?:\}|\Z)", text):
        return False
    if MATH.fullmatch(text):
        return True
    if form.kind == "words":
        return word_count(text) <= 3 and not (CORRECTION.search(text) or (NEGATION.search(text) and form.text != "no"))
    return form.kind in ("number", "choice") or not is_prose(text)


def is_cut_off(sentence: str) -> bool:
    """Return whether a last sentence ends within a formula."""
    sentence = sentence.rstrip("*_ \n")
    return (
        bool(UNFINISHED.search(sentence))
        or sentence.count("{") > sentence.count("}")
        or (sentence.count("$") == 1 and "\\" in sentence)
    )


def is_broken_off(text: str) -> bool:
    """Return whether a text ends with a word that another must follow: "The answer is"."""
    return bool(_DANGLING.search(text[-20:])) and " " in text.strip()


def is_undecided(text: str) -> bool:
    """Return whether a text begins with two letters of which one is meant: "either B or C"."""
    return bool(_UNDECIDED.match(text))


def only(found: list[Amount]) -> str | None:
    """Return the one value of several amounts, None for none or several."""
    return found[0].text if len({amount.value for amount in found}) == 1 else None


def stated(following: str, *, letters: bool, language: str, worked: str = "", lead: str = "") -> Statement | None:
    """Return the answer that stands behind a marker such as "the answer is", or None where it is not one for sure.

    Args:
        following: what comes after the marker, in plain writing.
        letters: whether a letter is wanted.
        language: the marker's, as its ISO 639-1 code.
        worked: what comes before the marker, whose last result may tell which of several numbers is meant.
        lead: the marker itself, which may deny what it announces ("La respuesta no es").
    """
    passed = amounts(lead)
    lead = lead[passed[-1].end :] if passed else lead  # "The answer isn't 45; it's": the denial is over
    bullet = _BULLET.match(following)
    start = bullet.end() if bullet else 0
    marks = _LEADING_MARKS.match(following[start:])
    start += marks.end() if marks else 0
    following = _CLOSING_WORDS.sub("", following)
    rest = following[start:]
    denied = bool(NEGATION.search(lead)) if language == ENGLISH else LANGUAGES[language].is_unsure(lead)
    math = MATH.match(rest)
    if math:
        equals = re.compile(r"\s*=\s*(?=\S)").match(rest, math.end())
        if equals:
            found = stated(rest[equals.end() :], letters=letters, language=language, worked=worked, lead=lead)
            return found and Statement(found.text, start + equals.end() + found.end)
        formula = _whole_formula(rest, math)
        is_filled = any(character.isalnum() for character in canonical(formula).text) and "boxed{}" not in formula
        if not is_filled or denied or _is_computed_with(rest, Amount(0, len(formula), formula, None)):
            return None
        return Statement(formula, start + len(formula))
    end = SENTENCE_END.search(rest)
    sentence = rest[: end.start()] if end else rest
    if (end is None and is_cut_off(sentence)) or (end and end[0].startswith("?")):
        return None
    text = _of_sentence(sentence, letters, language, worked, lead, denied)
    return Statement(text, start + (end.end() if end else len(rest))) if text else None


def _of_sentence(sentence: str, letters: bool, language: str, worked: str, lead: str, denied: bool) -> str | None:
    """Return what the sentence behind a marker states."""
    sentence = _COPULA_BEHIND.sub("", sentence.strip(" \t*_\"'")).rstrip(" \t*_\"',;")
    if sentence.endswith("}") and sentence.count("{") < sentence.count("}"):
        sentence = sentence.rstrip("}").rstrip(" \"'")
    if not sentence or _UNDETERMINED.search(lead + sentence):
        return None
    comma = LANGUAGES[language].has_decimal_comma
    corrected = CORRECTION.search(sentence)
    if corrected and canonical(sentence).kind != "words" and corrected.start():
        behind = LETTER_OF_CHOICE.findall(sentence, corrected.end())
        if letters:
            return "".join(behind[0]) if len(set(behind)) == 1 else None
        return only(amounts(sentence[corrected.end() :], comma=comma))
    sentence = _ASIDE.sub("", sentence)
    main = _before(sentence, CAUSE)
    if language != ENGLISH and LANGUAGES[language].is_unsure(re.split(r"[,;]\s", main)[0]):
        return None
    kept = _without_denied(main, lead, comma) if language == ENGLISH else None
    if kept is not None and not letters:
        return only(kept)
    main = _before(main, _CONTRAST)
    exact = _EXACT.match(main)
    if exact:
        return exact[0]
    result = _behind_result_words(main, comma)
    if result:
        return result
    main = without_working(main) or main
    number = read_number(main, comma=comma) if comma else None
    form = Canonical("number", main, main, number) if number else canonical(main)
    if denied and form.text != "no":
        return None
    if letters:
        named = LETTER_OF_CHOICE.findall(lead)
        if len(named) == 1 and _RIGHT.match(main):
            return "".join(named[0])
        if is_undecided(main):
            return None
        main = _HEDGE.sub("", main)
    letter = LEADING_CHOICE.match(main)
    if letter and (letters or len(sentence.split()) > 1):
        if _OR_LETTER.match(main, letter.end()):
            return None
        several = _LETTERS.match(main)
        return several[0] if several else letter[1].upper()
    if _BOUND_BEFORE.search(lead) or _BOUND_BEFORE.search(main[: len(main) - len(main.lstrip("><≥≤≠ "))]):
        return None
    if form.text in ("yes", "no") or form.kind in ("number", "choice") or (not is_prose(main) and not _is_range(main)):
        return shown(main, number, comma) if number else main
    return _with_words(main, language, worked)


def _before(sentence: str, cue: re.Pattern[str]) -> str:
    """Return what stands before words that begin a reason or a contrast; all of a sentence that begins with them."""
    found = cue.search(sentence)
    return sentence[: found.start()].rstrip(" ,;") if found and found.start() else sentence


def _behind_result_words(main: str, comma: bool) -> str | None:
    """Return the result that words give for the amounts before them: 12 of "half of 24, which is 12"."""
    words = max(_RESULT.finditer(main), key=re.Match.end, default=None)
    if words is None or words.end() == len(main) or not amounts(main[: words.start()]):
        return None
    rest = main[words.end() :]
    behind = amounts(rest, comma=comma)
    return behind[0].text if behind and behind[0].start == 0 and not _is_computed_with(rest, behind[0]) else None


def _with_words(main: str, language: str, worked: str) -> str | None:
    """Return the answer of a statement that has words in it."""
    comma = LANGUAGES[language].has_decimal_comma
    formula = _leading_formula(main)
    found = amounts(main, comma=comma) or amounts(main, comma=comma, spelled=True)
    if formula and not (found and found[0].start == 0 and len(found[0].text) >= len(formula)):
        return formula
    if not found:
        whole = max(_STATED.finditer(main), key=re.Match.end, default=None)
        if whole and not is_prose(main[whole.end() :]):
            return main[whole.end() :].strip()
        is_denied = NEGATION.search(main) or (language != ENGLISH and LANGUAGES[language].is_unsure(main))
        return main if word_count(main) <= 6 and not is_denied else None
    first = found[0]
    before = main[: first.start]
    if language != ENGLISH:
        return _in_other_words(main, found, language, worked)
    result = last_result(main)
    if result and (before.strip() or _is_operand(main, first)):
        return main[slice(*result)].strip()
    if len(found) > 1 and found[1].value != first.value and _AND.fullmatch(main, first.end, found[1].start):
        return _resolved(found, worked)  # "12 apples and 5 oranges"
    if NEGATION.search(before) or goes_on(main, first.end) or _is_computed_with(main, first) or _is_bound(before):
        return None
    name = before.partition(",")[0]
    if "," in before and name[:1].isupper() and word_count(name) <= 4 and name.casefold() not in ("so", "then", "thus"):
        return name.strip()
    if only(found):
        qualified = read_number(main[first.start : first.end + 24].split(",")[0]) is None and QUALIFIED.search(
            main, first.end, first.end + 24
        )
        return None if _FUNCTION_BEFORE.search(before) or qualified else first.text
    if IN_DOUBT.search(main):
        return None
    words = [word.lower().strip(",:;") for word in before.split()]
    light = word_count(before) <= 3 and _HEAVY_WORDS.isdisjoint(words) and not _is_label(before)
    if light or re.search(r"total of\s*\Z", before):
        return first.text
    return _resolved(found, worked)


def _in_other_words(sentence: str, found: list[Amount], language: str, worked: str) -> str | None:
    """Return the one amount that a sentence in another language than English states, None where it may be another."""
    row = LANGUAGES[language]
    if row.is_unsure(sentence) or QUALIFIED.search(sentence):
        return None
    result = last_result(sentence)
    if result:
        behind = [amount for amount in found if amount.start >= result[0] - 1]
        return behind[0].text if only(behind) else None
    if any(goes_on(sentence, amount.end) for amount in found):
        return None
    concluded = row.concludes(sentence)
    return (
        only(found)
        or only([amount for amount in found if concluded and amount.start >= concluded.end()])
        or _resolved(found, worked)
    )


def closing(text: str, *, language: str | None = None) -> str | None:
    """Return the answer that a text's last sentences come to, or None where they do not for sure.

    The last sentence with a number or formula counts: the result of its calculation, else its one number, where that is
    what was worked out before or the sentence draws a conclusion, else the one of its numbers that was worked out.

    Args:
        text: in plain writing.
        language: the text's, as its ISO 639-1 code; None to tell it from the text's words.
    """
    language = language or language_of(text[-500:])
    if _BROKEN_OFF_LIST.search(text[-2_000:]):
        return None
    if is_cut_off(text[-300:].rpartition("\n")[2]) or is_broken_off(text):
        return None
    sentences = _sentences(text[-4_000:])
    ended = bool(_ENDED.search(text[-300:]))
    for index in range(len(sentences) - 1, -1, -1):
        sentence = sentences[index]
        if re.search(r"[?:]\s*\Z", sentence) or _is_one_of_several_rows(sentences, index):
            return None
        sentence = _without_adjunct(_ASIDE.sub("", sentence))
        found = _readings(sentence, LANGUAGES[language].has_decimal_comma)
        last = index == len(sentences) - 1
        if last and not ended and (not found or word_count(sentence[found[-1].end :].partition(",")[2]) > 2):
            return None  # cut off by a limit on tokens
        if found and not any(character.isdigit() for character in sentence):
            found = found if LANGUAGES[language].concludes(sentence) or len(sentences) == 1 else []
        if found:
            worked = "\n".join(sentences[:index])
            return (
                _concluded(sentence, found, worked)
                if language == ENGLISH
                else _closed(sentence, found, language, worked)
            )
        if CORRECTION.match(sentence) or NEGATION.match(sentence):
            return None
    return None


def _closed(sentence: str, found: list[Amount], language: str, worked: str) -> str | None:
    """Return what a closing sentence in another language than English states."""
    text = _in_other_words(sentence, found, language, worked)
    worth = _worked_out(worked)
    if worth is None or LANGUAGES[language].concludes(sentence) or last_result(sentence) or "=" in sentence:
        return text
    return text if any(amount.text == text and amount.value == worth for amount in found) else None


def _concluded(sentence: str, found: list[Amount], worked: str) -> str | None:
    """Return what a closing sentence in English states, see ``closing``."""
    if _UNDETERMINED.search(sentence) or _JUDGES.search(sentence):
        return None
    corrected = CORRECTION.search(sentence)
    if corrected:
        kept = _without_denied(sentence[corrected.end() :], "", comma=False)
        return only([amount for amount in found if amount.start >= corrected.end()] if kept is None else kept)
    cause, contrast = CAUSE.search(sentence), _CONTRAST.search(sentence)
    main = sentence
    for cut in (cause, contrast, _WHEN.search(sentence)):
        if cut and any(amount.end <= cut.start() for amount in found):
            main = main[: cut.start()]
    because = _worked_out(sentence[cause.end() :]) if cause and cause.start() >= len(main) else None
    found = [amount for amount in found if amount.end <= len(main) and not _is_operand(sentence, amount)]
    if because is not None and found and because != found[-1].value:
        return None
    solved = _SOLVED.search(main)
    if solved and found and found[-1].start > solved.start():
        return found[-1].text
    listed = _solutions(main) or _solutions(main.replace("$", ""))
    if listed:
        return listed
    exact = _EXACT.search(main)
    if exact and not _ROUNDED.search(main, exact.end()):
        return exact[0]
    result = last_result(main)
    if result:
        return _of_calculation(main, found, result)
    if not found or _is_unsolved(main, found) or _HYPOTHETICAL.search(main) or _IMPERATIVE.match(main):
        return None
    equals = main.rfind("=")
    equal = only([amount for amount in found if amount.start > equals]) if equals >= 0 else None
    if equal:
        return equal
    kept = _without_denied(main, "", comma=False)
    if kept is not None:
        return only(kept)
    if IN_DOUBT.search(main) or QUALIFIED.search(main) or (NEGATION.search(main) and not SO.search(main)):
        return None
    new = _new(main, found) if "=" not in sentence[len(main) :] else found
    return _of_plain_words(main, found, new, worked)


def _of_calculation(main: str, found: list[Amount], result: tuple[int, int]) -> str | None:
    """Return the result of a sentence's calculation or what it is rounded to; None where other numbers follow."""
    later = [amount for amount in found if amount.start >= result[1] and not _GIVEN.search(main[: amount.start])]
    if later:
        drawn = SO.search(main, result[1], later[0].start) or _RESULT.search(main, result[1])
        rounded = _ROUNDED.search(main, result[1], later[0].start)
        if rounded or (drawn and _rounds(later[0].value, _worked_out(main[: result[1]]))):
            return only(later)
    known = {amount.value for amount in found if amount.start < result[1]}
    if {amount.value for amount in later} - known:
        return None
    number = next((amount for amount in found if amount.start >= result[0] - 1), None)
    return number.text if number and number.start <= result[1] else main[slice(*result)].strip()


def _of_plain_words(main: str, found: list[Amount], new: list[Amount], worked: str) -> str | None:
    """Return the amount that a sentence without a calculation states, None where it may be another."""
    concludes = LANGUAGES[ENGLISH].concludes(main)
    said = max(_RESULT.finditer(main), key=re.Match.end, default=None)
    behind = [amount for amount in found if said and 0 <= amount.start - said.end() <= 2]
    if behind and not _is_computed_with(main, behind[0]):
        return behind[0].text
    worth = _worked_out(worked)
    predicate = _of_predicate(main, found)
    if predicate and (worth in (None, predicate.value) or (concludes and concludes.start() >= predicate.end)):
        return predicate.text
    values = {amount.value for amount in found}
    if (len(values) > 1 and goes_on(main, found[0].end)) or any(_is_computed_with(main, amount) for amount in found):
        return None
    if len(values) > 1:
        so = max(SO.finditer(main), key=re.Match.end, default=None)
        after = [amount for amount in found if so and so.start() and amount.start >= so.end()]
        drawn = only(after) or only([amount for amount in after if amount in new])
        if drawn:
            return drawn
        if not only(new):
            return _resolved(found, worked)
        found, values = new, {new[0].value}
    before = main[: found[0].start]
    if worth != found[0].value and re.compile(r"(?i)\s{1,3}times\s").match(main, found[0].end) and not concludes:
        return None
    if _is_bound(before) or (_is_label(before) and worth != found[0].value) or _FUNCTION_BEFORE.search(before):
        return None
    if worth is None or worth in values or concludes or _rounds(found[-1].value, worth):
        return found[-1].text
    # A sentence that only repeats a number of the calculation right before it adds nothing to its result.
    before = worked.rpartition("\n")[2]
    same = [amount for amount in amounts(before) if amount.value == worth]
    repeated = last_result(before) and values <= {amount.value for amount in amounts(before)}
    return same[-1].text if same and repeated else None


def _new(main: str, found: list[Amount]) -> list[Amount]:
    """Return the amounts that a sentence does not take as given ("the 16 glasses"), nor as a name or a year."""
    return [
        amount
        for amount in found
        if not _GIVEN.search(main[: amount.start])
        and not _is_label(main[: amount.start])
        and not (_YEAR.fullmatch(amount.text) and _IN_YEAR.search(main[: amount.start]))
    ]


def _of_predicate(main: str, found: list[Amount]) -> Amount | None:
    """Return the amount that the only predicate of a sentence gives its subject: 6 of "the GCD of 12 and 18 is 6"."""
    if _SUBJECT.match(main, found[0].end) and not main[: found[0].start].strip():
        return found[0]
    behind = [match for match in _PREDICATE.finditer(main) if match.end() == found[-1].start]
    if not behind or word_count(main[found[-1].end :]) > 3:
        return None
    clause = max((so.end() for so in SO.finditer(main, 0, behind[-1].start())), default=0)
    return None if _CLAUSE_BEFORE.match(main[clause : behind[-1].start()]) else found[-1]


def _is_one_of_several_rows(sentences: list[str], index: int) -> bool:
    """Return whether a sentence is a row of a table or an item of a list like the one before, and no total."""
    if index == 0 or not all(_ROW.match(row) for row in sentences[index - 1 : index + 1]):
        return False
    return not LANGUAGES[ENGLISH].concludes(sentences[index]) and last_result(sentences[index]) is None


def _without_adjunct(sentence: str) -> str:
    """Return a sentence with blanks for what stands before its main clause: "In 10 years, Anna will be 35."."""
    fronted = _FRONTED.match(sentence)
    if (
        fronted is None
        or LANGUAGES[ENGLISH].concludes(fronted["adjunct"])
        or not re.search(r"\d", sentence[fronted.end() :])
    ):
        return sentence
    start = fronted.start("adjunct")
    return sentence[:start] + " " * (fronted.end() - start) + sentence[fronted.end() :]


def _solutions(main: str) -> str | None:
    """Return the list that a sentence gives as solutions: "the roots are 2 and 3", "x = 2 or x = 3"."""
    found = _SOLUTIONS.search(main.rstrip(" .*"))
    listed = found and (found["list"] or found["cases"])
    is_list = listed and re.search(r"\d", listed) and not is_prose(re.sub(r"\b(?:and|or)\b", ",", listed))
    return listed.strip() if listed and is_list else None


def _is_unsolved(main: str, found: list[Amount]) -> bool:
    """Return whether a sentence has several assignments, or an equation that does not name its number."""
    if _SOLVED.search(main):
        return False
    assigned = {match[1] for match in _ASSIGNMENT.finditer(main)}
    return len(assigned) > 1 or any(_UNSOLVED.search(main[: amount.start]) for amount in found)


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, formulas whole, without blank ones."""
    formulas = [math.span() for math in MATH.finditer(text)]
    pieces, start = [], 0
    for end in SENTENCE_END.finditer(text):
        if not any(first < end.start() < last for first, last in formulas):
            pieces.append(text[start : end.end()])
            start = end.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if any(character.isalnum() for character in piece)]


def _readings(sentence: str, comma: bool) -> list[Amount]:
    """Return the amounts of a sentence and the formulas that are more than a name."""
    pair = _PAIR.search(sentence) or (_RATIO.search(sentence) if "ratio" in sentence else None)
    if pair and not MATH.search(sentence):
        behind = [amount.shifted(pair.end()) for amount in amounts(sentence[pair.end() :], comma=comma)]
        return [
            *amounts(sentence[: pair.start()], comma=comma),
            Amount(pair.start(), pair.end(), pair[0], None),
            *behind,
        ]
    found: list[Amount] = []
    position = 0
    for math in MATH.finditer(sentence):
        if math.start() < position:
            continue  # joined to the one before
        found += [amount.shifted(position) for amount in amounts(sentence[position : math.start()], comma=comma)]
        content = next(group for group in math.groups() if group is not None)
        position = math.end()
        if re.search(r"\d|\\[a-z]", content) and not is_prose(content):
            formula = _whole_formula(sentence, math)
            position = math.start() + len(formula)
            found.append(Amount(math.start(), position, formula, canonical(formula).number))
    found += [amount.shifted(position) for amount in amounts(sentence[position:], comma=comma)]
    spelled = amounts(sentence, comma=comma, spelled=True)
    if not found:
        return spelled
    rivals = [  # numbers in words beside those in digits, but for "two of the 42" and "the two boys"
        amount
        for amount in spelled
        if amount.number
        and abs(amount.number.value * amount.number.scale) > 2
        and all(amount.end <= other.start or other.end <= amount.start for other in found)
    ]
    return sorted([*found, *rivals], key=lambda amount: amount.start)


def _whole_formula(text: str, math: re.Match[str]) -> str:
    """Return a formula, with the formulas that ``and``, ``or`` or a comma join to it and the unit after it."""
    end = math.end()
    while (joined := JOINT.match(text, end)) and (following := MATH.match(text, joined.end())):
        end = following.end()
    formula = text[math.start() : end]
    unit = _UNIT_WORD.match(text, end)
    number = canonical(formula + unit[0]).number if unit else None
    return formula + unit[0] if unit and number and (number.unit or number.scale != 1) else formula


def _leading_formula(sentence: str) -> str | None:
    r"""Return the formula before prose: ``3\sqrt{2}`` of "3\sqrt{2} units", ``(3, 4)`` of "(3, 4) in all"."""
    formula = _FORMULA.match(sentence)
    if formula is None:
        return None
    # "10 - 12 weeks" is not a difference, and "5x more" not a product.
    symbolic = re.search(r"[A-Za-z√π\\^²³(\[]", formula[0])
    return formula[0].strip() if symbolic and re.search(r"[-−+*/×=√π²³^,\\]", formula[0]) else None


def _is_operand(text: str, amount: Amount) -> bool:
    """Return whether an amount belongs to a calculation, such as the 48 of "48+15 books"."""
    behind = re.match(r"\s*(?:[-+*/×·÷^]|\\(?:times|cdot|div))\s*[\d($]|\s+[+×÷]\s+[A-Za-z]", text[amount.end :])
    before = re.search(r"[\d)]\s*(?:[-+*/×·÷^]|\\(?:times|cdot|div))\s*\Z", text[: amount.start])
    symbol = re.search(r"(?<![A-Za-z])[A-Za-z]\s*(?:[-+*/×·^]|\\(?:times|cdot|div))\s*\Z", text[: amount.start])
    return bool(behind or before or symbol or (amount.text[0] in "+-" and re.search(r"\d\s*\Z", text[: amount.start])))


def _without_denied(sentence: str, lead: str, comma: bool) -> list[Amount] | None:
    """Return the amounts of a sentence that it does not deny; None where it denies none."""
    found = amounts(sentence, comma=comma)
    kept = []
    for index, amount in enumerate(found):
        before = sentence[found[index - 1].end if index else 0 : amount.start]
        behind = sentence[amount.end : found[index + 1].start if index + 1 < len(found) else len(sentence)]
        led = lead.rstrip() + " " + before if not index and len(before) < 12 else before
        if not (_DENIED_BEFORE.search(led) or _DENIED_BEHIND.match(behind)):
            kept.append(amount)
    return kept if len(kept) < len(found) else None


def _is_range(text: str) -> bool:
    """Return whether a text is a range of two numbers ("5 or 6" is a list)."""
    found = amounts(text)
    to = re.match(r"\s?[-–—~]|\s(?:to|bis|a|à|до|至)\s", text[found[0].end :]) if len(found) == 2 else None
    return to is not None and found[0].start == 0 and goes_on(text, found[0].end)


def _is_bound(before: str) -> bool:
    """Return whether the words before a number make it a bound or deny it: "more than", "at least"."""
    return bool(_BOUND_BEFORE.search(before.rstrip() + " "))


def _is_label(before: str) -> bool:
    """Return whether the word before a number makes it the name of something: "step 3", "on Route 66"."""
    before = before.rstrip()
    return bool(_LABELS.search(before) or _NAMED.search(before))


def _is_computed_with(text: str, amount: Amount) -> bool:
    """Return whether words compute something with an amount: "3 more than 5", "a quarter of 20"."""
    another = _WITH_ANOTHER.match(text, amount.end)
    if another is None or not another["of"]:
        return another is not None
    number = amount.number
    return number is not None and (number.value.denominator != 1 or number.scale < 1) and number.places == 0


def _resolved(found: list[Amount], worked: str) -> str | None:
    """Return the one of several amounts that the working before comes to, None where it is none or several."""
    worth = _worked_out(worked)
    same = [amount for amount in found if worth is not None and amount.value == worth]
    return same[0].text if same else None


def _rounds(value: object, exact: object) -> bool:
    """Return whether a value is a whole number next to an exact one that is none: 3 or 4 for 3.5."""
    if not isinstance(value, Fraction) or not isinstance(exact, Fraction):
        return False
    return value.denominator == 1 and exact.denominator != 1 and abs(value - exact) < 1


def _worked_out(text: str) -> object:
    """Return the value of the last calculation in a text, or of what its words call a result; None for neither."""
    last: object = None
    for sentence in re.split(r"\n|(?<=[.!?])\s", text[-2_000:]):
        flat = MATH.sub(lambda math: f" {next(group for group in math.groups() if group is not None)} ", sentence)
        result = last_result(flat)
        if result:
            number = read_number(flat[slice(*result)].strip().lstrip("\\"))
            last = number.value * number.scale if number else last
        for words in _RESULT.finditer(flat, result[1] if result else 0):
            behind = amounts(flat[words.end() : words.end() + 40])
            if behind and behind[0].start <= 2:
                last = behind[0].value
    return last
