"""What a response answers: token ids, chat turns, a question, or a prompt to be taken word for word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.errors import RecordError
from tokur_cli.records.scan import kind

CheckText = Callable[[str, Any], str]
"""Takes what a value is called and the value; returns it if it is usable text, else raises RecordError."""

MakeError = Callable[[str], RecordError]


@dataclass(frozen=True)
class Prompt:
    """A prompt in exactly one of four forms; the others are None.

    Attributes:
        token_ids: the ids that the response was generated from.
        messages: chat turns, each with ``role`` and a string ``content``, for the model's chat template.
        question: a question that the model's default template is put around.
        text: a prompt that is tokenised as it is, without any template.
    """

    token_ids: list[int] | None = None
    messages: list[dict[str, Any]] | None = None
    question: str | None = None
    text: str | None = None


def check_token_ids(what: str, value: Any, error: MakeError) -> list[int]:
    """Returns the value if it is a list of token ids, else raises the record's error."""
    if not isinstance(value, list):
        raise error(f"{what} is {kind(value)}, not a list of token ids")
    for position, item in enumerate(value):
        if type(item) is not int or item < 0:
            raise error(
                f"{what} holds {item if type(item) is int else kind(item)} at position {position}, not a token id"
            )
    return value


def split_messages(
    messages: Any, response: Any, check_text: CheckText, error: MakeError
) -> tuple[list[dict[str, Any]], str | None]:
    """Splits chat turns into the prompt and, if they end with the response, the response.

    Args:
        messages: the field's value; each turn an object with ``role`` and ``content``, which is a string or a list of
            ``{"type": "text", "text": …}`` parts (joined here).
        response: the record's ``response``, or None; a last assistant turn with other text belongs to the prompt.
        check_text: checks a string of the record.
        error: makes the record's error.
    """
    if not isinstance(messages, list):
        raise error(f'"messages" is {kind(messages)}, not a list of turns')
    turns = [_read_turn(f'"messages[{number}]"', turn, check_text, error) for number, turn in enumerate(messages)]
    if turns and turns[-1]["role"] == "assistant" and response in (None, turns[-1]["content"]):
        return turns[:-1], turns[-1]["content"]
    return turns, None


def _read_turn(what: str, turn: Any, check_text: CheckText, error: MakeError) -> dict[str, Any]:
    if not isinstance(turn, dict):
        raise error(f"{what} is {kind(turn)}, not an object with role and content")
    for name in ("role", "content"):
        if name not in turn:
            raise error(f'{what} has no "{name}"')
    check_text(f"{what}.role", turn["role"])
    return {**turn, "content": read_content(f"{what}.content", turn["content"], check_text, error)}


def read_content(what: str, content: Any, check_text: CheckText, error: MakeError) -> str:
    """A turn's content as one string; of a list of parts, the texts joined."""
    if not isinstance(content, list):
        return check_text(what, content)
    texts = []
    for number, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text":
            found = part.get("type") if isinstance(part, dict) else kind(part)
            raise error(f"{what}[{number}] is not a text part but {found!r}: only text can be scored")
        texts.append(check_text(f"{what}[{number}].text", part.get("text")))
    return "".join(texts)
