r"""The final answer of a response: what it states, found by the first of these rules that finds something.

1.  ``boxed``: the last ``\boxed{…}`` with balanced braces. Boxes that follow each other as a list
    (``\boxed{2} and \boxed{3}``) are one answer, ``2, 3``. A number or formula that a "final answer is" states
    after the last box (rule 5) wins over it: the box was a step on the way; so does a letter, where one is wanted.
2.  ``tagged``: what stands between the last ``<answer>`` and ``</answer>``.
3.  ``hash``: what follows the last ``####`` on its line (GSM8K's references), unless it is a heading's prose.
4.  ``answer_line``: the last line that begins with ``A:`` (GSM8K's model solutions), unless it is prose.
5.  ``final_answer``: what follows the last "final answer is", "Final Answer:", "最终答案是" or such a heading.
6.  ``answer_is``: what follows the last "answer is", "answer:", "La respuesta es", "答案是" (``markers`` has the
    languages), unless a whole solution follows.
7.  ``choice`` (only if the question is a multiple choice): the letter that the response chooses.
8.  ``verdict``: the yes, no, true or false that the response begins with, unless a number or formula is wanted;
    where a verdict is wanted, the one that its last sentence is.
9.  ``whole``: the complete response, when it is nothing but a number, letter, expression or words; else a last line
    that is nothing but a number or expression, or words behind a line that ends with a colon.
10. ``closing``: what the last sentences come to, see ``sentences``.

Rules 5, 6 and 10 take the result of what is worked out (7 of "3 + 4 = 7 apples in total"). What they cannot read for
sure is no answer: a range, a denial, a supposition, two numbers of which nothing tells which is meant. A next question
that a model goes on with is not read; nor is its reasoning, see ``text``. Time is linear in the response's length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.choices import chosen_letter, closing_verdict, opening_verdict
from tokur_cli.answers.latex import boxes, first_line
from tokur_cli.answers.markers import ENGLISH, LANGUAGES, Marker, markers
from tokur_cli.answers.sentences import (
    CORRECTION,
    LETTER_OF_CHOICE,
    SENTENCE_END,
    UNDECIDED,
    closing,
    is_answer_alone,
    is_cut_off,
    is_prose,
    stated,
    word_count,
)
from tokur_cli.answers.text import plain, without_reasoning

AnswerType = Literal["choice", "verdict", "value", "words"]
"""What a question asks for, as its reference tells: a letter, yes or no, a number or formula, other words."""

_FINAL, _PLAIN = "final_answer", "answer_is"


@dataclass(frozen=True, slots=True)
class Extraction:
    """An answer as it stands in the response, in plain writing, and the rule that found it; ``pattern`` is a user's."""

    text: str
    rule: str


_LONGEST_STATEMENT = 2_000
_LAST_MARKERS = 500  # no response says more often what its answer is, but for one that repeats itself
_TAG, _TAG_END = "<answer>", "</answer>"
_NEXT_QUESTION = re.compile(
    r"(?im)^[ \t]{0,8}(?:#{1,6}[ \t]{0,4})?(?:(?:next\s{1,3}|new\s{1,3}|another\s{1,3})?(?:question|problem|exercise"
    r"|example|instruction|human|user|q)\s{0,3}\d{0,3}\s{0,3}:|<\|(?:im_end|endoftext|eot_id)|(?:pregunta|frage"
    r"|pergunta|вопрос|задача|问题|問題|题目|문제)\s{0,3}\d{0,3}\s{0,3}:)"
)
_SUPPOSED = re.compile(
    r"(?i)\b(?:if|suppose|supposing|assume|assuming|imagine|whether|unless)\s+(?:that\s+)?(?:(?:the|my|our|your|final"
    r"|correct|right)\s+){0,3}\Z|\b(?:wrong|incorrect|mistaken|common|initial|original|previous|earlier)\s+\Z"
    r"|(?<!\bI\s)(?<!\bwe\s)\b(?:said|says|thinks|thought|claims|claimed|believes|guessed)\s+(?:that\s+)?(?:the|his"
    r"|her)\s+\Z"
)


def extract_answer(response: str, *, wanted: AnswerType | None = None) -> Extraction | None:
    """Return the final answer of a response, or None where it gives none that can be read for sure.

    Args:
        response: the response's text.
        wanted: what the question asks for, where its reference tells, see ``wanted_by``.
    """
    text = plain(without_reasoning(response))
    for line in _NEXT_QUESTION.finditer(text, 0, _LONGEST_STATEMENT):  # with which a model goes on once it has answered
        found = _read(text[: line.start()], wanted)
        if found:
            return found
    return _read(text, wanted)


def _read(text: str, wanted: AnswerType | None) -> Extraction | None:
    """Return the answer of a text in plain writing, which has one question's answer alone."""
    boxed, end = boxes(text)
    if boxed:
        return _boxed(text, boxed, end, wanted)
    marked = _marked_up(text, wanted) or _after_marker(text, wanted, (_FINAL, _PLAIN))
    if marked and marked is not _UNREADABLE:
        return marked
    if wanted == "choice":
        letter = chosen_letter(_behind_last_marker(text))
        if letter:
            return Extraction(letter, "choice")
    verdict = opening_verdict(text) or (closing_verdict(text) if wanted == "verdict" else None)
    if verdict or wanted == "verdict":
        return Extraction(verdict, "verdict") if verdict and wanted != "value" else None
    if UNDECIDED.match(text):
        return None
    return _unmarked(text, wanted, is_readable=marked is not _UNREADABLE)


def _boxed(text: str, boxed: str, end: int, wanted: AnswerType | None) -> Extraction | None:
    """Return a box's answer, or what stands behind the box that ends at ``end`` and is the answer in its place."""
    letters = wanted == "choice"
    later = _after_marker(text[end:], wanted, (_FINAL,))
    if later and later.text and canonical(later.text).kind != "words":
        return later
    letter = chosen_letter(text[end:]) if letters and canonical(boxed).kind != "choice" else None
    if letter:
        return Extraction(letter, "choice")
    corrected = _corrected(text[end:], Extraction(boxed, "boxed"), letters, None)
    return corrected if corrected.text else None


def _unmarked(text: str, wanted: AnswerType | None, *, is_readable: bool) -> Extraction | None:
    """Return the answer of a text that announces none, or (not ``is_readable``) none that can be read."""
    if is_answer_alone(text) and not (text.rstrip().endswith((":", "?")) or is_cut_off(text)):
        if wanted != "value" or canonical(text).kind != "words":
            return Extraction(text.strip(), "whole")
    elif not is_readable:
        return None
    before, _, line = text.rstrip().rpartition("\n")
    line = line.strip(" *_#>-•\t")
    wanted_kinds = ("number", "expression", *(["words"] if before.rstrip(" *_\n").endswith(":") else []))
    if is_answer_alone(line) and canonical(line).kind in wanted_kinds and line[-1] not in ":?":
        return Extraction(line, "whole")
    concluded = closing(text)
    return Extraction(concluded, "closing") if concluded else None


def reference_answer(reference: str) -> str | None:
    r"""Return the answer that a reference gives, or None where it gives none.

    A worked solution (``####``, ``\boxed{}``, several paragraphs) is read like a response; all else is the answer.
    """
    text = reference.strip()
    if len(text) > 200 or any(sign in text for sign in ("boxed", "####", "\nA:", "\n\n")):
        found = extract_answer(text)
        if found:
            return found.text
    return text or None


@lru_cache(maxsize=1024)
def wanted_by(reference: str | None) -> AnswerType | None:
    """Return what a question wants; only its reference can tell."""
    gold = reference_answer(reference or "")
    if gold is None:
        return None
    form = canonical(gold)
    if form.kind == "choice":
        return "choice"
    if form.kind == "words":
        return "verdict" if form.text in ("yes", "no", "true", "false") else "words"
    return "value"


def wanted_of(references: Sequence[str]) -> AnswerType | None:
    """Return what a question with several right answers wants: a letter where one is one, else what all tell."""
    wanted = {wanted_by(reference) for reference in references}
    return "choice" if "choice" in wanted else wanted.pop() if len(wanted) == 1 else None


def _marked_up(text: str, wanted: AnswerType | None) -> Extraction | None:
    """Return the answer that a tag, ``####`` or a line with ``A:`` marks."""
    if _TAG_END in text and _TAG in text:
        end = text.rindex(_TAG_END)
        start = text.rfind(_TAG, 0, end)
        inside = text[start + len(_TAG) : end].strip() if start >= 0 else ""
        if inside:
            found = None if wanted in (None, "words") else _read(inside, wanted)
            return Extraction(found.text if found else inside, "tagged")
    if "####" in text:
        line = first_line(text[text.rindex("####") + 4 :])
        if is_answer_alone(line):
            return Extraction(line, "hash")
    start = max(text.rfind("\nA:"), 0 if text.startswith("A:") else -1)
    if start >= 0 and not (wanted == "choice" and "\nB:" in text):
        line = first_line(text[start:].lstrip("\n")[2:])
        if is_answer_alone(line):
            return Extraction(line, "answer_line")
    return None


_UNREADABLE = Extraction("", "answer_is")
"""Stands for a marker that announces an answer which cannot be read."""


def _after_marker(text: str, wanted: AnswerType | None, rules: tuple[str, ...]) -> Extraction | None:
    """Return what follows the last marker of the first of ``rules`` that has one; ``_UNREADABLE`` where it is none."""
    letters = wanted == "choice"
    begun = [marker for marker in markers(text)[-_LAST_MARKERS:] if text[marker.end : marker.end + 40].strip()]
    asserted = [one for one in begun if not _SUPPOSED.search(text, max(0, one.start - 60), one.start)]
    if begun and not asserted and not _behind_last_marker(text).strip():
        return _UNREADABLE  # what another said, or what would be
    last: dict[str, Marker] = {}
    for marker in asserted:
        last[_FINAL if marker.is_final(text) else _PLAIN] = marker
    unreadable: Extraction | None = None
    for rule in rules:
        if rule not in last:
            continue
        marker = last[rule]
        following = LANGUAGES[marker.language].with_points(text[marker.end : marker.end + _LONGEST_STATEMENT])
        found = stated(
            following, letters=letters, language=marker.language, worked=text[: marker.start], lead=marker.text
        )
        # "Answer: First, we add …" announces a solution, whose first sentence does not hold the answer.
        announced = rule == _PLAIN and marker.text.rstrip(" ")[-1] in ":\n"
        answer, end = found or ("", 0)
        is_short = word_count(first_line(following)) <= 12 and is_answer_alone(answer)
        if answer and announced and not is_short and canonical(answer).kind != "choice":
            continue
        if not answer or (wanted == "value" and _is_mere_words(answer)):
            unreadable = unreadable if announced else _UNREADABLE
            continue
        return _corrected(following[end:], Extraction(answer, rule), letters, marker.language)
    return unreadable


def _is_mere_words(text: str) -> bool:
    """Return whether an answer has words and no digit: "fünfundzwanzig" is no number that we could compare."""
    return is_prose(text) and canonical(text).number is None and not re.search(r"[\d\\]", text)


def _behind_last_marker(text: str) -> str:
    """Return what follows the sentence of a text's last marker; a text without a marker is returned whole."""
    last = max((marker.end for marker in markers(text)), default=0)
    end = SENTENCE_END.search(text, last)
    return text[end.end() if end else len(text) :] if last else text


def _corrected(rest: str, found: Extraction, letters: bool, language: str | None) -> Extraction:
    """Return what an answer is corrected to by the text behind it: itself where it is not."""
    if not CORRECTION.match(rest.lstrip(" \n*_\"'(.,;$")):
        return found
    corrected = chosen_letter(rest) if letters else closing(rest, language=language)
    if corrected:
        return Extraction(corrected, found.rule)
    is_said_again = any(character.isdigit() for character in rest) or LETTER_OF_CHOICE.search(rest)
    return _UNREADABLE if is_said_again or LANGUAGES[language or ENGLISH].is_unsure(rest) else found
