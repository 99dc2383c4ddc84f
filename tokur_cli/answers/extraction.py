r"""The final answer of a response, found by the first of these rules that finds one.

1.  ``boxed``: the last ``\boxed{…}`` with balanced braces. Boxes that follow each other as a list
    (``\boxed{2} and \boxed{3}``) are one answer, ``2, 3``. A number or formula that a "final answer is" states
    after the last box (rule 4) wins over it: the box was a step on the way.
2.  ``hash``: what follows the last ``####`` on its line (GSM8K's references), unless it is a heading's prose.
3.  ``answer_line``: the last line that begins with ``A:`` (GSM8K's model solutions), unless it is prose.
4.  ``final_answer``: what follows the last "final answer is", "Final Answer:" or a heading of those words.
5.  ``answer_is``: what follows the last "answer is", "answer =", or "answer:" (unless a whole solution follows).
6.  ``open_box``: the rest of the line after a ``\boxed{`` that the response never closes.
7.  ``choice`` (only if the question is a multiple choice): "option C", "(C)", a leading "C.", the last lone capital.
8.  ``whole``: the complete response, when it is nothing but a number, a letter, an expression or up to three words.
9.  ``last_expression``: the last number or LaTeX formula, whichever ends later.

Rules 4 and 5 take the result of what is worked out (7 of "3 + 4 = 7 apples in total").
A response without any of these has no answer. Time is linear in the response's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tokur_cli.answers.canonical import canonical

ExtractionRule = Literal[
    "tagged",
    "boxed",
    "hash",
    "answer_line",
    "final_answer",
    "answer_is",
    "open_box",
    "choice",
    "whole",
    "last_expression",
]
"""``tagged`` is of Reasoning Gym's rows alone, see ``rules.gym``."""

_FINAL: ExtractionRule = "final_answer"
_PLAIN: ExtractionRule = "answer_is"


@dataclass(frozen=True, slots=True)
class Extraction:
    """An answer as it stands in the response, and the rule that found it."""

    text: str
    rule: ExtractionRule


_LONGEST_SENTENCE = 2_000
_LONGEST_LIST_GAP = 100
_TAIL = 4_000

_BRACE = re.compile(r"\\{1,2}(?:boxed|fbox)\s{0,4}\{|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"\\boxed\s{1,4}([^\s{}$\\]{1,50})")
_LIST_GAP = re.compile(r"(?:[\s$,;]|\\[()\[\],;]|\\quad|\\qquad)*")
_LIST_WORD = re.compile(r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])")
_MARKER = re.compile(
    r"(?i)\b(final\s+)?answers?\b(?:[^\n.:=]{0,60}?\b(?:is|are)\b(?!n)|[^\n.:=]{0,40}?[:=]|[*#_\s]*\n)"
)
_CLOSING_WORDS = re.compile(r"\.?\s*I hope (?:it|this) is correct.*", re.DOTALL | re.IGNORECASE)
_LEADING_MARKS = re.compile(r"\A(?:[\s:*#_\"']|\\\")*")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_STATED = re.compile(r"(?:\b(?:is|are|be|equals?|of)\b|=)\s*(?=\S)")

_SIGN = r"(?<![\w.)\]}%])[-−]?\s?[$€£¥₹]?\s?[-−]?|[$€£¥₹]"
_DIGITS = (
    r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?!\d)|\d+)?(?:(?<=\d)[.,]\d+|(?<!\d)\.\d+)?"
)
_NUMBER = re.compile(
    rf"(?:{_SIGN})(?<![A-Za-z_])(?=[\d.]){_DIGITS}(?<=\d)"
    rf"(?:[eE][+-]?\d+(?!\w)|:\d\d(?!\d)|\s?/\s?\d+(?:\.\d+)?|\s?(?:\\?%|percent\b))?"
)
_MATH = re.compile(
    r"\$\$([^$]{1,1500})\$\$|\\\[(.{1,1500}?)\\\]|\\\((.{1,1500}?)\\\)"
    # "$12 + $4" and "$12 = $ 12" are money.
    r"|(?<![\\$\d])\$(?!\$)([^$\n]{1,300})(?<!\\)(?<![-+*/=])(?<![-+*/=]\s)\$(?!\d)",
    re.DOTALL,
)
# "7 boxes * 9 cookies / box = " in front of what a calculation comes to: amounts, each with a link to the next.
_AMOUNT = re.compile(
    rf"(?<![\w.)\]}}])(?:[-−]\s?)?(?:\\?[$€£¥₹]\s?)?(?=[\d.]){_DIGITS}(?<=\d)(?:\^\d+|[²³]|\s?(?:\\?%|percent\b))?"
    r"|\([-−+*/×÷\d\s.,$%]*\d[-−+*/×÷\d\s.,$%]*\)"
)
_LINK = re.compile(
    r"(?:(?<=%)|(?<=/\d)|(?<=percent))\sof\s(?:the\s)?|"
    r"(?:\s?/?\s?(?!(?:because|since|as|so|if|when|where|and|or|but|which|that|is|are|equals?|plus|minus|times|x|for|with)\b)"
    r"[A-Za-z]+\b\.?){0,4}\s*"
    r"(?:(?P<equals>=|(?:is\s)?equals?(?:\sto)?\b)|[-−+*/×·÷^]|x(?=\s*[\d(.$€£])|(?=\()"
    r"|(?:plus|minus|times|divided\sby|multiplied\sby)\b)\s*"
)
_TERM = (
    r"(?=[\d.√π\\]|sqrt|pi\b|[A-Za-z]\b)(?:[\d.,]*\d)?"
    r"(?:\s?(?:√|\\?sqrt)\s?(?:\d+|\{[^{}]*\}|\([^()]*\))|\s?\\?(?:π|pi\b)|\\frac\{[^{}]*\}\{[^{}]*\}"
    r"|(?!a\s)[A-Za-z](?![A-Za-z']))?(?<![\s=*/])"
    r"(?:\^(?:\{[^{}]*\}|-?[\dA-Za-z]+)|[²³])?"
)
_FORMULA = re.compile(
    rf"[(\[][^()\[\]]*\d[^()\[\]]*[)\]]|(?:[A-Za-z]\([a-z]\)\s*=\s*)?(?:[-−]\s?)?{_TERM}(?:\s*[-−+*/×=]\s*{_TERM})*"
)
_ASSIGNED = re.compile(r"[A-Za-z](?:\([a-z]\))?\s*=\s*")
_EQUALS = re.compile(r"\s*=\s*(?=\S)")
_JOINT = re.compile(r"\s*(?:,?\s*(?:and|or)|,)\s*")
_UNIT_WORD = re.compile(r"\s?(?:\\?%|percent\b|pct\b|[A-Za-z]+\b)")
_PROSE = re.compile(
    r"(?<![\\A-Za-z\d])(?:(?!(?:sin|cos|tan|log|exp|mod|and|pmod)\b)[A-Za-z]{3,}"
    r"|(?i:so|is|it|we|he|in|of|to|at|by|on|as|be|if|an|my|no|up)\b)"
)
_TEXT_GROUP = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox|operatorname)\s*\{[^{}]*\}|\\begin\{\w+\}|\\end\{\w+\}")

_CHOICES = (
    re.compile(r"(?i:\b(?:option|choice|answer)\b)[\s:*]*\(?([A-J])\b\)?"),
    re.compile(r"\A\W{0,4}([A-J])[).:](?=\s|\*|$)"),
    re.compile(r"\(([A-J])\)"),
    re.compile(r"(?<![A-Za-z'$\\])([A-J])(?![A-Za-z'$])"),
)
_LEADING_CHOICE = re.compile(r"\(?([B-HJ]|A(?!\s+[a-z]))\b\)?(?=[\s.,:;)*]|$)(?!\s*[=<>])")


def extract_answer(response: str, *, choices: bool = False) -> Extraction | None:
    """Return the final answer of a response, or None where it gives none.

    Args:
        response: the response's text.
        choices: whether the question is a multiple choice, whose answer is a capital letter.
    """
    boxed, open_box, end = _boxes(response) if "boxed" in response or "fbox" in response else ("", "", 0)
    if boxed:
        later = _after_marker(response[end:], choices, (_FINAL,))
        corrected = later is not None and canonical(later.text).kind != "words"
        return later if corrected else Extraction(boxed, "boxed")
    if "####" in response:
        text = _first_line(response[response.rindex("####") + 4 :])
        if _is_answer_alone(text):
            return Extraction(text, "hash")
    line = max(response.rfind("\nA:"), 0 if response.startswith("A:") else -1)
    if line >= 0:
        text = _first_line(response[line:].lstrip("\n")[2:])
        if _is_answer_alone(text):
            return Extraction(text, "answer_line")
    found = _after_marker(response, choices, (_FINAL, _PLAIN))
    if found:
        return found
    if open_box:
        return Extraction(open_box, "open_box")
    if choices:
        for pattern in _CHOICES:
            letters = pattern.findall(response)
            if letters:
                return Extraction(letters[-1], "choice")
    if _is_answer_alone(response):
        return Extraction(response.strip(), "whole")
    last = _last_expression(response[-_TAIL:])
    return Extraction(last, "last_expression") if last else None


def reference_answer(reference: object) -> str | None:
    r"""Return the answer that a reference gives, or None where it gives none.

    A worked solution (``####``, ``\boxed{}``, several lines) is read like a response; anything else is the answer.

    Args:
        reference: the field's value: a text or a number.
    """
    if isinstance(reference, bool) or not isinstance(reference, (str, int, float)) or reference != reference:
        return None
    text = str(reference).strip()
    if "boxed" in text or "####" in text or "\nA:" in text or len(text) > 200 or "\n\n" in text:
        found = extract_answer(text)
        if found:
            return found.text
    return text or None


@lru_cache(maxsize=1024)
def is_multiple_choice(reference: str | None) -> bool:
    """Return whether a question wants a letter; only its reference can tell."""
    gold = reference_answer(reference)
    return gold is not None and canonical(gold).kind == "choice"


def _first_line(text: str) -> str:
    return text[:_LONGEST_SENTENCE].strip().partition("\n")[0].strip()


def _boxes(text: str) -> tuple[str, str, int]:
    """Return the last balanced box (or list of boxes), what follows an open one, and where the balanced one ends."""
    opened: list[int] = []  # one entry an open brace: where its box begins, or -1 for other braces
    inner: list[int] = []
    spans: list[tuple[int, int, int]] = []  # (start, first character inside, closing brace)
    for token in _BRACE.finditer(text, max(0, min(_find(text, "\\boxed"), _find(text, "\\fbox")) - 1)):
        symbol = token[0]
        if symbol == "}":
            if opened:
                start, inside = opened.pop(), inner.pop()
                # A box around a box is dropped in favour of the inner one.
                if start >= 0 and not (spans and spans[-1][0] > start) and text[inside : token.start()].strip():
                    spans.append((start, inside, token.start()))
        elif symbol == "{" or len(symbol) > 2:
            opened.append(token.start() if symbol != "{" else -1)
            inner.append(token.end())
    if spans:
        return _join_list(text, spans), "", spans[-1][2] + 1
    bare = _BARE_BOX.search(text, max(0, text.rfind("\\boxed")))
    if bare:
        return bare[1], "", bare.end()
    boxes = [inside for start, inside in zip(opened, inner, strict=True) if start >= 0]
    rest = _first_line(text[boxes[-1] : boxes[-1] + _LONGEST_SENTENCE]) if boxes else ""
    return "", rest if any(character.isalnum() for character in rest) else "", 0


def _find(text: str, part: str) -> int:
    position = text.find(part)
    return position if position >= 0 else len(text)


def _join_list(text: str, spans: list[tuple[int, int, int]]) -> str:
    """Return the last box, joined with those right before it that belong to the same list."""
    first = len(spans) - 1
    while first > 0 and _belongs_together(text[spans[first - 1][2] + 1 : spans[first][0]]):
        first -= 1
    parts = [text[inside:end].strip() for _, inside, end in spans[first:]]
    return parts[0] if len(set(parts)) == 1 else ", ".join(parts)


def _belongs_together(gap: str) -> bool:
    """Return whether the text between two boxes makes them a list: none, a comma, or a few words with "and" or "or"."""
    if len(gap) > _LONGEST_LIST_GAP:
        return False
    if _LIST_GAP.fullmatch(gap) or not re.search(r"[\w\n=.]", gap):
        return "\n\n" not in gap
    words = _TEXT_GROUP.sub(lambda group: group[0].partition("{")[2].rstrip("}"), gap)
    return bool(_LIST_WORD.search(words)) and len(words.split()) <= 10 and not re.search(r"[.!?:](?:\s|$)|\n\n", words)


def _after_marker(response: str, choices: bool, rules: tuple[ExtractionRule, ...]) -> Extraction | None:
    """Return what follows the last marker of the first of ``rules`` that has one."""
    if "nswer" not in response and "NSWER" not in response:
        return None
    last: dict[ExtractionRule, re.Match[str]] = {}
    for marker in _MARKER.finditer(response):
        last[_FINAL if marker[1] else _PLAIN] = marker
    for rule in rules:
        if rule in last:
            end = last[rule].end()
            text = _stated(response[end : end + _LONGEST_SENTENCE], choices)
            # "Answer: First, we add …" announces a solution, whose first sentence does not hold the answer.
            announced = rule == _PLAIN and response[end - 1] in ":\n"
            line = _first_line(_LEADING_MARKS.sub("", response[end : end + _LONGEST_SENTENCE], count=1))
            if text and not (announced and canonical(text).kind != "choice" and not _is_answer_alone(line)):
                return Extraction(text, rule)
    return None


def _stated(following: str, choices: bool) -> str | None:
    """Return the answer at the start of what follows "the answer is"."""
    following = _CLOSING_WORDS.sub("", following)
    following = _LEADING_MARKS.sub("", following, count=1)
    math = _MATH.match(following)
    if math:
        equals = _EQUALS.match(following, math.end())
        return _stated(following[equals.end() :], choices) if equals else _whole_math_list(following, math)
    sentence = following.partition("\n")[0]
    end = _SENTENCE_END.search(sentence)
    sentence = (sentence[: end.start()] if end else sentence).strip(" *_\"'")
    sentence = _without_working(sentence)
    if not sentence:
        return None
    letter = _LEADING_CHOICE.match(sentence)
    if letter and (choices or len(sentence.split()) > 1):
        return letter[1]
    if canonical(sentence).kind in ("number", "choice") or not _is_prose(sentence):
        return sentence
    formula = _leading_formula(sentence)
    if formula:
        return formula
    stated = list(_STATED.finditer(sentence))
    if stated and not _is_prose(sentence[stated[-1].end() :]):
        return sentence[stated[-1].end() :].strip()
    return _last_result(sentence) or _last_expression(sentence) or (sentence if len(sentence.split()) <= 6 else None)


def _without_working(sentence: str) -> str:
    """Return a sentence with the result alone where it begins with a calculation, or with several that are a list."""
    name = _ASSIGNED.match(sentence)
    kept = name[0] if name else ""
    position = len(kept)
    while True:
        result, end, _ = _calculation(sentence, position)
        if result == position:
            return kept + sentence[position:]
        joint = _JOINT.match(sentence, end)
        position = joint.end() if joint else end
        kept += sentence[result:position]


def _calculation(text: str, start: int) -> tuple[int, int, bool]:
    """Return where the result of a calculation at ``start`` begins, where the calculation ends, and whether it is one.

    The result is the last amount that stands alone between ``=``: 7 in "3 + 4 = 7 apples", 20 in "20 = 4 * 5".
    """
    result = segment = end = start
    alone, operates, equates = True, False, False
    amount = _AMOUNT.match(text, start)
    while amount:
        end = amount.end()
        link = _LINK.match(text, end)
        amount = _AMOUNT.match(text, link.end()) if link else None
        if amount and link and not link["equals"]:
            alone, operates = False, True
            continue
        result = segment if alone else result
        if amount:
            segment, alone, equates = amount.start(), True, True
    return result, end, operates and equates


def _last_result(sentence: str) -> str | None:
    """Return the result of the last calculation in a sentence, such as the 7 of "he has 3 + 4 = 7 of the 9 apples"."""
    found = None
    amount = _AMOUNT.search(sentence)
    while amount:
        result, end, calculates = _calculation(sentence, amount.start())
        goes_on = sentence[: amount.start()].rstrip().endswith(("+", "-", "*", "/", "^"))  # 2x + 3 * 4 = 20
        if calculates and not goes_on:
            number = _AMOUNT.match(sentence, result)
            found = number[0] if number else None
        amount = _AMOUNT.search(sentence, end)
    return found


def _leading_formula(sentence: str) -> str | None:
    r"""Return the number or formula before prose: ``3\sqrt{2}`` of "3\sqrt{2} units", ``(3, 4)`` of "(3, 4) in all"."""
    number = _NUMBER.match(sentence)
    formula = _FORMULA.match(sentence)
    if formula and len(formula[0]) > (number.end() if number else 0):
        # "10 - 12 weeks" is not a difference, and "5x more" not a product.
        symbolic = re.search(r"[A-Za-z√π\\^²³(\[]", formula[0])
        if re.search(r"[-−+*/×=√π²³^,\\]", formula[0]) if symbolic else not re.search("[-−=]", formula[0]):
            return formula[0].strip()
    return number[0].strip() if number else None


def _whole_math_list(text: str, math: re.Match[str]) -> str:
    """Return a formula, with the formulas that ``and``, ``or`` or a comma join to it and the unit after it."""
    end = math.end()
    while True:
        joined = _JOINT.match(text, end)
        following = _MATH.match(text, joined.end()) if joined else None
        if following is None:
            break
        end = following.end()
    formula = text[math.start() : end]
    unit = _UNIT_WORD.match(text, end)
    number = canonical(formula + unit[0]).number if unit else None
    return formula + unit[0] if unit and number and (number.unit or number.scale != 1) else formula


def _is_prose(text: str) -> bool:
    return bool(_PROSE.search(_TEXT_GROUP.sub(" ", text)))


def _is_answer_alone(text: str) -> bool:
    """Return whether a text is an answer and nothing else: no prose but up to three words."""
    text = text.strip()
    if len(text) > 200 or "\n" in text or not any(character.isalnum() for character in text):
        return False
    if _MATH.fullmatch(text):
        return True
    kind = canonical(text).kind
    if kind == "words":
        return len(text.split()) <= 3
    return kind in ("number", "choice") or not _is_prose(text)


def _last_expression(text: str) -> str | None:
    """Return the last number or formula in a text, whichever ends later."""
    formula, end = None, 0
    for math in _MATH.finditer(text):
        content = next(group for group in math.groups() if group is not None)
        if re.search(r"\d|\\[a-z]", content) and not _is_prose(content):
            if formula is None or not _JOINT.fullmatch(text, end, math.start()):
                formula = math
            end = math.end()
    numbers = list(_NUMBER.finditer(text, end))
    if numbers:
        return numbers[-1][0].strip()
    if formula:
        return _whole_math_list(text, formula)
    return None
