"""Which question a record belongs to.

Records of the same prompt and the same reference are samples of one question, whatever their ids: people write an id a
row. The same prompt with another reference is another question; a missing reference agrees with any. Records without a
prompt go by their id, and one id has one prompt and one reference.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, count_of
from tokur_cli.records.prompt import split_messages
from tokur_cli.records.record import Record


@dataclass(slots=True)
class Question:
    """What tells a question from others: its first record's place and name, and what its records have in common."""

    key: str  # its first id, else a digest of its prompt; the same in another file
    source: str | None
    line: int | None
    name: str  # in messages: that id, else its line
    references: list[str]  # any of which is correct; empty as long as no record has one
    prompt: str | None = None  # a digest; None as long as no record has one
    records: int = 0  # so far
    has_other_ids: bool = False


class Questions:
    """The questions of a stream so far."""

    def __init__(self) -> None:
        self._by_id: dict[str | None, Question] = {}
        self._by_prompt: dict[str | None, list[Question]] = {}

    def of(self, record: Record) -> Question:
        """Return the question of the stream's next record.

        Raises:
            RecordError: it has neither an id nor a prompt, or its id is that of another question.
        """
        if (question := self.known(record)) is None:
            raise record.error('has no "id", "question", "messages" or "prompt" that says which question it answers')
        return question

    def known(self, record: Record) -> Question | None:
        """Return the same, or None where the record has neither an id nor a prompt."""
        identity, prompt = record.id, _prompt(record)
        if identity is None and prompt is None:
            return None
        references: list[str] = []
        with suppress(RecordError):  # of what is no reference: labelling refuses it where it is needed
            references = record.references
        same_prompt = self._by_prompt.setdefault(prompt, [])
        question = self._by_id.get(identity)
        if question is None:
            agreeing = [each for each in same_prompt if each.references == references]
            agreeing += [each for each in same_prompt if not (references and each.references)]
            key = f"id {identity}" if identity is not None else f"prompt {prompt} {len(same_prompt)}"
            name = identity if identity is not None else f"at line {record.line}"
            question = next(iter(agreeing), Question(key, record.source, record.line, name, references))
        for what, one, other in (("prompt", prompt, question.prompt), ("reference", references, question.references)):
            if one and other and one != other:
                raise record.error(f"has another {what} than its question {question.name} (see line {question.line})")
        if identity is not None:
            self._by_id[identity] = question
            question.has_other_ids |= question.key != f"id {identity}"
        if prompt is not None and question.prompt is None:
            question.prompt = prompt
            same_prompt.append(question)
        question.references = question.references or references
        question.records += 1
        return question

    def merged(self) -> str | None:
        """Return in words how many records have the prompt of another id; None without any."""
        merged = [each.records for those in self._by_prompt.values() for each in those if each.has_other_ids]
        samples = f"they count as samples of {count_of(len(merged), 'question')}"
        return f"{sum(merged):,} records have the prompt of another id: {samples}" if merged else None


def _prompt(record: Record) -> str | None:
    """Return a digest of the first there is of ``question``, ``messages`` and ``prompt``; None without any."""
    name = next((name for name in ("question", "messages", "prompt") if record.get(name) is not None), None)
    if name is None:
        return None
    try:
        if name == "messages":  # logs give each turn an id of its own
            text = encode_value([[turn["role"], turn["content"]] for turn in split_messages(record)[0]])
        else:
            text = f"{record.text(name)}{record.get('system_prompt') or ''}".encode("utf-8", "surrogatepass")
    except RecordError:
        if record.id is None:
            raise
        return None  # the id tells the question
    return blake2b(text, digest_size=16).hexdigest()
