"""The responses to each question, gathered from anywhere in a stream; their text waits in a temporary file.

In memory stays what the choice needs: sample, answer, confidence and the place of the text.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

from tokur_cli.records.errors import TokurError
from tokur_cli.records.question import Question
from tokur_cli.records.record import Record

TOKEN_ARRAYS = ("tokens", "alternatives", "token_ids", "prompt_token_ids")
"""Fields of ``tokur`` with entries of tokens; a selected record goes without them."""

_IN_MEMORY = 32 << 20  # bytes of text that need no file


@dataclass(slots=True)
class Candidate:
    """What a choice needs to know of a response."""

    answer: str | None  # as extracted; None for no answer
    confidence: float | None  # higher is better; None where the score is missing
    is_unmarked: bool  # whether it does not say which of its words is the answer, though the reference is words
    is_code: bool  # whether it is code, which has no answer
    correct: bool | None  # whether it is right, where that is known already
    # What is yet to tell: the comparison with its question's references, or the tests of its row
    awaits: Literal["comparison", "tests"] | None
    sample: int | None = None  # its number among those of its question; None where the record has none
    id: str | None = None  # of its record
    offset: int = field(init=False)  # where its text is in the temporary file
    certified: float | None = None  # the score that a certificate goes by; None without either


def without_duplicates(responses: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Return a question's responses by sample, and those left out because an earlier one has their id and sample.

    Responses without a number come last, as they came; those without one or without an id are all different ones.
    """

    def name(one: Candidate) -> object:
        return one.offset if None in (one.id, one.sample) else (one.id, one.sample)

    kept: dict[object, Candidate] = {}
    left_out = [one for one in responses if kept.setdefault(name(one), one) is not one]
    in_order = sorted(
        kept.values(), key=lambda one: (math.inf, "") if one.sample is None else (one.sample, one.id or "")
    )
    return in_order, left_out


class QuestionStore(AbstractContextManager["QuestionStore"]):
    """Questions by key, and the text of their records; use it as a context manager.

    Args:
        whole: keep the text of the whole record, not what is left without token arrays.

    Attributes:
        questions: those gathered since the last ``clear``, each with its responses so far, as they came.
    """

    def __init__(self, *, whole: bool) -> None:
        self.questions: dict[str, tuple[Question, list[Candidate]]] = {}
        self._whole = whole
        self._text = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by __exit__

    def __exit__(self, *exception: object) -> None:
        self._text.close()

    def add(self, question: Question, record: Record, response: Candidate) -> None:
        """Take a response; its id, sample and place are found here, and its record may lose its token arrays."""
        tokur = record.tokur
        response.id, response.sample = record.id, record.sample if "sample" in tokur else None
        if not self._whole:
            record.set("tokur", {name: value for name, value in tokur.items() if name not in TOKEN_ARRAYS})
        self._text.seek(0, os.SEEK_END)
        response.offset = self._text.tell()
        try:
            self._text.write(record.encode() + b"\n")
        except OSError as error:
            raise TokurError(
                f"the temporary file for the records' text cannot be written: {error.strerror}: make room in "
                f"{tempfile.gettempdir()}, set TMPDIR, or use --grouped"
            ) from None
        self.questions.setdefault(question.key, (question, []))[1].append(response)

    def record(self, response: Candidate) -> Record:
        """Return the response's record again."""
        self._text.seek(response.offset)
        return Record.parse(self._text.readline()[:-1], None, None)

    def clear(self) -> None:
        """Forget all questions."""
        self.questions.clear()
        self._text.seek(0)
        self._text.truncate()
