r"""The final answer of a response: what it states, found by the first of these rules that finds something.

1.  ``boxed``: the last ``\boxed{…}`` with balanced braces. Boxes that follow each other as a list
    (``\boxed{2} and \boxed{3}``) are one answer, ``2, 3``. A number or formula that a "final answer is" states
    after the last box (rule 5) wins over it: the box was a step on the way; so does a letter, where one is wanted.
2.  ``tagged``: what stands between the last ``<answer>`` and ``</answer>``.
3.  ``hash``: what follows the last ``####`` on its line (GSM8K's references), unless it is a heading's prose.
4.  ``answer_line``: the last line that begins with ``A:`` (GSM8K's model solutions), unless it is prose.
5.  ``final_answer``: what follows the last "final answer is", "Final Answer:", "最终答案是" or such a heading.
6.  ``answer_is``: what follows the last "answer is", "answer:", "La respuesta es", "答案是" (``lexicon`` has the
    languages), unless a whole solution follows.
7.  ``open_box``: the rest of the line after a ``\boxed{`` that the response never closes.
8.  ``choice`` (only if the question is a multiple choice): the letter that the response chooses.
9.  ``verdict``: the yes, no, true or false that the response begins with, unless a number or formula is wanted; where
    a verdict is wanted, else the one that its last sentence decides on, or none.
10. ``whole``: the complete response or its last line, when it is nothing but a number, letter, expression or words.
11. ``closing``: what the last sentences come to, see ``closings``.

Rules 5, 6 and 11 take the result of what is worked out (7 of "3 + 4 = 7 apples in total"). What they cannot read for
sure is no answer: a range, a denial, a supposition, two numbers of which nothing tells which is meant. What a model
goes on to write after its answer, a next question, a check and so on, is not read; nor is its reasoning, see
``reasoning``. Time is linear in the response's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tokur_cli.answers.reading.amounts import amounts
from tokur_cli.answers.reading.assertions import behind_last_marker, is_confirmed, is_in_doubt, is_supposed, said_before
from tokur_cli.answers.reading.boxes import boxes, first_line
from tokur_cli.answers.reading.calculations import without_working
from tokur_cli.answers.reading.canonical import canonical
from tokur_cli.answers.reading.choices import chosen_letter
from tokur_cli.answers.reading.closings import closing
from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.languages import language_of
from tokur_cli.answers.reading.lexicon import (
    CORRECTION,
    LETTER_OF_CHOICE,
    QUESTION_LINE,
    Marker,
    end_of_first_marker,
    markers,
)
from tokur_cli.answers.reading.statements import (
    is_answer_alone,
    is_broken_off,
    is_prose,
    is_undecided,
    only,
    stated,
    word_count,
)
from tokur_cli.answers.reading.writing import plain
from tokur_cli.answers.reading.yes_or_no import closing_verdict, opening_verdict
from tokur_cli.answers.reasoning import without_reasoning

ExtractionRule = Literal[
    "tagged",
    "boxed",
    "hash",
    "answer_line",
    "final_answer",
    "answer_is",
    "open_box",
    "choice",
    "verdict",
    "whole",
    "closing",
]

Wanted = Literal["choice", "verdict", "value", "words"]
"""What a question asks for, as its reference tells: a letter, yes or no, a number or formula, other words."""

_FINAL: ExtractionRule = "final_answer"
_PLAIN: ExtractionRule = "answer_is"


@dataclass(frozen=True, slots=True)
class Extraction:
    """An answer as it stands in the response, in plain writing, and the rule that found it."""

    text: str
    rule: ExtractionRule


_LONGEST_STATEMENT = 2_000
_LAST_MARKERS = 500  # no response says more often what its answer is, but for one that repeats itself
_TAG, _TAG_END = "<answer>", "</answer>"
_LABEL = expression(r"(?<![A-Za-z])[A-J][).:]\s")
_NAMED_OPTION = expression(r"(?<![A-Za-z])[A-J]\s?:\s{0,3}\Z")
_ITEM, _NUMBER_OF_ITEM = expression(r"\s*\d{1,2}[.)]\s"), expression(r"\d{1,2}[.)]")
_TURN = expression(r"(?im)^[ \t]{0,8}(?:#{1,6}[ \t]{0,4})?(?:human|user)\s{0,3}:|<\|im_end")
_CALLED_RIGHT = expression(r"(?i)\s{0,4}(?:correct|right)\b")
_AFTERWORD = expression(
    r"(?im)(?:^[ \t]{0,4}|(?<=[.!*] ))[(*#_]{0,4}"
    r"(?:(?:check|verification|verify|explanation|note|confidence)\b[^\n:]{0,16}:|i hope this helps)"
)
_LINE_MARKS = expression(r"\A(?:[\s:*#_\"'>]|\\\")*")


def extract_answer(response: str, *, wanted: Wanted | None = None) -> Extraction | None:
    """Return the final answer of a response, or None where it gives none that can be read for sure.

    Args:
        response: the response's text.
        wanted: what the question asks for, where its reference tells, see ``wanted_by``.
    """
    letters = wanted == "choice"
    text = _without_afterword(_without_next_question(plain(without_reasoning(response)), letters), letters)
    boxed, open_box, end = boxes(text) if "boxed" in text or "fbox" in text else ("", "", 0)
    if boxed:
        later = _after_marker(text[end:], letters, (_FINAL,))
        if isinstance(later, Extraction) and canonical(later.text).kind != "words":
            return later
        if letters and canonical(boxed).kind != "choice":  # a step on the way, where a letter is wanted
            chosen = _after_marker(text[end:], letters, (_FINAL, _PLAIN))
            if isinstance(chosen, Extraction) and canonical(chosen.text).kind == "choice":
                return chosen
            letter = chosen_letter(text[end:])
            if letter:
                return Extraction(letter, "choice")
        corrected = _corrected(text, end, Extraction(boxed, "boxed"), letters, None)
        return corrected if isinstance(corrected, Extraction) else None
    marked = _marked_up(text, wanted) or _after_marker(text, letters, (_FINAL, _PLAIN))
    if isinstance(marked, Extraction):
        return marked
    if open_box:
        return Extraction(open_box, "open_box")
    if letters:
        letter = chosen_letter(text if marked is None else behind_last_marker(text))
        if letter:
            return Extraction(letter, "choice")
    verdict = opening_verdict(text) if wanted != "value" else None
    if verdict is None and wanted == "verdict" and marked is not _UNREADABLE:
        verdict = closing_verdict(text)
    if verdict or wanted == "verdict":
        return Extraction(verdict, "verdict") if verdict else None
    if letters and (is_undecided(text) or len(_LABEL.findall(text)) > 1):
        return None
    if is_answer_alone(text) and not (text.rstrip().endswith((":", "?")) or is_broken_off(text)):
        if wanted != "value" or canonical(text).kind != "words" or word_count(text) == 1:
            return Extraction(text.strip(), "whole")
        said = closing(text)  # "Hay veinticinco alumnos." is as short as a name
        return Extraction(said, "closing") if said else None
    if marked is _UNREADABLE:
        return None
    line = _last_line(text)
    if line and not line.endswith("?"):
        return Extraction(without_working(line), "whole")
    concluded = closing(text)
    if concluded:
        return Extraction(concluded, "closing")
    first = _LINE_MARKS.sub("", first_line(text), count=1).rstrip("*_ ")
    if (
        not letters
        and "\n\n" in text.strip()
        and canonical(first).kind in ("number", "choice")
        and not _ITEM.match(first)
    ):
        return Extraction(first, "whole")  # an explanation follows
    return None


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
def wanted_by(reference: str | None) -> Wanted | None:
    """Return what a question wants; only its reference can tell."""
    gold = reference_answer(reference)
    if gold is None:
        return None
    form = canonical(gold)
    if form.kind == "choice":
        return "choice"
    if form.kind == "words":
        return "verdict" if form.text in ("yes", "no", "true", "false") else "words"
    return "value"


def wanted_of(references: Sequence[str]) -> Wanted | None:
    """Return what a question with several right answers wants: a letter where one is one, else what all tell."""
    wanted = {wanted_by(reference) for reference in references}
    return "choice" if "choice" in wanted else wanted.pop() if len(wanted) == 1 else None


def _without_next_question(text: str, letters: bool) -> str:
    """Return a text up to the line on which a model goes on with a next question, where it has answered before."""
    first_question = QUESTION_LINE.search(text)
    if first_question is None:
        return text
    before = text[: first_question.start()]
    if before.strip() and (_TURN.match(first_question[0].lstrip("\n")) or closing(before)):
        return before
    if letters and chosen_letter(before):
        return before
    first = first_line(text)
    announced = end_of_first_marker(text)
    answered = [text.find(first) + len(first)] if is_answer_alone(first) else []
    answered += [position for position in map(text.find, ("\\boxed", "####", _TAG_END, "\nA:")) if position >= 0]
    answered += [] if announced is None else [announced]
    line = QUESTION_LINE.search(text, min(answered)) if answered else None
    return text[: line.start()] if line and text[: line.start()].strip() else text


def _without_afterword(text: str, letters: bool) -> str:
    """Return a text up to the line on which a check, note or offer begins, where it has stated its answer before."""
    line = _AFTERWORD.search(text)
    if line is None or markers(text, line.start()) or "boxed" in text:
        return text
    before = text[: line.start()]
    return before if closing(before) or (letters and chosen_letter(before)) else text


def _marked_up(text: str, wanted: Wanted | None) -> Extraction | None:
    """Return the answer that a tag, ``####`` or a line with ``A:`` marks."""
    if _TAG_END in text and _TAG in text:
        end = text.rindex(_TAG_END)
        start = text.rfind(_TAG, 0, end)
        inside = text[start + len(_TAG) : end].strip() if start >= 0 else ""
        if inside:
            return Extraction(_of_prose(inside, wanted) or inside, "tagged")
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


class _Unreadable:
    """A marker that announces an answer which cannot be read."""


_UNREADABLE = _Unreadable()


def _of_prose(inside: str, wanted: Wanted | None) -> str | None:
    """Return the answer that words within a tag state, where a number, formula or letter is wanted."""
    if wanted == "verdict":
        return opening_verdict(inside) or closing_verdict(inside)
    if wanted not in ("value", "choice") or len(inside) > _LONGEST_STATEMENT or not is_prose(inside):
        return None
    found = stated(inside, letters=wanted == "choice", language=language_of(inside))
    return found.text if found else None


def _after_marker(text: str, letters: bool, rules: tuple[ExtractionRule, ...]) -> Extraction | _Unreadable | None:
    """Return what follows the last marker of the first of ``rules`` that has one."""
    last: dict[ExtractionRule, Marker] = {}
    begun = [marker for marker in markers(text)[-_LAST_MARKERS:] if text[marker.end : marker.end + 40].strip()]
    found_markers = [
        marker for marker in begun if not (is_supposed(text, marker) or (letters and _NAMED_OPTION.search(marker.text)))
    ]
    if begun and not found_markers and not behind_last_marker(text).strip():
        return _UNREADABLE  # what another said, or what would be
    for marker in reversed(found_markers):
        last.setdefault(_FINAL if marker.is_final(text) else _PLAIN, marker)
        if len(last) == len(rules):
            break
    unreadable: _Unreadable | None = None
    for rule in rules:
        if rule not in last:
            continue
        marker = last[rule]
        following = text[marker.end : marker.end + _LONGEST_STATEMENT]
        found = stated(
            following, letters=letters, language=marker.language, worked=text[: marker.start], lead=marker.text
        )
        if _CALLED_RIGHT.match(following):
            named = _named(marker.text, letters)
            if named:
                return Extraction(named, rule)
            continue
        # "Answer: First, we add …" announces a solution, whose first sentence does not hold the answer.
        announced = rule == _PLAIN and marker.text.rstrip(" ")[-1] in ":\n"
        line = first_line(_LINE_MARKS.sub("", following, count=1))
        if (
            found
            and announced
            and canonical(found.text).kind != "choice"
            and not is_answer_alone(line)
            and (word_count(line) > 12 or not is_answer_alone(found.text))
        ):
            continue
        if is_in_doubt(text, marker):
            return _UNREADABLE
        if found is None:
            if not announced:
                unreadable = _UNREADABLE
            continue
        before = said_before(text, marker, found_markers)
        if before and before.contradicts(found.text):
            # "The answer is 42. The answer is 4" was cut off, if anything.
            return Extraction(before.text, rule) if before.goes_on(found, following) else _UNREADABLE
        return _corrected(text, marker.end + found.end, Extraction(found.text, rule), letters, marker.language)
    return unreadable


def _named(marker: str, letters: bool) -> str | None:
    """Return the answer that a marker names itself: "the answer 12 is" correct."""
    if letters:
        letter = LETTER_OF_CHOICE.search(marker)
        return letter[0].strip("()") if letter else None
    return only(amounts(marker))


def _corrected(text: str, end: int, found: Extraction, letters: bool, language: str | None) -> Extraction | _Unreadable:
    """Return what an answer that ends at ``end`` is corrected to right behind it: itself where it is not."""
    rest = text[end:]
    if not CORRECTION.match(rest.lstrip(" \n*_\"'(.,;$")):
        return found
    corrected = chosen_letter(rest) if letters else closing(rest, language=language)
    if corrected:
        return Extraction(corrected, found.rule)
    return found if is_confirmed(rest) else _UNREADABLE


def _last_line(text: str) -> str | None:
    """Return the last line of a text if it is an answer alone: words only where the line before announces them."""
    before, _, line = text.rstrip().rpartition("\n")
    line = line.strip(" *_#>-•\t")
    if not line or line.endswith(":") or not is_answer_alone(line):
        return None
    previous = before.rstrip().rpartition("\n")[2]
    if _NUMBER_OF_ITEM.fullmatch(line) and _ITEM.match(previous):
        return None  # cut off behind the number of the next item of a list
    if canonical(line).kind == "choice" and is_answer_alone(previous):
        return None  # the last of the choices, repeated
    if canonical(line).kind == "words" and not before.rstrip(" *_\n").endswith(":"):
        return None
    return line
