"""What a response answers: token ids, chat turns, a question, or a prompt to be taken word for word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from tokur_cli.records.encoding import json_type

if TYPE_CHECKING:
    from tokur_cli.records.record import Record


# What most reasoning models write before their reasoning, and between it and the text
THINK_BEGINS, THINK_ENDS = "<think>\n", "\n</think>\n\n"
SYSTEM_ROLES = ("system", "developer")  # whose turns tell how to answer
ENCRYPTED = "redacted_thinking"  # the type of a part with reasoning that cannot be read; Inspect marks it as redacted
# Fields that mean the same in every record, or tell where a row is from
_KNOWN = (
    *("id", "question", "messages", "prompt", "response", "reference"),
    *("correct", "quality", "model", "source", "tokur"),
    *("dataset", "split", "subject", "level", "type", "category", "difficulty", "topic", "task", "index", "seed"),
)
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")  # where services put what they cut off from the text


@dataclass(frozen=True)
class Prompt:
    """A prompt in exactly one of four forms; the others are None."""

    token_ids: list[int] | None = None  # that the response was generated from
    messages: list[dict[str, Any]] | None = None  # for the chat template, each with role and content, both strings
    question: str | None = None  # that the model's default template is put around
    text: str | None = None  # that is tokenized as it is, without any template
    tools: list[dict[str, Any]] | None = None  # beside the messages, as OpenAI writes the definitions


def is_bytes(value: Any) -> TypeGuard[list[int]]:
    """Return whether a value is a list of bytes."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 256 for item in value)


# --- messages ---


def split_messages(record: Record) -> tuple[list[dict[str, Any]], str | None]:
    """Return the turns of a record's ``messages`` that are the prompt, and the response's text if they end with it.

    They do if the last is an assistant's and ``response`` is missing or equal to it. Contents become strings (see
    ``read_content``), reasoning becomes ``reasoning_content``, as chat templates call it, and calls of tools get the
    form that they know.
    """
    messages, response = record.fields["messages"], record.get("response")
    if not isinstance(messages, list) or not all(isinstance(turn, dict) for turn in messages):
        raise record.error('"messages" is no list of objects with role and content')
    turns = [_read_turn(f"messages[{number}]", turn, record) for number, turn in enumerate(messages)]
    if turns and turns[-1]["role"] == "assistant":
        said = with_reasoning(turns[-1].get("reasoning_content") or "", turns[-1]["content"])
        if response in (None, said, turns[-1]["content"]):
            return turns[:-1], said if response is None else response
    return turns, None


def _read_turn(what: str, turn: dict[str, Any], record: Record) -> dict[str, Any]:
    record.checked_text(f"{what}.role", turn.get("role"))
    reasoning, text = read_content(what, turn, record)
    read = {**turn, "content": text, **({"reasoning_content": reasoning} if reasoning else {})}
    if isinstance(calls := turn.get("tool_calls"), list):
        read["tool_calls"] = [_read_call(call) if isinstance(call, dict) else call for call in calls]
    return read


def _read_call(call: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's call as chat templates know it: OpenAI writes its arguments as text, Inspect no object."""
    function = call.get("function")
    function = function if isinstance(function, dict) else {"name": function, "arguments": call.get("arguments")}
    if "arguments" in function:
        function = {**function, "arguments": _parsed(function["arguments"])}
    return {"id": call.get("id"), "type": "function", "function": function}


def _parsed(value: Any) -> Any:
    """Return what a text says in JSON; a text that is none, and what is no text, as it is."""
    with suppress(ValueError, TypeError):
        return json.loads(value)
    return value


def read_tools(value: Any) -> list[dict[str, Any]] | None:
    """Return definitions of tools as OpenAI's chats have them; None of anything else that a field ``tools`` may hold.

    Inspect and OpenAI's responses have a list of the functions alone, Anthropic's requests call their parameters
    ``input_schema``, data sets for training have lists as JSON text.
    """
    value = _parsed(value)
    functions = []
    for tool in value if isinstance(value, list) else ():
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            return None
        if "input_schema" not in function and tool.get("type", "function") != "function":
            return None
        kept = {"parameters" if key == "input_schema" else key: item for key, item in function.items() if key != "type"}
        functions.append({"type": "function", "function": kept})
    return functions or None


def with_reasoning(reasoning: str, text: str) -> str:
    """Return a response of a reasoning model as one text; without an end of the reasoning where nothing follows it."""
    return THINK_BEGINS + reasoning.strip("\n") + (text and THINK_ENDS + text.lstrip("\n")) if reasoning else text


def read_response(what: str, said: Any, record: Record) -> str:
    """Return what a text, or an assistant's message, says, its reasoning included."""
    if not isinstance(said, dict):
        return record.checked_text(what, said)
    is_thought = any(said.get(name) for name in _REASONING_FIELDS) and not said.get("tool_calls")
    if said.get("content") is None and not is_thought:
        raise record.error(f'"{what}" holds no text, only {[name for name, value in said.items() if value]}')
    return with_reasoning(*read_content(what, said, record))


def read_content(what: str, message: dict[str, Any], record: Record) -> tuple[str, str]:
    """Return an assistant's or a user's message as (reasoning, text), both maybe empty.

    Its ``content`` is a string or a list of parts of type ``text`` and ``reasoning`` (Anthropic's ``thinking``), each
    joined; the reasoning may stand in a field of its own. With calls of tools it may be null.
    """
    content = message.get("content")
    apart = next((message[name] for name in _REASONING_FIELDS if isinstance(message.get(name), str)), "")
    if content is None and (message.get("tool_calls") or apart):
        return apart, ""
    if not isinstance(content, list):
        return apart, record.checked_text(f"{what}.content", content)
    reasoning, texts = [apart] if apart else [], []
    for number, part in enumerate(content):
        place = f"{what}.content[{number}]"
        form = part.get("type") if isinstance(part, dict) else json_type(part)
        if form in ("text", "input_text", "output_text"):
            texts.append(record.checked_text(f"{place}.text", part.get("text")))
        elif form not in ("reasoning", "thinking", ENCRYPTED):
            raise record.error(f'"{place}" is {form!r}, not text or reasoning, the only parts that are scored')
        elif form != ENCRYPTED and not part.get("redacted"):
            reasoning.append(record.checked_text(f"{place}.{form}", part.get(form)))
    return "\n\n".join(reasoning), "".join(texts)


def other_fields(name: str, fields: Mapping[str, Any]) -> str:
    """Return the end of a message that a row lacks a field: which others may be meant; empty where there are none."""
    values, found = [(path, value) for path, value in fields.items() if path not in _KNOWN], []
    for path, value in values:
        match value:
            case dict():
                values += [(f"{path}.{key}", child) for key, child in value.items()]
            case str() | int() | float() | [str() | {"text": _} | {"content": _} | {"message": _}, *_]:
                found.append(path)
    return f"; --{name}-field names another field: {', '.join(found[:8])}" if found else ""
