r"""The final answer of a response: what it states, found by the first of these rules that finds something.

1.  ``boxed``: the last ``\boxed{…}`` with balanced braces. Boxes that follow each other as a list
    (``\boxed{2} and \boxed{3}``) are one answer, ``2, 3``. A number or formula that a "final answer is" states
    after the last box wins over it: the box was a step on the way; so does a letter, where one is wanted.
2.  ``tagged``: what stands between the last ``<answer>`` and ``</answer>``, or is the ``answer`` or ``final_answer`` of
    a JSON object that ends the response.
3.  ``hash``: what follows the last ``####`` on its line (GSM8K's references), unless it is a heading's prose.
4.  ``answer_line``: the last line that begins with ``A:`` (GSM8K's model solutions), unless it is prose.
5.  ``answer_is``: what follows the last "answer is", "Final Answer:", "La respuesta es", "答案是" (``markers`` has the
    languages), unless a whole solution follows.
6.  ``choice`` (only if the question is a multiple choice): the letter that the response chooses.
7.  ``verdict``: the yes, no, true or false that the response begins with, unless a number or formula is wanted.
8.  ``whole``: the complete response, or what stands before an explanation or a check, when it is nothing but a number,
    letter, expression, words or (before rule 2) an answer that the question knows; else a last line that is
    nothing but a number or expression, or words behind a line that ends with a colon.
9.  ``closing``: what the last sentences come to, see ``sentences``, or the one thing in bold in the last line.

Rules 5 and 9 take the result of what is worked out (7 of "3 + 4 = 7 apples in total"). What they cannot read for
sure is no answer: a range, a denial, a supposition, two numbers of which nothing tells which is meant. A next question
that a model goes on with is not read; nor is its reasoning, see ``text``. Time is linear in the response's length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tokur_cli.answers import sentences
from tokur_cli.answers.canonical import NUMBERED_NAME, boxes, canonical, name_of
from tokur_cli.answers.markers import ENGLISH, NO, SO, YES, language_of, markers
from tokur_cli.answers.text import plain, without_reasoning
from tokur_cli.records.record import as_text

AnswerType = Literal["choice", "verdict", "value", "words"]
"""What a question asks for, as its reference tells: a letter, yes or no, a number or formula, other words."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """An answer as it stands in the response, in plain writing, and the rule that found it; ``pattern`` is a user's."""

    text: str
    rule: str


_LONGEST_STATEMENT, _LONGEST_NAME, _TAIL = 2_000, 200, 4_000
_OBJECT = re.compile(r'\{\s*"')
_LATEX = re.compile(  # a command's backslash that is not escaped in JSON
    r'(?<!\\)\\(?=[bfrt][a-z]|n(?:abla|eq?|u|ot|mid)\b|[^bfnrtu"\\/]|u(?![0-9a-fA-F]{4}))'
)
TAGGED = re.compile(r".*<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_AFTERWORD = re.compile(  # what follows an answer and states none
    r"(?i)\n\W{0,9}(?:(?:(?:(?:let's|let us|let me|we can) )?(?:(?:double|sanity|quick|final)[- ])?(?:check|verify)"
    r"(?: (?:this|it|that|(?:our|the|my) (?:answer|solution|result)))?(?: by [^\n:,]{0,60})?|verification"
    r"|note|tip|confidence|(?P<why>explanation|reasoning|(?:here's the )?breakdown|proof)|probe"
    r"|vérification|comprobación|verifica|проверка|(?:验算|验证|检验|检查)(?!(?s:.{0,300})(?:故(?!事)|舍去))|検算)\b[^\n]{0,20}[:：\n]"
    r"|to (?:double[- ])?(?:check|verify)\b[^\n]{0,20}[,:\n])"
)
_NEXT_QUESTION = re.compile(
    r"(?im)^[ \t]{0,8}(?:#{1,6}[ \t]{0,4})?(?:(?:next\s{1,3}|new\s{1,3}|another\s{1,3})?(?:question|problem|exercise"
    r"|example|instruction|human|user|q)\s{0,3}\d{0,3}\s{0,3}:|<\|(?:im_end|endoftext|eot_id)|(?:pregunta|frage"
    r"|pergunta|вопрос|задача|问题|問題|题目|문제)\s{0,3}\d{0,3}\s{0,3}:)"
)
_SUPPOSED = re.compile(
    r"(?i)\b(?:if|suppose|assum(?:e|ing)|whether|unless|wrong|incorrect|initial|original|previous|is to say"
    r"|(?:people|students|book|many|most|some) (?:say|think|believe)s?)\s+(?:that\s+)?(?:(?:the|my|our)\s+)?\Z"
)
_PLANNED = re.compile(r"(?im)(?:^|[.!?:]\s)\W*(?:to|in order to|before|let's|let me)\b(?:(?! that )[^.,!?:\n])*\Z")
_RULED_OUT = re.compile(r"(?i)\b(?:rul(?:e|es|ing) out|(?:eliminat|exclud|discard)(?:e|es|ing|s)?)\b[^,]*\Z")
_OF_A_NAME = re.compile(r"(?i)(?:\d|\b(?:vitamin|hepatitis))\s\Z")  # "vitamin C" and "3 A" choose no letter
_CHOSEN = re.compile(  # what chooses the letter behind it
    r"(?i)(?<![A-Za-z])(?:answer|choos\w*|pick\w*|select\w*|go(?:ing)? with|it's|it is|is|be|correct\w*|take|leaves)"
    r"\W*(?:(?:option|choice)\b)?\W*\Z"
)
_CALLED_CORRECT = re.compile(
    r"(?i)\)?[*_\"]{0,4}\s{0,3}(?:is|was|must be|would be|should be|has to be|seems)\s+(?:[a-z]+\s+){0,2}?"
    r"(?:right|correct|best|only (?:answer|choice|option|one)|answer|better|plausible|likely|accurate|appropriate)\b"
    r"|\)?\s+it is\b"
)
_CLAUSE = re.compile(r"(?i),?\s+(?=(?:but|so|therefore|hence)\b)|;\s")
_VERDICT = "|".join(sorted(map(re.escape, [*YES, *NO]), key=len, reverse=True))
_OPENING = re.compile(
    rf"\A[\s*_#\"'>]*(?:(?:most likely|likely|probably|a (?:definite|clear))\s)?(?P<word>{_VERDICT})(?=\s*[*_]*\s*"
    r"(?:[,.!:;–—]|-\s|$|\n)|\s\(|\s(?:it|he|she|they|there|this|that|we|you|i)\b)",
    re.IGNORECASE,
)
_ONLY_BOLD = re.compile(  # but no item of a list
    r"(?!\s*(?:[-•]|\d+[.)])\s+\*\*)[^*\w]*(\w[^*]*)?(?<!\d and )\*\*(?!\d+\.\*)([^*:?]+?)[.!]?\*\*"
    r"(?(1)(?!\s(?:is|was|are|ist|est)\s[A-Z\d]))"  # "the author of **Hamlet** is William Shakespeare"
    r"(?!\s?(?:[-–—~±%:]|to\b|or\b|out of)|[^*,=:;<>]*[,=:;<>][^*]*\d)(?:[^*]*[.!)。])?"
)
_LEAD = re.compile(r"(?i)\A\W*(?:(?:so|thus|therefore|hence|conclusion)\b\W*)?(?:th(?:e|is|at)\s(?:\w+\s)?is\W+)?")
_OPEN = re.compile(r"(?i)\b(?:if|when|unless|provided)\b|\b(?:and|or)\s+(?:yes|no)\b")  # leaves a verdict open


def extract_answer(response: str, *, wanted: AnswerType | None = None, names: Iterable[str] = ()) -> Extraction | None:
    """Return the final answer of a response, or None where it gives none that can be read for sure.

    Args:
        response: the response's text.
        wanted: what the question asks for, where its reference tells, see ``wanted_by``.
        names: answers that the question knows; of those that are no mere numbers, one that is all that is said is read.
    """
    text = without_reasoning(response)
    said = _of_json(text)
    text = plain(text if said is None else f"<answer>{said}</answer>")
    told = [name for name in names if canonical(name).kind in ("words", "expression")]
    known = frozenset({*map(name_of, told), *(canonical(name).text for name in told)} - {""})
    for line in _NEXT_QUESTION.finditer(text, 0, _LONGEST_STATEMENT):  # with which a model goes on once it has answered
        if found := _read(text[: line.start()], wanted, known):
            return found
    found = _read(text, wanted, known)
    emphasised = _emphasised(without_reasoning(response), wanted) if found is None or found.rule == "closing" else None
    return emphasised if emphasised and (wanted == "words" or not found) else found


def _emphasised(text: str, wanted: AnswerType | None) -> Extraction | None:
    """Return the one thing that is bold in a text's last line, where that may be the answer and nothing doubts it."""
    bold = _ONLY_BOLD.fullmatch(line := text.rstrip().rpartition("\n")[2])
    said = plain(bold[2]) if bold and not language_of(line).is_unsure(plain(line)) else ""
    is_value = wanted in (None, "value") and re.search(r"[\d\\]", said) and sentences.is_answer_alone(said)
    is_name = wanted == "words" and not said[:1].islower() and 0 < sentences.word_count(said) <= 5
    return Extraction(said, "closing") if is_value or is_name else None


def _known_as(said: str, known: frozenset[str]) -> str | None:
    """Return what is said, without what marks it up, where it is a name that is known."""
    is_known = known and len(said) <= _LONGEST_NAME and not known.isdisjoint((name_of(said), canonical(said).text))
    return said.lstrip("#*_>: \n").rstrip("*_. \n") if is_known else None


def _of_json(text: str) -> str | None:
    """Return what a JSON object that ends a text without a box, perhaps in a fence, has as its answer."""
    text = text.rstrip(" \n`")
    begins = [begin.start() for begin in _OBJECT.finditer(text)] if text.endswith("}") else []
    for begin in dict.fromkeys([*begins[:1], *begins[-1:]]):
        with suppress(ValueError, RecursionError):
            fields = json.loads(_LATEX.sub(r"\\\\", text[begin:]), strict=False)
            named = {name.lower().replace("_", " "): as_text(value) for name, value in fields.items()}
            if isinstance(said := named.get("final answer", named.get("answer")), str) and "boxed" not in text[:begin]:
                return said
    return None


def _read(text: str, wanted: AnswerType | None, known: frozenset[str] = frozenset()) -> Extraction | None:
    """Return the answer of a text in plain writing, which has one question's answer alone."""
    boxed, end = boxes(text)
    if boxed:
        return _boxed(text, boxed, end, wanted)
    before = _AFTERWORD.split(text, maxsplit=1)[0] if known else text
    if whole := _known_as(text, known) or _known_as(before, known):
        return Extraction(whole, "whole")
    marked = _marked_up(text, wanted, known) or _after_marker(text, wanted, known)
    if marked and marked.text:
        return marked
    if wanted == "choice" and (letter := _chosen_letter(text)):
        return Extraction(letter, "choice")
    last = (text.rstrip().rpartition("\n")[2], sentences.SENTENCE_END.split(text.rstrip("*_. \n"))[-1])
    said = (text, *(_LEAD.sub("", one) for one in last if wanted == "verdict"))
    verdict = next(filter(None, map(_opening_verdict, said)), None)
    if verdict or wanted == "verdict":
        return Extraction(verdict, "verdict") if verdict and wanted != "value" else None
    return None if marked or sentences.UNDECIDED.match(text) else _unmarked(text, wanted)


def _boxed(text: str, boxed: str, end: int, wanted: AnswerType | None) -> Extraction | None:
    """Return a box's answer, or what stands behind the box that ends at ``end`` and is the answer in its place."""
    later = _after_marker(text[end:], wanted) if "final answer" in text[end:].lower() else None
    if later and later.text and canonical(later.text).kind != "words":
        return later
    if wanted == "choice" and canonical(boxed).kind != "choice" and (letter := _chosen_letter(text[end:])):
        return Extraction(letter, "choice")
    return _corrected(text[end:], Extraction(boxed, "boxed"), wanted)


def _unmarked(text: str, wanted: AnswerType | None) -> Extraction | None:
    """Return the answer of a text that announces none."""
    after = _AFTERWORD.search(text)
    goes_on = after and (SO.search(text, after.end()) or sentences.CORRECTION.search(text, after.end()))
    found = _unmarked(text[: after.start()], wanted) if after and not goes_on else None
    if after and found and (not after["why"] or (found.rule == "whole" and "=" not in found.text)):
        return found
    text = text.strip()
    before, _, line = text.rpartition("\n")
    line = line.strip(" *_#>•\t").removeprefix("- ") if before else text
    kind = canonical(line).kind
    may_be_words = before.rstrip(" *_\n").endswith(":") if before else wanted != "value"
    is_wanted = may_be_words if kind == "words" else kind != "choice" or not before
    if is_wanted and sentences.is_answer_alone(line) and line[-1] not in ":?":
        return Extraction(line, "whole")
    return Extraction(concluded, "closing") if (concluded := sentences.closing(text)) else None


@lru_cache(maxsize=1024)
def reference_answer(reference: str) -> str | None:
    r"""Return the answer that a reference gives, or None where it gives none.

    A worked solution (``####``, ``\boxed{}``, several paragraphs) and a statement ("the answer is") are read like a
    response; all else is the answer.
    """
    text = reference.strip()
    is_solution = len(text) > 200 or any(sign in text for sign in ("boxed", "####", "\nA:", "\n\n"))
    if (is_solution or markers(text)) and (found := extract_answer(text)) and re.search(r"\w", found.text):
        return found.text
    return text or None


@lru_cache(maxsize=1024)
def wanted_by(reference: str | None) -> AnswerType | None:
    """Return what a question wants; only its reference can tell."""
    if (gold := reference_answer(reference or "")) is None:
        return None
    form = canonical(gold)
    is_name = form.kind == "expression" and sentences.is_prose(gold) and not re.search(r"[\\=<>^+*$\d]", gold)
    if is_name or form.kind == "words" or NUMBERED_NAME.fullmatch(form.text):
        return "verdict" if form.text in ("yes", "no", "true", "false") else "words"
    return "choice" if form.kind == "choice" else "value"


def wanted_of(references: Sequence[str]) -> AnswerType | None:
    """Return what a question with several right answers wants: a letter where one is one, else what all tell."""
    wanted = {wanted_by(reference) for reference in references}
    return "choice" if "choice" in wanted else wanted.pop() if len(wanted) == 1 else None


def _marked_up(text: str, wanted: AnswerType | None, known: frozenset[str]) -> Extraction | None:
    """Return the answer that a tag, ``####`` or a line with ``A:`` marks."""
    if (tagged := TAGGED.match(text)) and (inside := tagged[1].strip()):
        found = None if wanted in (None, "words") else _read(inside, wanted)
        return Extraction(found.text if found else inside, "tagged")
    lines = "\n" + text
    lists_choices = wanted == "choice" and "\nB:" in text
    for mark, rule in (("####", "hash"), ("\nA:", "answer_line")):
        behind = lines.rpartition(mark)[2].strip() if mark in lines else ""
        line = behind.partition("\n")[0].rstrip()
        is_heading = rule == "hash" and canonical(line).kind == "words" and (wanted == "value" or behind != line)
        is_heading = is_heading and not _known_as(line, known)
        if not is_heading and sentences.is_answer_alone(line) and not (rule == "answer_line" and lists_choices):
            return Extraction(line, rule)
    return None


def _after_marker(text: str, wanted: AnswerType | None, known: frozenset[str] = frozenset()) -> Extraction | None:
    """Return what follows the last marker, without a text where that cannot be read; None where a solution follows."""
    for marker, language in reversed(markers(text)):
        start, end = marker.span()
        leads = marker[0].rstrip(" ")[-1] in ":\n"  # "To find the answer, let's see what is known." does not
        is_planned = not leads and "," in marker[0] and _PLANNED.search(text, max(0, start - 80), start)
        if is_planned or not text[end : end + 40].strip() or _SUPPOSED.search(text, max(0, start - 40), start):
            continue
        if wanted == "verdict" and (verdict := _opening_verdict(text[end:])):
            return Extraction(verdict, "answer_is")
        first, _, rest = text[end:].lstrip().partition("\n")
        if (name := _known_as(first.rstrip(), known)) and not language.is_unsure(marker[0]):
            return _corrected(rest, Extraction(name, "answer_is"), wanted)
        following = language.with_points(text[end : end + _LONGEST_STATEMENT])
        answer, behind = sentences.stated(following, language, text[:start], marker[0], wanted) or ("", 0)
        is_words = sentences.is_prose(answer) and canonical(answer).number is None and not re.search(r"[\d\\]", answer)
        is_read = answer and not (wanted == "value" and is_words)  # "fünfundzwanzig" is no number that we could compare
        # "Answer: First, we add …" announces a solution, whose first sentence does not hold the answer.
        is_name = wanted == "words" and sentences.word_count(answer) <= 8
        is_short = sentences.word_count(first) <= 12 and (is_name or sentences.is_answer_alone(answer))
        if leads and not (is_read and (is_short or canonical(answer).kind == "choice")):
            return None
        return _corrected(following[behind:], Extraction(answer if is_read else "", "answer_is"), wanted)
    return None


def _corrected(rest: str, found: Extraction, wanted: AnswerType | None) -> Extraction:
    """Return what an answer is corrected to by the text behind it: itself where it is not."""
    lead = rest.lstrip(" \n*_\"'(.,;$")
    is_check = re.search(r"(?i)\bcheck|\bverif", lead[:60]) and not SO.search(lead)
    if is_check or not sentences.CORRECTION.match(lead):
        return found
    corrected = _chosen_letter(rest) if wanted == "choice" else sentences.closing(rest)
    return Extraction(corrected, found.rule) if corrected else found


def _chosen_letter(text: str) -> str | None:
    """Return the letter that a text chooses, or None where it chooses none or several.

    A clause that denies or doubts chooses none; a text with one letter in its other clauses chooses that.
    """
    text = text[-_TAIL:]
    *before, last = map(canonical, text.rstrip().split("\n")[-2:])
    if last.kind == "choice" and last.beside is None and all(one.kind != "choice" or one.beside for one in before):
        return last.text
    said = [sentence for sentence in sentences.SENTENCE_END.split(text) if sentence.strip()]
    if text.rstrip().endswith(("?", ":")) or sentences.is_cut_off(text):
        del said[-1:]
    named: set[str] = set()
    for sentence in reversed(said):
        language = language_of(sentence)
        for clause in reversed(_CLAUSE.split(sentences.main_clause(sentence, language))):
            if language.is_unsure(clause):
                continue
            chosen: set[str] = set()
            for letter in sentences.LETTER_OF_CHOICE.finditer(clause):
                name, place = letter[1] or letter[2], letter.start()
                if _RULED_OUT.search(clause, 0, place) or (letter[2] and _OF_A_NAME.search(clause, 0, place)):
                    continue
                named.add(name)
                is_chosen = _CHOSEN.search(clause[: letter.start()]) or _CALLED_CORRECT.match(clause, letter.end())
                if is_chosen and not sentences.UNDECIDED.match(clause, letter.start()):
                    chosen.add(name)
            if len(chosen) == 1:
                return chosen.pop()
    return named.pop() if len(named) == 1 else None


def _opening_verdict(text: str) -> str | None:
    """Return the word by which a text decides at its beginning, the "No" of "No, 9 is divisible by 3.", or None."""
    first = _OPENING.match(text)
    if first is None or sentences.CORRECTION.match(text[first.end() :].lstrip(" ,.!")):
        return None
    language = language_of(text[:_TAIL])
    rest = sentences.SENTENCE_END.split(text[first.end() : _TAIL], maxsplit=1)[0]
    is_unsure = language is not ENGLISH and first["word"].lower() in YES and language.is_unsure(rest)
    return None if is_unsure or _OPEN.search(rest) else first["word"]  # "Ja, aber nur wenn …"
