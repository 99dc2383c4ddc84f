"""What a response answers: token ids, chat turns, a question, or a prompt to be taken word for word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from tokur_cli.records.scan import kind

if TYPE_CHECKING:
    from tokur_cli.records.record import Record


@dataclass(frozen=True)
class Prompt:
    """A prompt in exactly one of four forms; the others are None.

    Attributes:
        token_ids: the ids that the response was generated from.
        messages: chat turns, each with ``role`` and a string ``content``, for the model's chat template.
        question: a question that the model's default template is put around.
        text: a prompt that is tokenized as it is, without any template.
    """

    token_ids: list[int] | None = None
    messages: list[dict[str, Any]] | None = None
    question: str | None = None
    text: str | None = None


def check_token_ids(what: str, value: Any, record: Record) -> list[int]:
    """Return the value if it is a list of token ids, else raise the record's error."""
    if not isinstance(value, list):
        raise record.error(f"{what} is {kind(value)}, not a list of token ids")
    for position, item in enumerate(value):
        if type(item) is not int or item < 0:
            found = item if type(item) is int else kind(item)
            raise record.error(f"{what} holds {found} at position {position}, not a token id")
    return value


def check_token_strings(what: str, value: Any, record: Record) -> list[str | bytes]:
    """Return tokens as a log spells them, each a string or a list of bytes, else raise the record's error."""
    if not isinstance(value, list):
        raise record.error(f"{what} is {kind(value)}, not a list of tokens")
    strings: list[str | bytes] = []
    for position, item in enumerate(value):
        if isinstance(item, str):
            strings.append(record.checked_text(f"{what}[{position}]", item))
        elif is_bytes(item):
            strings.append(bytes(item))
        else:
            raise record.error(f"{what} holds {kind(item)} at position {position}, not a string or a list of bytes")
    return strings


def is_bytes(value: Any) -> TypeGuard[list[int]]:
    """Return whether a value is a list of bytes."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 256 for item in value)


def split_messages(messages: Any, response: Any, record: Record) -> tuple[list[dict[str, Any]], str | None]:
    """Split chat turns into the prompt and, if they end with the response, the response.

    Args:
        messages: the field's value; each turn an object with ``role`` and ``content``, which is a string or a list of
            ``{"type": "text", "text": …}`` parts (joined here).
        response: the record's ``response``, or None; a last assistant turn with other text belongs to the prompt.
        record: the record, for errors.
    """
    if not isinstance(messages, list):
        raise record.error(f'"messages" is {kind(messages)}, not a list of turns')
    turns = [_read_turn(f"messages[{number}]", turn, record) for number, turn in enumerate(messages)]
    if turns and turns[-1]["role"] == "assistant" and response in (None, turns[-1]["content"]):
        return turns[:-1], turns[-1]["content"]
    return turns, None


def _read_turn(what: str, turn: Any, record: Record) -> dict[str, Any]:
    if not isinstance(turn, dict):
        raise record.error(f'"{what}" is {kind(turn)}, not an object with role and content')
    for name in ("role", "content"):
        if name not in turn:
            raise record.error(f'"{what}.{name}" is missing')
    record.checked_text(f"{what}.role", turn["role"])
    return {**turn, "content": read_content(f"{what}.content", turn["content"], record)}


def read_content(what: str, content: Any, record: Record) -> str:
    """Return a turn's content as one string; of a list of parts, the texts joined."""
    if not isinstance(content, list):
        return record.checked_text(what, content)
    texts = []
    for number, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text":
            found = repr(part.get("type")) if isinstance(part, dict) else kind(part)
            raise record.error(f'"{what}[{number}]" is {found}, not a part of type "text", the only one that is scored')
        texts.append(record.checked_text(f"{what}[{number}].text", part.get("text")))
    return "".join(texts)
