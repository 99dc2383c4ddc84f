"""Whether two answers are the same: by text and number first, else by math-verify in worker processes.

Numbers are compared exactly, as rationals. Beyond that:

- A decimal with at least six decimals and six significant digits equals what it is the rounding or truncation of
  (``0.333333`` is 1/3, ``0.3333`` is not).
- ``50%`` equals 1/2 and, because people leave the sign out when the question asks for percent, 50. Two percentages, and
  two plain numbers, must be equal as they are; so must ``5 million``, which is 5,000,000 and not 5.
- ``2,5`` is 2.5 where the other one is a number, else a list.
- Two units that we know must be of one dimension and are converted (``1 hour`` is ``60 minutes``); a unit on one side
  alone is not compared. Two names must agree (``x = 5`` is not ``y = 5``); a name on one side alone is not compared.

The relation is symmetric, except that an equation may answer where a value is asked for (``a + b = 7`` for 7), not the
other way. Because signs and units may be left out it is not transitive; ``classes`` says how votes cope.

Symbolic comparison may never end or eat all memory, and nothing but the end of its process can interrupt
``9^{9^{9^9}}``. The first worker starts with the first comparison that needs one (about 0.4 s), so answers that are
plain numbers never pay for it. Each answers one JSON request a line, see ``mathematics.serve``.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from fractions import Fraction
from typing import Any

from tokur_cli.answers.canonical import NUMBERED_NAME, Canonical, canonical, name_of
from tokur_cli.answers.numbers import Number
from tokur_cli.records.errors import TokurError


class Outcome(str, Enum):
    """What became of a response, and of a comparison of an answer with a reference."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    NO_ANSWER = "no_answer"  # which counts as incorrect
    QUALITY = "quality"  # from 0 to 1, in place of correct or incorrect
    UNPARSABLE_REFERENCE = "unparsable_reference"  # not the answer's text, nor anything that math-verify can read
    TIMEOUT = "timeout"  # the comparison ran out of time or memory
    NO_REFERENCE = "no_reference"
    PLACEHOLDER = "placeholder"
    NULL_LABEL = "null_label"
    CODE_NOT_RUN = "code_not_run"
    RULE_NOT_USED = "rule_not_used"

    __str__ = str.__str__

    @classmethod
    def of(cls, label: float | None) -> Outcome:
        """Return the outcome that a label tells, 1 or true for correct, 0 or false for incorrect; None for null."""
        return {None: cls.NULL_LABEL, 0.0: cls.INCORRECT, 1.0: cls.CORRECT}.get(label, cls.QUALITY)

    @property
    def correct(self) -> bool | None:
        """Whether the response is correct; None where that is not known."""
        return self is Outcome.CORRECT if self in (Outcome.CORRECT, Outcome.INCORRECT, Outcome.NO_ANSWER) else None


MIN_PLACES = 6
"""From how many decimals on a decimal may stand for the number that it abbreviates."""

_MIN_SIGNIFICAND = 10**5
_FOREIGN_WORD = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u1fff\u3040-\ud7ff]")
_WORD = re.compile(r"[^\W\d_]{2}")
_WHOLE_NUMBERS = re.compile(r"-?\d+(?:,-?\d+)+|\[-?\d+(?:,-?\d+)+\]")
_COMMA = re.compile(r"(?:[A-Za-z]\s*=\s*)?-?(?:0,|\d+,(?!\d{3}\Z))\d+")
_SIGN = re.compile(r"[\\=<>^+*/|{}\[\]]")
_OUTCOMES = {True: Outcome.CORRECT, False: Outcome.INCORRECT, "unparsable": Outcome.UNPARSABLE_REFERENCE}
_REMEMBERED = 100_000  # replies of workers; then all are forgotten
_WORTH_A_WORKER = 16  # a worker costs as much as that many easy comparisons
_START = "import sys; sys.path[:] = sys.argv[1:]; from tokur_cli.answers.mathematics import serve; "


def numbers_equal(first: Number, second: Number) -> bool:
    """Return whether two numbers are the same by the rules in this module's docstring."""
    units = [number.unit for number in (first, second) if number.unit]
    has_units = len(units) == 2
    if (first.name and second.name and first.name != second.name) or len({unit.dimension for unit in units}) > 1:
        return False
    one_is_percent = {first.scale, second.scale} == {Fraction(1), Fraction(1, 100)}
    ones, others = (readings(number, with_unit=has_units, may_lack_sign=one_is_percent) for number in (first, second))
    last, final = _last_decimal(first), _last_decimal(second)
    return any(
        one == other or abs(one - other) < max(abs(one) * last, abs(other) * final) for one in ones for other in others
    )


def readings(number: Number, *, with_unit: bool = False, may_lack_sign: bool = True) -> list[Fraction]:
    """Return the values that a number may be written as, its exact value first; it may lack a per cent sign."""
    scales = [number.scale, Fraction(1)] if may_lack_sign and number.scale == Fraction(1, 100) else [number.scale]
    factor = number.unit.factor if number.unit and with_unit else 1
    return [number.value * scale * factor for scale in scales]


def _last_decimal(number: Number) -> Fraction:
    """Return the size of a long decimal's last place, relative to its value; 0 for a number that is exact."""
    significand = abs(number.value) * 10**number.places
    return 1 / significand if number.places >= MIN_PLACES and significand >= _MIN_SIGNIFICAND else Fraction(0)


def with_decimal_comma(form: Canonical) -> Canonical:
    """Return what a bare ``2,5`` is beside a number; anything else as it is."""
    return canonical(form.latex.replace(",", ".")) if _COMMA.fullmatch(form.latex) else form


def compare_cheaply(reference: Canonical, answer: Canonical) -> bool | None:
    """Return whether two answers are the same as text or number; None where only a symbolic comparison can tell."""
    if reference.number or answer.number:
        reference, answer = with_decimal_comma(reference), with_decimal_comma(answer)
    if reference.number and answer.number:
        return numbers_equal(reference.number, answer.number)
    forms = (reference, answer)
    kinds, besides = [form.kind for form in forms], [form.beside for form in forms if form.beside]
    if kinds == ["choice", "choice"]:
        names = {beside.text for beside in besides if beside.kind == "words"}
        return reference.text == answer.text and len(names) < 2  # "A. Ada" is not "A. Alan"
    if "choice" in kinds:
        same = reference.text.upper() == answer.text.upper()  # of a word, too
        return same if same or not besides else compare_cheaply(*(form.beside or form for form in forms))
    if all(_WHOLE_NUMBERS.fullmatch(form.text) for form in forms):  # of which a parser would make sets
        one, other = ([*map(int, form.text.strip("[]").split(","))] for form in forms)
        is_ordered = any(form.text.startswith("[") for form in forms)
        return one == other if is_ordered else sorted(one) == sorted(other)
    if kinds[0] == kinds[1] and reference.text in (answer.text, f"[{answer.text}]"):  # a list as Python has it
        return True
    same_name = name_of(reference.text) == name_of(answer.text)
    if all(map(_is_prose, forms)) and (same_name or all(NUMBERED_NAME.fullmatch(form.text) for form in forms)):
        return same_name
    expressions = [form.text for form in forms if form.kind == "expression"]
    words = [form.text for form in forms if form.kind == "words"]
    if not expressions or any(word not in expressions[0].casefold() for word in words):
        return False
    # Of what is no mathematics a parser would take the numbers among the words.
    return False if any(map(_FOREIGN_WORD.search, expressions)) else None


def _is_prose(form: Canonical) -> bool:
    """Return whether an answer is a name of several words or with digits, "St. Louis", and no formula."""
    return form.kind in ("words", "expression") and bool(_WORD.search(form.text)) and not _SIGN.search(form.text)


class Equivalence(contextlib.AbstractContextManager["Equivalence"]):
    """Compares answers, symbolically in worker processes where needed, and remembers what it found.

    Use it as a context manager, whose end is the end of all workers: one for each processor, at most 8.

    Args:
        seconds: limit of a comparison in processor time: a verdict does not depend on what else the machine does.
        memory_bytes: limit of a worker's address space, of which math-verify itself takes 60 MB.
    """

    def __init__(self, *, seconds: float = 5.0, memory_bytes: int = 1 << 30) -> None:
        self._count = min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
        self._code = f"{_START}serve({seconds!r}, {memory_bytes!r})"
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._known: dict[tuple[str, ...], Any] = {}

    def __exit__(self, *exception: object) -> None:
        for worker in list(self._workers):
            self._drop(worker)

    def compare(self, pairs: Iterable[tuple[str, str]]) -> list[Outcome]:
        """Compare each (reference, answer) as extracted; what is the same or different at sight never reaches a worker.

        Raises:
            TokurError: a worker does not start.
        """
        forms = [(canonical(reference), canonical(answer)) for reference, answer in pairs]
        at_sight = [compare_cheaply(*pair) for pair in forms]
        asked = [
            ("verify", *((form.beside or form).latex for form in pair))  # of a choice, what stands beside its letter
            for pair, same in zip(forms, at_sight, strict=True)
            if same is None
        ]
        replies = iter(self._ask(asked))
        said = [next(replies) if same is None else same for same in at_sight]
        return [
            Outcome.INCORRECT if one == "unparsable" and _is_prose(form) else _OUTCOMES.get(one, Outcome.TIMEOUT)
            for one, (form, _) in zip(said, forms, strict=True)  # a name is no worse a reference than a number
        ]

    def fingerprints(self, answers: Iterable[str]) -> list[str | None]:
        """Return each expression's ``mathematics.fingerprint``, None also where it takes too much time or memory."""
        return self._ask([("fingerprint", canonical(answer).latex) for answer in answers])

    def _ask(self, requests: Sequence[tuple[str, ...]]) -> list[Any]:
        """Return the reply to each request: the name of a function of ``mathematics``, and its arguments."""
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        unknown = [request for request in dict.fromkeys(requests) if request not in self._known]
        with ThreadPoolExecutor(min(self._count, 1 + len(unknown) // _WORTH_A_WORKER)) as threads:
            try:
                self._known.update(zip(unknown, threads.map(self._reply, unknown), strict=True))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                for worker in list(self._workers):
                    worker.kill()
                raise
        return [self._known[request] for request in requests]

    def _reply(self, request: tuple[str, ...]) -> Any:
        """Return a worker's reply, None where it ran out of time or memory: it is then dead, and not used again."""
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its death shows when the reply is read
            worker.stdin.write(json.dumps(request).encode() + b"\n")
        line = worker.stdout.readline()
        if not line.endswith(b"\n"):
            self._drop(worker)
            return None
        self._idle.put(worker)
        return json.loads(line)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", self._code, *map(os.path.abspath, sys.path)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        worker = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, bufsize=0)
        self._workers.add(worker)
        assert worker.stdout is not None
        if worker.stdout.readline() != b'"ready"\n':
            self._drop(worker)
            raise TokurError("symbolic comparison does not start: is math-verify installed and importable?")
        return worker

    def _drop(self, worker: subprocess.Popen[bytes]) -> None:
        self._workers.discard(worker)
        with worker:
            worker.kill()
