r"""What the last sentences of a text come to, where no marker announces an answer."""

from __future__ import annotations

import re
from fractions import Fraction

from tokur_cli.answers.reading.amounts import Amount, amounts, goes_on
from tokur_cli.answers.reading.calculations import last_result
from tokur_cli.answers.reading.canonical import canonical
from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.languages import language_of
from tokur_cli.answers.reading.lexicon import (
    ASIDE,
    CAUSE,
    CONCLUSION,
    CONTRAST,
    CORRECTION,
    HYPOTHETICAL,
    IN_DOUBT,
    NEGATION,
    OTHERWISE,
    RESULT_WORDS,
    SO,
    TAKEN_BACK,
    UNDETERMINED,
    WHOLE,
)
from tokur_cli.answers.reading.numbers import QUALIFIED
from tokur_cli.answers.reading.statements import (
    EXACT,
    MATH,
    SENTENCE_END,
    is_bound,
    is_broken_off,
    is_computed_with,
    is_cut_off,
    is_function,
    is_label,
    is_operand,
    is_prose,
    only,
    resolved,
    rounds,
    whole_formula,
    without_denied,
    word_count,
    worked_out,
)

_PAIR = expression(r"\((?:[-+]?\d[\d./]*|\\frac\{\d+\}\{\d+\}|[-+]?[a-z]),\s*[^(),]{1,30}(?:,\s*[^(),]{1,30})?\)")
_ENDED = expression(r"[.!?:;)\]}%$\"'*_>|]\s*\Z|[\d\U0001f300-\U0001faff]\s*\Z")
_ASSIGNMENT = expression(r"(?<![A-Za-z\d])[A-Za-z](?:_\{?\w+\}?|\d)?\s?=\s?(-?\d[\d.,/]*)(?<![.,])")
_SOLVED = expression(
    r"(?i)\b(?:so|therefore|thus|hence|giving|gives|yields|then|means(?:\s+that)?|get)\s+\$?(?-i:[A-Za-z])\s*=\s*-?[\d.,/]*\d[$.\s]*\Z"
)
_COMBINED = expression(r"(?i)\b(?:so|therefore|thus|hence|and|then)\s\$?([^=,.;$]{3,40}?)=\s?-?[\d.,/]*\d[$.\s]*\Z")
_UNSOLVED = expression(
    r"(?:[≠<>≤≥]|!=|\\(?:ne|le|ge|lt|gt|neq|leq|geq))\s*\Z|(?:\d\s?[a-zA-Z]|(?<![A-Za-z])[a-zA-Z]\s?(?:\^\S+|[²³]|[-+*/]\s?\w+)|(?<![\w])-\s?[a-zA-Z]|\d+/[a-zA-Z])\s*=\s*\Z"
)
_ROUNDED = expression(r"(?i)\bround(?:s|ed|ing)?\b|\bnearest\b")
_FRONTED = expression(
    r"(?i)\A\W*(?:(?:so|thus|therefore|hence|then|now|in conclusion|overall|finally),?\s+)?"
    r"(?P<adjunct>(?:after|in|at|for|with|by|of|out of|on|during|within|from|since|because|as|when|before|over"
    r"|per|under)\b"
    r"(?:[^,;\n]|,(?=\d{3}))*),\s+(?=\S)"
)
_GIVEN = expression(
    r"(?i)\b(?:the|these|those|all|both|his|her|their|its|my|our|your)\s+(?:[a-z]+\s+of\s+(?:the|these|those)\s+)?\Z"
)
_OF_THESE = expression(r"(?i)\s{1,3}(?:[a-z]+\s+)?of\s+(?:which|whom|them)\b")
_YEAR, _IN_YEAR = expression(r"(?:1[5-9]|20)\d\d"), expression(r"(?i)\b(?:in|by|since|until|year)\s+\Z")
_FIRST_WORD = expression(r"(?!(?:So|Only|Just|About|Thus|Hence|Now|There|The|All|Both|Another)\b)[A-Z][a-z]+ ")
_COMPARED = expression(r"(?i)\s{1,3}(?:[a-z]+\s)?(?:more|less|fewer)\b")
_MULTIPLE = expression(r"(?i)\s{1,3}times\s+(?:as|more|less|the|\w+er)\b")
_ROW = expression(r"\A\s*(?:\||[-*•]\s[^:=\n]{1,60}[:|])")
_RATIO = expression(r"(?<![\d:])\d+(?:\s?:\s?\d+)+(?![\d:])")
_SOLUTIONS = expression(
    r"(?i)\b(?:solutions?|roots?|zeros|zeroes|values?(?:\s+of\s+\$?[a-z]\$?)?|numbers|integers|primes|angles|sides|lengths|factors|divisors)\s+(?:are|is)\s*:?\s*(?P<list>[^\n]{1,160})\Z"
    r"|\A\W*(?:(?:so|thus|therefore|hence),?\s+)?(?P<cases>(?P<name>[a-z])\s*=\s*[^\s,]+\s*(?:,|,?\s*or|,?\s*and)\s*(?P=name)\s*=\s*\S+)\Z"
)
_WHEN = expression(
    r"(?i)(?<!\bso)(?<!\bthen)(?<!\band),?\s(?:when|if|provided)\s(?:(?!\s(?:when|if|provided)\s)[^,;=])*\Z"
)
_BROKEN_OFF_LIST = expression(r"(?m)^[ \t]{0,8}\d{1,2}[.)][ \t][^\n]*\n{1,3}[ \t]{0,8}\d{1,2}[.)]\s*\Z")
_IMPERATIVE = expression(
    r"(?i)\A\W*(?:\d{1,2}[.)]\s*)?(?:then\s+)?(?:add|subtract|multiply|divide|calculate|compute|find|determine|solve|count|identify|note)\b"
    r"|\A\W*(?:we (?:know|are (?:told|given)|have been)|it is given|(?:the )?(?:problem|question) (?:says|states"
    r"|tells|gives|asks|mentions))\b|\A\W*(?:an?|the|one)\s(?:very )?common (?:mistake|error)\b"
)
_FINITE = (
    r"(?<!can )(?<!could )(?<!to )\b(?:is|are|was|were|has|have|had"
    r"|costs?|gets?|got|makes?|needs?|will|earns?|buys?|bought|pays?|sold|sells?|ate|eats?)\b"
)
_PREDICATE = expression(
    r"(?i)\b(?:is|are|equals?|leaves|gives|yields|makes|totals|costs?|weighs?|holds?|lasts?|will\s+[a-z]+)(?:\s+us)?\s+(?:(?:a|an|the)\s+(?:remainder|total|sum|result)\s+of\s+)?"
    r"(?:(?:about|approximately|exactly|only|just|then|therefore)\s+)?(?=[-+$€£\\]{0,2}\d)|[a-z\d]:\s+(?=[-+$€£\\]{0,2}\d)"
)
_SUBJECT = expression(r"(?i)\s{0,3}(?:[a-z]+\s+)?(?:is|are)\s+(?:the|our|my|what)\b")
_CLAUSE_BEFORE = expression(rf"(?i)\A(?:(?!\b(?:when|if|that|which|who|where)\b).)*?{_FINITE}", re.DOTALL)
_JUDGES = expression(
    r"(?i)\A\W*(?:(?:so|thus|therefore|hence),?\s+)?(?:the\s+(?:number|integer|value)\s+)?[-+]?[\d.,/]*\d\s+(?:is|are)\s+"
    r"(?:(?:not|indeed|also|clearly|definitely|in fact|both|neither|an?|the)\s+)*"
    r"(?:prime|composite|even|odd|divisible|multiple|factor|divisor|perfect|square|cube|triangular|palindrom\w+|greater"
    r"|less|larger|smaller|bigger|positive|negative|(?:ir)?rational|integer|whole|natural|real|(?:co|relatively )prime"
    r"|(?:in)?correct|true|false|possible|impossible)\b"
    r"|\A\W*(?:yes|no|true|false|correct|incorrect|indeed)\b[,.:;!\s]"
)
"""A sentence that judges a number, "11 is prime", or answers a question with yes or no: it states no value."""

_OPEN = expression(r"[?:]\s*\Z")


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
        if _OPEN.search(sentence):
            return None
        if _is_one_of_several_rows(sentences, index):
            return None
        sentence = _without_adjunct(ASIDE.sub("", sentence))
        found = _readings(sentence, language)
        last = index == len(sentences) - 1
        if last and not ended and (not found or word_count(sentence[found[-1].end :].partition(",")[2]) > 2):
            return None  # cut off by a limit on tokens
        if found and not any(character.isdigit() for character in sentence):
            found = found if CONCLUSION.search(sentence) or len(sentences) == 1 else []
        if found:
            return _concluded(sentence, found, "\n".join(sentences[:index]), language)
        if CORRECTION.match(sentence) or NEGATION.match(sentence):
            return None
    return None


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
    return not CONCLUSION.search(sentences[index]) and last_result(sentences[index]) is None


def _without_adjunct(sentence: str) -> str:
    """Return a sentence with blanks for what stands before its main clause: "In 10 years, Anna will be 35."."""
    fronted = _FRONTED.match(sentence)
    if fronted is None or CONCLUSION.search(fronted["adjunct"]) or not re.search(r"\d", sentence[fronted.end() :]):
        return sentence
    start = fronted.start("adjunct")
    return sentence[:start] + " " * (fronted.end() - start) + sentence[fronted.end() :]


def _solutions(main: str) -> str | None:
    """Return the list that a sentence gives as solutions: "the roots are 2 and 3", "x = 2 or x = 3"."""
    found = _SOLUTIONS.search(main.rstrip(" .*"))
    listed = found and (found["list"] or found["cases"])
    return (
        None
        if not listed or not re.search(r"\d", listed) or is_prose(re.sub(r"\b(?:and|or)\b", ",", listed))
        else listed.strip()
    )


def _is_unsolved(main: str, found: list[Amount]) -> bool:
    """Return whether a sentence has several assignments, or an equation that does not name its number."""
    if _SOLVED.search(main):
        return False
    named = {match[0][0] for match in _ASSIGNMENT.finditer(main)}
    combined = _COMBINED.search(main)
    if combined and len(named) > 1 and named.issuperset(re.findall(r"[A-Za-z]", combined[1])):
        return False
    assigned = {match[1] for match in _ASSIGNMENT.finditer(main)}
    return len(assigned) > 1 or any(_UNSOLVED.search(main[: amount.start]) for amount in found)


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, formulas whole, without blank ones."""
    formulas = [math.span() for math in MATH.finditer(text)]
    parts, start = [], 0
    for end in SENTENCE_END.finditer(text):
        if not any(first < end.start() < last for first, last in formulas):
            parts.append(text[start : end.end()])
            start = end.end()
    parts.append(text[start:])
    return [part.strip() for part in parts if any(character.isalnum() for character in part)]


def _readings(sentence: str, language: str) -> list[Amount]:
    """Return the amounts of a sentence and the formulas that are more than a name."""
    pair = _PAIR.search(sentence) or (_RATIO.search(sentence) if "ratio" in sentence else None)
    if pair and not MATH.search(sentence):
        around = amounts(sentence[: pair.start()], language=language) + _shifted(
            amounts(sentence[pair.end() :], language=language), pair.end()
        )
        return sorted([*around, Amount(pair.start(), pair.end(), pair[0], None)], key=lambda amount: amount.start)
    found: list[Amount] = []
    position = 0
    for math in MATH.finditer(sentence):
        if math.start() < position:
            continue  # joined to the one before
        found += _shifted(amounts(sentence[position : math.start()], language=language), position)
        content = next(group for group in math.groups() if group is not None)
        if re.search(r"\d|\\[a-z]", content) and not is_prose(content):
            shown = whole_formula(sentence, math)
            form = canonical(shown)
            found.append(Amount(math.start(), math.start() + len(shown), shown, form.number))
            position = found[-1].end
        else:
            position = math.end()
    found += _shifted(amounts(sentence[position:], language=language), position)
    return _with_spelled(found, amounts(sentence, language=language, spelled=True))


def _with_spelled(found: list[Amount], spelled: list[Amount]) -> list[Amount]:
    """Return amounts in digits with those in words beside them, but for "two of the 42" and "the two boys"."""
    rivals = [
        amount
        for amount in spelled
        if amount.number
        and abs(amount.number.value * amount.number.scale) > 2
        and all(amount.end <= other.start or other.end <= amount.start for other in found)
    ]
    return sorted([*found, *rivals], key=lambda amount: amount.start) if found else spelled


def _shifted(found: list[Amount], offset: int) -> list[Amount]:
    return [Amount(amount.start + offset, amount.end + offset, amount.text, amount.number) for amount in found]


def _concluded(sentence: str, found: list[Amount], worked: str, language: str) -> str | None:
    """Return what a closing sentence states, see ``closing``."""
    if any(words.search(sentence) for words in (UNDETERMINED, TAKEN_BACK, OTHERWISE)):
        return None
    corrected = CORRECTION.search(sentence)
    if corrected:
        kept = without_denied(sentence[corrected.end() :], "", language)
        return only([amount for amount in found if amount.start >= corrected.end()] if kept is None else kept)
    if _JUDGES.search(sentence):
        return None
    share = _share(sentence, found)
    if share:
        return share
    cause, contrast = CAUSE.search(sentence), CONTRAST.search(sentence)
    main = sentence
    for cut in (cause, contrast, _WHEN.search(sentence)):
        if cut and any(amount.end <= cut.start() for amount in found):
            main = main[: cut.start()]
    whole = WHOLE.search(main)
    if whole:
        inside = whole.end() - len(whole[0].strip())
        found = [amount for amount in found if amount.end <= inside or amount.start >= whole.end()] or found
    because = worked_out(sentence[cause.end() :]) if cause and cause.start() >= len(main) else None
    found = [amount for amount in found if amount.end <= len(main) and not is_operand(sentence, amount)]
    if because is not None and found and because != found[-1].value:
        return None
    solved = _SOLVED.search(main)
    if solved and found and found[-1].start > solved.start():
        return found[-1].text
    listed = _solutions(main) or _solutions(main.replace("$", ""))
    if listed:
        return listed
    exact = EXACT.search(main)
    if exact and not _ROUNDED.search(main, exact.end()):
        return exact[0]
    result = last_result(main)
    if result:
        return _of_calculation(main, found, result)
    if not found or _is_unsolved(main, found) or HYPOTHETICAL.search(main) or _IMPERATIVE.match(main):
        return None
    equals = main.rfind("=")
    equal = only([amount for amount in found if amount.start > equals]) if equals >= 0 else None
    if equal:
        return equal
    denied = without_denied(main, "", language)
    if denied is not None:
        return only(denied)
    if IN_DOUBT.search(main) or QUALIFIED.search(main) or (NEGATION.search(main) and not SO.search(main)):
        return None
    new = _new(main, found, language) if "=" not in sentence[len(main) :] else found
    return _of_plain_words(main, found, new, worked, language)


def _share(sentence: str, found: list[Amount]) -> str | None:
    """Return the fraction that a sentence gives for a part of a whole: 3/8 of "3 out of 8, i.e. 3/8"."""
    for part, whole, share in zip(found, found[1:], found[2:], strict=False):
        numbers = [amount.value for amount in (part, whole, share) if isinstance(amount.value, Fraction)]
        if len(numbers) == 3 and numbers[0] == numbers[1] * numbers[2]:
            said = list(RESULT_WORDS.finditer(sentence, whole.end, share.start))
            if said and share.start - said[-1].end() <= 2 and "of" in sentence[part.end : whole.start].split():
                return share.text
    return None


def _of_calculation(main: str, found: list[Amount], result: tuple[int, int]) -> str | None:
    """Return the result of a sentence's calculation or what it is rounded to; None where other numbers follow."""
    later = [amount for amount in found if amount.start >= result[1] and not _GIVEN.search(main[: amount.start])]
    if later:
        drawn = SO.search(main, result[1], later[0].start) or RESULT_WORDS.search(main, result[1])
        rounded = _ROUNDED.search(main, result[1], later[0].start)
        if rounded or (drawn and rounds(later[0].value, worked_out(main[: result[1]]))):
            return only(later)
    known = {amount.value for amount in found if amount.start < result[1]}
    if {amount.value for amount in later} - known:
        return None
    number = next((amount for amount in found if amount.start >= result[0] - 1), None)
    return number.text if number and number.start <= result[1] else main[slice(*result)].strip()


def _new(main: str, found: list[Amount], language: str) -> list[Amount]:
    """Return the amounts that a sentence does not take as given ("the 16 glasses"), nor as a name, a part or a year."""
    new = [
        amount
        for amount in found
        if not _GIVEN.search(main[: amount.start])
        and not is_label(main[: amount.start], language)
        and not _OF_THESE.match(main, amount.end)
        and not (_COMPARED.match(main, amount.end) and main[: amount.start].rstrip().endswith(","))
        and not (_YEAR.fullmatch(amount.text) and _IN_YEAR.search(main[: amount.start]))
    ]
    # In "Apollo 11 landed in 1969.", the first word may be half of a name.
    return found if any(_FIRST_WORD.fullmatch(main, 0, amount.start) for amount in new) else new


def _of_plain_words(main: str, found: list[Amount], new: list[Amount], worked: str, language: str) -> str | None:
    """Return the amount that a sentence without a calculation states, None where it may be another."""
    said = list(RESULT_WORDS.finditer(main))
    behind = [amount for amount in found if said and 0 <= amount.start - said[-1].end() <= 2]
    if behind and not is_computed_with(main, behind[0]):
        return behind[0].text
    worth = worked_out(worked)
    predicate = _of_predicate(main, found)
    if predicate and (worth in (None, predicate.value) or CONCLUSION.search(main, predicate.end)):
        return predicate.text
    values = {amount.value for amount in found}
    if (len(values) > 1 and goes_on(main, found[0].end)) or any(is_computed_with(main, amount) for amount in found):
        return None
    if len(values) > 1:
        so = list(SO.finditer(main))
        after = [amount for amount in found if so and so[-1].start() and amount.start >= so[-1].end()]
        drawn = only(after) or only([amount for amount in after if amount in new])
        if drawn:
            return drawn
        if not only(new):
            return resolved(found, worked)
        found, values = new, {new[0].value}
    before = main[: found[0].start]
    if worth != found[0].value and _MULTIPLE.match(main, found[0].end) and not CONCLUSION.search(main):
        return None
    if is_bound(before) or (is_label(before, language) and worth != found[0].value) or is_function(before):
        return None
    if worth is None or worth in values or CONCLUSION.search(main) or rounds(found[-1].value, worth):
        return found[-1].text
    # A sentence that only repeats a number of the calculation right before it adds nothing to its result.
    before = worked.rpartition("\n")[2]
    same = [amount for amount in amounts(before, language=language) if amount.value == worth]
    repeated = last_result(before) and values <= {amount.value for amount in amounts(before, language=language)}
    return same[-1].text if same and repeated else None
