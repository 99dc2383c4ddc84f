"""Rows of conversations: ``llm logs --json``, ShareGPT, Alpaca, Langfuse, OpenCompass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tokur_cli.records.formats.base import Fields, Format, Given, Items, Note, each, has, with_tokur
from tokur_cli.records.formats.everyday import row_format
from tokur_cli.records.mapping import with_fields
from tokur_cli.records.prompt import read_response, with_reasoning
from tokur_cli.records.record import Record

_UNREAD = ("prompt_fragments", "system_fragments", "attachments", "tool_calls", "tool_results")
_ROLES = {name: name for name in ("system", "user", "assistant")}
_ROLES |= {"human": "user", "gpt": "assistant", "HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}


def _read_llm(rows: Items, given: Given, note: Note) -> Items:
    conversations: dict[str, list[dict[str, Any]]] = {}

    def adapt(record: Record) -> Iterator[Record]:
        for name in _UNREAD:
            if record.get(name):
                raise record.error(f'its prompt had "{name}", which are not read')
        prompt, response, system = record.text("prompt"), record.text("response"), record.get("system")
        conversation, name = record.get("conversation_id"), record.get("conversation_name")
        turns = conversations.get(conversation, []) if isinstance(conversation, str) else []
        begins = not isinstance(name, str) or re.sub(r"\s+", " ", prompt).startswith(name.removesuffix("…"))
        if not turns and not begins:  # llm names a conversation by its first prompt
            raise record.error("its conversation began before these logs: print all of them, llm logs --json -n 0")
        if system and system not in [turn["content"] for turn in turns if turn["role"] == "system"]:
            turns = [*turns, {"role": "system", "content": record.checked_text("system", system)}]
        turns = [*turns, {"role": "user", "content": prompt}]
        if isinstance(conversation, str):
            conversations[conversation] = [*turns, {"role": "assistant", "content": response}]
        adapted = with_fields(record, messages=turns, response=with_reasoning(record.get("reasoning") or "", response))
        yield with_tokur(adapted, model=record.get("model"))

    return each(rows, "llm", adapt)


llm = Format(
    "llm",
    "what llm logs --json prints: prompt, system, response, of one conversation in order",
    lambda fields: {"prompt", "system", "response"} <= fields.keys() and "messages" not in fields,
    _read_llm,
)


def _turns(turns: list[dict[str, Any]], role: str, content: str) -> list[dict[str, Any]]:
    """Return chat turns whose role and content stand under other names."""
    return [{"role": _ROLES[turn[role]], "content": turn[content]} for turn in turns]


def _is_sharegpt(fields: Fields) -> bool:
    turns = fields.get("conversations")
    return isinstance(turns, list) and bool(turns) and isinstance(turns[0], dict) and "from" in turns[0]


@row_format("sharegpt", "ShareGPT rows: conversations of from (human, gpt, system) and value", _is_sharegpt)
def sharegpt(record: Record) -> Record:
    """The last turn is the response if it is the model's."""
    system = record.get("system")
    turns = [{"role": "system", "content": system}] if isinstance(system, str) else []
    turns += _turns(record.fields["conversations"], "from", "value")
    is_answered = bool(turns) and turns[-1]["role"] == "assistant"
    return with_fields(record, messages=turns, response=turns[-1]["content"] if is_answered else None)


@row_format("alpaca", "Alpaca rows: instruction, input, output", has("instruction", "output"))
def alpaca(record: Record) -> Record:
    """The input, where there is one, stands below the instruction."""
    question = record.text("instruction") + (f"\n\n{record.text('input')}" if record.get("input") else "")
    return with_fields(record, question=question, response=record.text("output"))


@row_format(
    "opencompass", "OpenCompass predictions: origin_prompt, prediction, gold", has("origin_prompt", "prediction")
)
def opencompass(record: Record) -> Record:
    """The prompt is text, or turns."""
    asked = record.fields["origin_prompt"]
    prompt = {"prompt": asked} if isinstance(asked, str) else {"messages": _turns(asked, "role", "prompt")}
    return with_fields(record, **prompt, response=record.text("prediction"))


def _is_input_output(fields: Fields) -> bool:
    has_both = isinstance(fields.get("input"), (str, list, dict)) and isinstance(fields.get("output"), (str, dict))
    return has_both and not any(name in fields for name in ("question", "messages", "prompt", "response"))


@row_format("input-output", "rows of input and output (texts, or messages), as Langfuse exports them", _is_input_output)
def input_output(record: Record) -> Record:
    """Messages may stand in an object of their own."""
    asked, said = record.fields["input"], record.fields["output"]
    asked = asked["messages"] if isinstance(asked, dict) and "messages" in asked else asked
    prompt = {"question": asked} if isinstance(asked, str) else {"messages": asked}
    text = read_response("output", said, record) if isinstance(said, dict) else record.checked_text("output", said)
    return with_fields(record, **prompt, response=text)
