"""The responses to each question, gathered from anywhere in a stream; their text waits in a temporary file.

In memory stays what the choice needs: sample, answer, confidence and the place of the text. A question is known by its
id; records without one belong together when their prompts are the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record

TOKEN_ARRAYS = ("tokens", "token_ids", "prompt_token_ids")
"""Fields of ``tokur`` with an entry per token; a selected record goes without them."""

_IN_MEMORY = 32 << 20  # bytes of text that need no file


@dataclass(slots=True)
class Candidate:
    """What a choice needs to know of a response.

    Attributes:
        answer: as extracted; None for no answer.
        confidence: higher is better; None where the score is missing.
        is_unmarked: whether it does not say which of its words is the answer, though the reference is words.
        is_code: whether it is code, which has no answer.
        correct: whether it is right, where that is known already.
        awaits: what is yet to tell: the comparison with its question's references, or the tests of its row.
        sample: its number among those of its question; None where the record has none.
        digest: of the record's text without token arrays: an order among equals that no order of the input changes.
        offset: where its text is in the spool.
        certified: the score that a certificate goes by; None without either.
    """

    answer: str | None
    confidence: float | None
    is_unmarked: bool = False
    is_code: bool = False
    correct: bool | None = None
    awaits: Literal["comparison", "tests"] | None = "comparison"
    sample: int | None = None
    digest: int = 0
    offset: int = 0
    certified: float | None = None


@dataclass(slots=True)
class Question:
    """A question and its responses so far.

    Attributes:
        key: its id, or a digest of its prompt.
        name: what messages call it.
        prompt: a digest of the prompt; None as long as no record has one.
        references: the gold answers, any of which is right; empty as long as no record has one.
        source: the file of its first record.
        line: the line of its first record.
        responses: in the order in which they came.
    """

    key: str
    name: str
    prompt: str | None
    references: list[str]
    source: str | None
    line: int | None
    responses: list[Candidate] = field(default_factory=list)

    def without_duplicates(self) -> tuple[list[Candidate], list[Candidate]]:
        """Return the responses by sample, and those left out because another one has their sample.

        Of several with one sample the one with the lowest digest stays: a rule that the order of the input does not
        change. Responses without a number come last and are all different ones.
        """
        kept: list[Candidate] = []
        left_out: list[Candidate] = []
        for response in sorted(self.responses, key=_canonical):
            is_duplicate = kept and response.sample is not None and response.sample == kept[-1].sample
            (left_out if is_duplicate else kept).append(response)
        return kept, left_out


def _canonical(response: Candidate) -> tuple[bool, int, int]:
    return response.sample is None, response.sample or 0, response.digest


def draw(question: Question, responses: list[Candidate], count: int, seed: int) -> list[Candidate]:
    """Draw so many of the responses, which have no duplicates, without replacement, or all; all by sample.

    Each (seed, question, sample) has a random number of its own and the lowest ones are drawn: the order of the input
    does not matter, and fewer are a part of more.
    """
    copies: dict[int, int] = {}
    numbers = []
    for response in responses:
        name = f"sample {response.sample}"
        if response.sample is None:
            copy = copies[response.digest] = copies.get(response.digest, 0) + 1
            name = f"digest {response.digest} {copy}"
        numbers.append(_digest(f"{seed}\0{question.key}\0{name}".encode()))
    lowest = sorted(range(len(responses)), key=numbers.__getitem__)[:count]
    return [responses[index] for index in sorted(lowest)]


def question_key(record: Record) -> str:
    """Return what tells a record's question from others: its id, else its prompt."""
    key = known_question(record)
    if key is None:
        raise record.error('has no "id", "question", "messages" or "prompt" that says which question it answers')
    return key


def known_question(record: Record) -> str | None:
    """Return what ``question_key`` returns, or None where the record has neither."""
    if record.id is not None:
        return "id " + record.id
    prompt = prompt_digest(record)
    return None if prompt is None else "prompt " + prompt


def prompt_digest(record: Record) -> str | None:
    """Return a digest of the first there is of ``question``, ``messages`` and ``prompt``."""
    if record.get("question") is not None:
        text = record.text("question").encode()
    elif record.get("messages") is not None:
        # Logs give each turn an id of its own
        text = encode_value([[turn["role"], turn["content"]] for turn in record.split_messages()[0]])
    elif record.get("prompt") is not None:
        text = record.text("prompt").encode()
    else:
        return None
    return blake2b(text, digest_size=16).hexdigest()


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


class QuestionStore:
    """Questions by key, and the text of their records; use it as a context manager.

    Args:
        whole: keep the text of the whole record, not what is left without token arrays.

    Attributes:
        questions: those gathered since the last ``clear``, in the order of their first records.
    """

    def __init__(self, *, whole: bool) -> None:
        self.questions: dict[str, Question] = {}
        self._whole = whole
        self._spool = _Spool()

    def __enter__(self) -> QuestionStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self._spool.close()

    def add(self, key: str, record: Record, response: Candidate) -> None:
        """Take a response to its question.

        Args:
            key: of its question.
            record: the response's; its token arrays are taken from it.
            response: what is known of it; its sample, its digest and its place are found here.
        """
        tokur = record.tokur
        response.sample = record.sample if "sample" in tokur else None
        question = self._question(key, record)
        text = record.encode() if self._whole else b""
        if any(name in tokur for name in TOKEN_ARRAYS):
            record.set("tokur", {name: value for name, value in tokur.items() if name not in TOKEN_ARRAYS})
        slim = record.encode()
        response.digest, response.offset = _digest(slim), self._spool.add(text or slim)
        question.responses.append(response)

    def record(self, response: Candidate) -> Record:
        """Return the response's record again."""
        return Record.parse(self._spool.read(response.offset), None, None)

    def in_input_order(self) -> Iterator[Candidate]:
        """Return all responses gathered, as they came."""
        responses = [response for question in self.questions.values() for response in question.responses]
        return iter(sorted(responses, key=lambda response: response.offset))

    def clear(self) -> None:
        """Forget all questions."""
        self.questions.clear()
        self._spool.clear()

    def _question(self, key: str, record: Record) -> Question:
        prompt, references = prompt_digest(record), record.references
        question = self.questions.get(key)
        if question is None:
            question = Question(key, _name(record), prompt, references, record.source, record.line)
            self.questions[key] = question
            return question
        if None not in (prompt, question.prompt) and prompt != question.prompt:
            raise record.error(f"has the id of another question ({record.id}: see line {question.line})")
        if references and question.references and references != question.references:
            raise record.error(
                f'has the reference "{record.reference}", but its question {question.name} has '
                f'"{" or ".join(question.references)}" (see line {question.line})'
            )
        question.prompt = question.prompt or prompt
        question.references = references or question.references
        return question


def _name(record: Record) -> str:
    return record.id if record.id is not None else f"at line {record.line}"


class _Spool:
    """Lines of text, in memory as long as they are few, then in an unnamed temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by close()
        self._position = self._end = 0

    def add(self, line: bytes) -> int:
        """Append a line; return where it begins."""
        begin = self._end
        self._seek(begin)
        try:
            self._file.write(line + b"\n")
        except OSError as error:
            raise TokurError(
                f"the temporary file for the records' text cannot be written: {error.strerror}: make room in "
                f"{tempfile.gettempdir()}, set TMPDIR, or use --grouped"
            ) from None
        self._position = self._end = begin + len(line) + 1
        return begin

    def read(self, begin: int) -> bytes:
        """Return the line that begins here."""
        self._seek(begin)
        line = self._file.readline()
        self._position = begin + len(line)
        return line[:-1]

    def clear(self) -> None:
        self._seek(0)
        self._file.truncate()
        self._end = 0

    def close(self) -> None:
        self._file.close()

    def _seek(self, position: int) -> None:
        if position != self._position:  # a seek gives up what was read ahead
            self._file.seek(position)
            self._position = position
