r"""What a sentence states: the answer behind a marker, and the one that a text's closing sentences come to.

One answer is read, or none: a sentence that denies, doubts, supposes or bounds what it says (``markers`` has each
language's words for that) states none, nor does one with two numbers of which nothing tells which is meant.
"""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

from tokur_cli.answers.canonical import NUMBERED_NAME, canonical
from tokur_cli.answers.markers import ENGLISH, SO, Language, language_of
from tokur_cli.answers.numbers import DIGITS, LETTER, SYMBOLS, Amount, amounts, with_digits
from tokur_cli.answers.units import CURRENCY

SENTENCE_END = re.compile(
    r"(?:\.(?!\s[a-zа-я])|[!?]+(?!(?<=\d!)\s*(?:[-+*/×·÷=]|(?:ways|arrangements|permutations|order(?:ing)?s)\b)))"
    r"(?=\s|$|[\"')\]](?:\s|$))"
    r"(?<!\b(?:Mr|Ms|Dr|St|Mt|Ft|Lt|No|no)\.)(?<!\b(?:Mrs|Gen|Sgt|Col)\.)(?<!\bapprox\.)|[!?](?=[^\W\d_])|\n"
)
"""Where a sentence ends, in plain writing."""

_MATH = (
    r"(?:\$\$([^$]{1,1500})\$\$|\\\[(.{1,1500}?)\\\]|\\\((.{1,1500}?)\\\)"
    # "$12 + $4" and "$12 = $ 12" are money.
    r"|(?<![\\$\d])\$(?!\$)([^$\n]{1,300})(?<!\\)(?<![-+*/=])(?<![-+*/=]\s)\$(?!\d))"
)
MATH = re.compile(_MATH, re.DOTALL)
_MATH_OR_END = re.compile(rf"{_MATH}|(?P<end>{SENTENCE_END.pattern})", re.DOTALL)
_LIST = re.compile(rf"{_MATH}(?:\s*(?:,?\s*(?:and|or)|,)\s*{_MATH})*", re.DOTALL)  # joined formulas
CORRECTION = re.compile(  # takes back what was said before it
    r"(?i)(?:\b(?:wait|hold on|no,|no(?=\W+wait)|oops|i mean|i meant|sorry|scratch that|correction|edit(?=:)|actually"
    r"|let me (?:re|check|correct)|on second thou?ght|i made a mistake|hmm)(?![^\W_])|等等|不对|不對)"
)
_ASIDE = re.compile(
    rf"(?P<math>{_MATH})|" r"(?<=\S)\s*\((?:[\d.,]+\s?[A-Za-z]+|[^()]*[^\W\d_]{2}[^()]*|[^()]*[=≈][^()]*)\)", re.DOTALL
)
_BESIDE = re.compile(  # where the reason for an answer begins, or what it is told apart from
    r"(?i)[,;]?\s*(\b(?:because|since)\b|因为|因為|由于|由於)"
    r"|[,;]?\s*(?:\b(?:rather than|instead of|as opposed to|unlike|out of)\b|,\s+(?:not|no)\b)"
    r"|,\s+or\s+(?:about|approximately|roughly|around)\b(?!.*(?:,\s|round))|\s+[-–—]\s+(?=[^\W\d_]{2})|\s+—|\s+--\s"
)
_REASON_FIRST = re.compile(r"(?i)\A\W*(?:since|because)\b[^,\n]*,\s+(?=[^\d,]*\d[\d.,/]*[^\d,]*\Z)")
_GIVEN = re.compile(r"(?i),?\s(?:which occurs |\w+ed )?(?:when|where|at|since|because)\s\$?[a-z](?:_\w+)?\s*=[^=,;]*\Z")
_VALUED = re.compile(r"(?i)(?:\A|\b(?:max|min|value)\w*\b[^.,;]*\b(?:is|of)\s)[\s$*]*[-−]?[$€£]?\d[\d.,]*[\s$*]*\Z")
_RESULT = re.compile(  # gives the result of what stands before it
    r"(?i)\b(?:(?:which|that|this) (?:is|equals|makes|gives|leaves)(?: us)?|that is,?|i\.e\.,?|namely"
    r"|(?:is )?equal to|gives us|(?<!after )(?<!by )giving(?: (?:us|him|her|them|it))?"
    r"|making(?: a total of)?|we get|a total of|totals?|round(?:s|ed)? (?:up |down )?to)(?![^\W_])[\s,:]*"
)
_LETTER = r"(?:[B-HJ]|A(?!\s+(?!or\b|and\b|is\b|was\b|because\b|since\b|as\b|but\b)[a-z]))"
"""A letter of a multiple choice: an 'A' before a word is an article."""

LETTER_OF_CHOICE = re.compile(
    rf"\(([A-J])\)|(?<![A-Za-z0-9\u00c0-\u024f'$\\])({_LETTER})(?![A-Za-z0-9\u00c0-\u024f'$])"
)
UNDECIDED = re.compile(r"\W*(?i:either\s+)?\(?[A-J]\)?\W*(?i:or|/)\W*\(?[A-J]\b")  # either B or C
_LEADING_CHOICE = re.compile(
    r"(?:(?:(?i:so|then|option|choice|letter)|la|el|a|le|die|opción|opção|alternativa|lettre|lettera|letra|buchstabe"
    r"|antwort|opzione|вариант|pilihan|phương án|câu|ข้อ|विकल्प|选项|選項|选|選)\s*){0,2}"
    rf"\(?({_LETTER})(?![A-Za-z0-9\u00c0-\u024f'])\)?(?=[\s.,:;)*]|$|[^\x00-\x7f])(?!\s*[=<>])"
)
_COPULA = re.compile(r"(?<=[^\W\d_]|[\"*」』])\s?(?:です|である|입니다)\Z")
_LEADING_MARKS = re.compile(r"\A(?:\n\s*[-–•·]\s+|[\s:*#_\"'>]|\\\"|,(?=\s)|\.{2,})*")
_LETTERS = re.compile(r"\(?[A-J]\)?(?:\s*(?:,|&|,?\s*\band\b)\s*\(?[A-J]\)?(?![A-Za-z]))+")
_TEXT_GROUP = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox|operatorname)\s*\{[^{}]*\}|\\begin\{\w+\}|\\end\{\w+\}")
_PROSE = re.compile(
    rf"(?<![\\{LETTER}\d])(?:(?!(?:sin|cos|tan|log|exp|mod|and|pmod|sqrt|[Ii]nfinity)\b)[{LETTER}]{{3,}}"
    r"|(?i:so|is|it|we|he|in|of|to|at|by|on|as|be|if|an|my|no|up)\b)|[\u3040-\ud7ff]|[\u0400-\u1fff]{2}"
)
_BEFORE_OTHERS = (
    "which|who|that|and|so|then|but|or|the|an?|is|are|was|will|to|of|for|in|on|at|with|by|from|than|because"
    "|since|making|giving|leaving|equals|gives|he|she|we|they|it|i|has|have"
)
_DANGLING = re.compile(  # where a text was cut off: an operator, or a word that another must follow, no letter or name
    rf"(?:[-+*/×·÷=^(]|\\(?:times|cdot|div)|\b(?!(?:(?<=[-+*/^=])|(?<=[-+*/^=]\s))[ai]\b)(?:{_BEFORE_OTHERS})"
    rf"|(?:\A|[.!?]\s+)(?![AI]\b|IT\b|Will\b)(?i:{_BEFORE_OTHERS})|\b(?:and|so|but|that|because|since)\sI)\s*\Z"
)
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\ud7ff]")
_PAIR = re.compile(
    r"\((?:[-+]?\d[\d./]*|\\frac\{\d+\}\{\d+\}|[-+]?[a-z]),\s*[^(),]{1,30}(?:,\s*[^(),]{1,30})?\)"
    r"|(?<![\d:])\d+(?:\s?:\s?\d+)+(?![\d:])(?<!:\d\d)"
)
_HEADING = re.compile(r"(?i)\A\W*(?:step|part|case|question|problem)\s\d+\s*[:.)–-]+\s*(?=\S)")
_REMARK = re.compile(  # a sentence about the answer, or to the reader
    r"(?i)\bI(?:'m| am) (?:about |only )?\d+\s?%\s(?:sure|certain|confident)\W*\Z"
    r"|\A\W*(?:(?:my )?confidence\W+\d|(?:let me know|feel free|(?:i )?hope this|would you like)\b)"
    r"|\A[*_ ]*\((?!(?:so|then|the total is|in total|all together|altogether)\b)(?-i:[A-Z][a-z])[^()]*\)?\W*\Z"
)
_ENDED = re.compile(r"[.!?:;)\]}%$\"'*_>|]\s*\Z|[\d\U0001f300-\U0001faff]\s*\Z")
_SOLVED = re.compile(  # what leads to the only equation of a sentence, or to the one that it draws from others
    r"(?i)(?:\A|解得|\b(?:so|then|therefore|thus|hence|giv(?:es|ing)|get|have|means|implies|yields|produces)\b)[^=]*=\s*"
)
_INITIALS = re.compile(  # the "John F." of "John F. Kennedy", but not that of a sentence before another
    r"[*_ ]*(?:(?:[A-Z][\w'’-]*|[A-Z]\.|(?:Mrs?|Ms|Dr|Gen|Lt|Sgt|Col|Capt|Sir|Prof)\.)\s)*[A-HJ-UWYZ]\.(?=\s[A-Z])"
    r"(?!\s(?:He|She|It|They|The|This|That|These|His|Her|Its|In|An?|We|I|You|So|But|And|As|There|Because|Since)\b)"
)
_NAME = re.compile(r"([A-Z][^\d,]*), ")
_APPOSITION = re.compile(r",\s(?:who|which|where|whose|located|also|known|born|(?:an?|the)\s[a-z]).*")
_SETTING = re.compile(r"(?i)(?P<when>in|after|by|for|with|on|when|at|over|within)\b|(?:the|all|each|both|\w+'s)\b")
_PREDICATE = re.compile(r"(?i)\b(?:is|are|equals?|leaves|gives|yields|makes|totals|costs?)\s+(?:only |just )?\Z")
_MORE_BEHIND = re.compile(  # behind a number that is not all: the 10 of "10-12", "10 of 12", the 3 h of "3 h 30 min"
    r"\s?(?:[-–—~]|から|至|到|或|또는|か|이나)\s?(?=\d)|\s?(?:±|\\pm)|,? (?:and )?\d+ ?(?:min|sec|cent|inch|[ms]\b)"
    r"|(?i:\s(?:to|bis|a|à|до|or|oder|o|ou|или|of)|\s{1,3}(?:[a-z]+\s+)?(?:(?:more|less|fewer|[a-z]+er)\s+than|times"
    r"|choose|mod|plus|minus|divided by|multiplied by|to the power of)(?:\s+the)?)\s+[-+]?[$€£¥]?(?:\d|\\frac)"
)
_FACTOR_BEHIND = re.compile(r"\s?[*·×]\s?(?:π|√|\\?(?:pi|sqrt)|[A-Za-z]\b)|!\s*[a-z]")  # 25 of "25*π"
_BOUND_BEFORE = re.compile(
    r"(?:[≠<>≤≥±]|[!=]=|\\[nlg][et]q?|(?<![A-Za-z])(?:[a-z](?:\^\d)?\)?\s?-|(?<!\d)[a-z](?:\^\d)?\)?\s?[+*/]))\s*\Z"
)
_NOT_DRAWN = re.compile(
    r"(?i)\b(?:step|option|case|the)\s\d|\d(?:st|nd|rd|th|\sdigits?)\b|\A\W*(?:let|now|next|we (?:carry|write))\b"
)
_FUNCTION_BEFORE = re.compile(r"(?i)(?:√|\b(?:(?:sqrt|log|ln|sin|cos|tan)[({]*|(?:root|half) of|twice))\s*\Z")

# "7 boxes * 9 cookies / box = " in front of what a calculation comes to: amounts, each with a link to the next.
_TERM = re.compile(
    rf"(?<![A-Za-z0-9_.)\]}}])(?:[-−]\s?)?(?:\\?[{CURRENCY}]\s?)?"
    rf"-?(?:{DIGITS}|\\frac\{{\d+\}}\{{\d+\}})"
    r"(?:\^(?:\d+|\{\d+\})|[²³]|!(?=\s*[-+*/×·=\\])|\s?(?:\\?%|percent\b))?(?:\^(?:\{\\circ\}|\\circ)|°)?"
    r"|\([-−+*/×÷\d\s.,$%]*\d[-−+*/×÷\d\s.,$%]*\)"
)
_LINK = re.compile(
    r"(?:(?<=%)|(?<=/\d)|(?<=percent))\sof\s(?:the\s)?|"
    r"(?:\s?/?\s?(?!(?:because|since|as|so|if|when"
    r"|where|and|or|but|which|that|is|are|equals?|plus|minus|times|[nxyzX]|for|with)\b)"
    rf"(?:\\text\{{[^{{}}]*\}}|[{LETTER}]+\b\.?)){{0,4}}\s*"
    r"(?:(?P<equals>=|≈|≃|\\approx\b|\\simeq\b|(?:is\s)?equals?(?:\sto)?\b)|[-−–+*/×·÷^]|[xX](?=\s*[\d(.$€£])|(?=\()"
    r"|\\(?:times|cdot|div)(?![A-Za-z])"
    r"|(?:plus|minus|times|divided\sby|multiplied\sby)\b)\s*"
)
_OPERATOR = re.compile(r"frac|[!^+\-−*/×÷]")


def is_prose(text: str) -> bool:
    """Return whether a text has words in it that belong to no formula."""
    return bool(_PROSE.search(_TEXT_GROUP.sub(" ", text)))


def word_count(text: str) -> int:
    """Return how many words a text has, two characters for one where a script has no spaces."""
    wide = len(_WIDE.findall(text))
    return len(_WIDE.sub(" ", text).split()) + (wide + 1) // 2


def is_answer_alone(text: str) -> bool:
    """Return whether a text is an answer and nothing else: no prose but up to three words."""
    text = text.strip()
    if is_cut_off(text) or len(text) > 200 or "\n" in text or "\\boxed" in text:
        return False
    form = canonical(text)
    if form.kind == "words":
        return word_count(text) <= 3
    return any(map(str.isalnum, form.text)) and (form.kind != "expression" or not is_prose(text))


def is_cut_off(text: str) -> bool:
    """Return whether a text ends within a formula, or with a word that another must follow: "The answer is"."""
    line = text[-300:].rpartition("\n")[2].rstrip("*_ ")
    return bool(_DANGLING.search(line[-20:]) or line.count("{") > line.count("}"))


def main_clause(sentence: str, language: Language) -> str:
    """Return a sentence without asides, reasons, contrasts and what it takes back."""
    sentence = _REASON_FIRST.sub("", _ASIDE.sub(lambda aside: aside["math"] or "", sentence))
    if language is ENGLISH and (corrected := CORRECTION.search(sentence)) and corrected.start():
        sentence = sentence[corrected.end() :].lstrip(" ,:")
    if (given := _GIVEN.search(sentence)) and _VALUED.search(sentence[: given.start()]):
        sentence = sentence[: given.start()]
    for cut in _BESIDE.finditer(sentence):
        before, behind = sentence[: cut.start()], sentence[cut.start() :]
        said = {one.value for one in _readings(before)} if cut[1] and not is_prose(sentence[cut.end() :]) else set()
        is_reason = "=" not in behind or (len(said) == 1 and said != {_worked_out(behind)})
        if before and is_reason and (re.search(r"\d", before) or not re.search(r"\d", behind)):
            return before.rstrip(" ,;")
    return sentence


def stated(following: str, language: Language, worked: str, lead: str, wanted: str | None) -> tuple[str, int] | None:
    """Return the answer behind a marker such as "the answer is" and its sentence's end; None where it is none for sure.

    Args:
        following: what comes after the marker, in plain writing with decimal points.
        language: the marker's.
        worked: what comes before the marker, whose last result may tell which of several numbers is meant.
        lead: the marker itself, which may deny what it announces ("La respuesta no es").
        wanted: what the question asks for.
    """
    if language.is_unsure(lead):
        return None
    rest = _LEADING_MARKS.sub("", following, count=1)
    start = len(following) - len(rest)
    if math := _LIST.match(rest):
        return (math[0], start + math.end()) if "boxed{}" not in math[0] else None
    begun = _INITIALS.match(rest) if wanted != "choice" else None
    is_name = begun and (wanted == "words" or begun.end() > 2)  # else "A." is a choice
    end = SENTENCE_END.search(rest, begun.end() if begun and is_name else 0)
    sentence = (rest[: end.start()] if end else rest).rstrip(" *_")
    if (end is None and is_cut_off(sentence)) or (end and end[0].startswith("?")):
        return None
    text = _behind_marker(sentence, wanted, language, worked)
    return (text, start + (end.end() if end else len(rest))) if text else None


def _behind_marker(sentence: str, wanted: str | None, language: Language, worked: str) -> str | None:
    """Return what the sentence behind a marker states: alone, or within words."""
    answer, *reasons = re.split(r",?\s(?:because|since)\s", sentence)
    main = with_digits(main_clause(answer if reasons and re.search(r"\d", answer) else sentence, language))
    main = _COPULA.sub("", main)
    if language.is_unsure(re.split(r"[,;]\s", main)[0]) or (wanted == "choice" and UNDECIDED.match(main)):
        return None
    if wanted != "words" and (letter := _LEADING_CHOICE.match(main)):
        several = _LETTERS.match(main)
        return several[0] if several else letter[1].upper()
    found = _readings(main)
    is_range = found and _MORE_BEHIND.match(main, found[0].end)
    kind = canonical(main).kind
    is_name = (wanted == "words" and NUMBERED_NAME.fullmatch(main)) or (found and kind == "words")  # or a date
    if is_name or kind in ("number", "choice") or not (is_prose(main) or is_range):
        return main
    if not found or (" " not in main and len(found) > 1 and not is_range):  # 2024年3月
        main = main if found else _APPOSITION.sub("", main)
        return main if word_count(main) <= (8 if wanted == "words" else 6) else None
    if (name := _NAME.match(main)) and word_count(name[1]) <= 4 and not SO.match(name[1]):
        return name[1]
    return _concluded(main, worked, language, is_marked=True)


def closing(text: str) -> str | None:
    """Return the answer that the last sentences of a text in plain writing come to; None where they do not for sure.

    The last sentence with a number or formula counts: the result of its calculation, else its one number, where that is
    what was worked out before or the sentence draws a conclusion, else the one of its numbers that was worked out.
    """
    language = language_of(text[-500:])
    if is_cut_off(text):
        return None
    sentences = _sentences(language.with_points(text[-4_000:]))
    is_cut = not _ENDED.search(text[-300:])  # by a limit on tokens
    while sentences:
        if _REMARK.search(sentence := _HEADING.sub("", sentences.pop())):
            continue
        found = _readings(sentence)
        is_fragment = is_cut and (not found or word_count(sentence[found[-1].end :].partition(",")[2]) > 2)
        if is_fragment or sentence.endswith(("?", ":")):
            return None
        if found:
            return _concluded(sentence, "\n".join(sentences), language, is_marked=False)
    return None


def _concluded(sentence: str, worked: str, language: Language, *, is_marked: bool) -> str | None:
    """Return the one answer that a sentence with numbers states, None where it may be another.

    ``worked`` is what comes before it; ``is_marked``, whether a marker announces that it states the answer.
    """
    main = main_clause(sentence, language)
    found = [one for one in _readings(main) if not _FUNCTION_BEFORE.search(main[: one.start])]
    if result := _last_result(main):
        return _of_calculation(main, found, result)
    if not found or language.is_unsure(main) or _FACTOR_BEHIND.match(main, found[-1].end):
        return None
    worth = _worked_out(worked)
    whole = [one for one in found if not (_MORE_BEHIND.match(main, one.end) or _BOUND_BEFORE.search(main[: one.start]))]
    equation = max(_SOLVED.finditer(main), key=re.Match.end, default=None)
    if equal := _only([amount for amount in whole if equation and amount.end > equation.end()]):
        return equal
    results = [words.end() for words in _RESULT.finditer(main)]
    if said := [amount for amount in whole if any(0 <= amount.start - end <= 2 for end in results)]:
        return said[-1].text
    last = found[-1]
    told = [amount for amount in whole if _PREDICATE.search(main[: amount.start])]
    between = main[told[0].end : last.start] if told[-1:] == [last] else " and "  # "the one is 5 and the other is 12"
    is_told = (" and " not in between or bool(language.concludes(between))) and word_count(main[last.end :]) <= 3
    if len(whole) < len(found) and (is_marked or not is_told):
        return _only([amount for amount in whole if amount.value == worth])
    if is_marked and language is ENGLISH and (setting := _SETTING.match(main)):
        if setting["when"] and len(found) == 2:
            return found[1].text
    elif is_marked and language is ENGLISH and word_count(main[: found[0].start]) <= 2:
        return found[0].text
    if is_told:
        return last.text
    concludes = language.concludes(main)
    so = max(SO.finditer(main), key=re.Match.end, default=None) if language is ENGLISH else concludes
    one = _only(found) or _only([amount for amount in found if so and amount.start >= so.end()])
    if one is None or concludes or worth in (None, found[0].value):
        return one or _only([amount for amount in found if amount.value == worth])
    # A sentence that only repeats a number of the calculation right before it adds nothing to its result.
    known = amounts(worked.rpartition("\n")[2])
    is_repeated = found[0].value in {amount.value for amount in known}
    return _only([amount for amount in known if is_repeated and amount.value == worth])


def _only(found: list[Amount]) -> str | None:
    """Return the one value of several amounts, as it first stands; None for none or several."""
    return found[0].text if len({amount.value for amount in found}) == 1 else None


def _of_calculation(main: str, found: list[Amount], result: tuple[int, int]) -> str | None:
    """Return the result of a sentence's calculation; None where other numbers follow."""
    if {amount.value for amount in found} - {amount.value for amount in found if amount.start < result[1]}:
        drawn = main[so.end() :] if (so := SO.search(main, result[1])) else ""
        return None if ENGLISH.is_unsure(drawn) or _NOT_DRAWN.search(drawn) else _only(_readings(drawn))
    number = next((amount for amount in found if amount.start >= result[0] - 1), None)
    return number.text if number and number.start <= result[1] else main[slice(*result)].strip()


def _last_result(sentence: str) -> tuple[int, int] | None:
    """Return where the result of a sentence's last calculation stands: the 7 of "he has 3 + 4 = 7 of the 9".

    The result is the last term that stands alone between ``=``: 7 in "3 + 4 = 7 apples", 20 in "20 = 4 * 5".
    """
    found, end = None, 0
    while first := _TERM.search(sentence, end):
        terms, equated = [first], [True]  # each term, and whether "=" stands before it
        while (link := _LINK.match(sentence, terms[-1].end())) and (term := _TERM.match(sentence, link.end())):
            terms.append(term)
            equated.append(bool(link["equals"]))
        end = terms[-1].end()
        operates = not all(equated) or any(_OPERATOR.search(term[0], 1) for term in terms)
        goes_on = sentence[: first.start()].rstrip().endswith(("+", "-", "*", "/", "^"))  # 2x + 3 * 4 = 20
        if operates and any(equated[1:]) and not goes_on:
            behind = [*equated[1:], True]
            alone = [term for term, *sides in zip(terms, equated, behind, strict=True) if all(sides)]
            result = alone[-1] if alone else first
            symbols = SYMBOLS.match(sentence, result.end())
            found = (result.start(), symbols.end() if symbols else result.end())
    return found


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, formulas whole and numbers in digits, without blank ones."""
    ends = [match.end() for match in _MATH_OR_END.finditer(text) if match["end"]]
    pieces = [text[start:end] for start, end in itertools.pairwise([0, *ends, len(text)])]
    return [with_digits(piece.strip()) for piece in pieces if any(map(str.isalnum, piece))]


def _readings(sentence: str) -> list[Amount]:
    """Return the amounts of a sentence and the formulas that are more than a name."""
    formulas: list[Amount] = []
    outside = sentence
    for math in MATH.finditer(sentence) if MATH.search(sentence) else _PAIR.finditer(sentence):
        if formulas and math.start() < formulas[-1].end:
            continue  # joined to the one before
        whole = math
        if re.search(r"\d|\\[a-z]", math[0]) and not is_prose(math[0]):
            whole = _LIST.match(sentence, math.start()) or math
            formulas.append(Amount(*whole.span(), whole[0], canonical(whole[0]).number))
        outside = outside[: whole.start()] + " " * len(whole[0]) + outside[whole.end() :]
    return sorted([*amounts(outside), *formulas], key=lambda amount: amount.start)


def _worked_out(text: str) -> Fraction | str | None:
    """Return the value of the last calculation in a text, or of what its words call a result; None for neither."""
    last: Fraction | str | None = None
    for line in text[-2_000:].split("\n"):
        result = _last_result(line)
        starts = [result[0]] if result else []
        starts += [words.end() for words in _RESULT.finditer(line, result[1] if result else 0)]
        for start in starts:
            if (said := amounts(line[start : start + 40])) and said[0].start <= 2:
                last = said[0].value
    return last
