"""Rows of conversations: ``llm logs --json``, ShareGPT, Alpaca, Langfuse, OpenCompass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tokur_cli.records.formats.base import Format, Given, Items, Note, each, with_fields, with_tokur
from tokur_cli.records.formats.everyday import row_format
from tokur_cli.records.prompt import read_response, with_reasoning
from tokur_cli.records.record import Record

_UNREAD = ("prompt_fragments", "system_fragments", "attachments", "tool_calls", "tool_results")
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
_OPENCOMPASS_ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}


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


def _adapt_sharegpt(record: Record) -> Record:
    system = record.get("system")
    turns = [{"role": "system", "content": system}] if isinstance(system, str) else []
    turns += [{"role": _ROLES[turn["from"]], "content": turn["value"]} for turn in record.fields["conversations"]]
    is_answered = bool(turns) and turns[-1]["role"] == "assistant"
    return with_fields(record, messages=turns, response=turns[-1]["content"] if is_answered else None)


def _is_sharegpt(fields: Mapping[str, Any]) -> bool:
    turns = fields.get("conversations")
    return isinstance(turns, list) and bool(turns) and isinstance(turns[0], dict) and "from" in turns[0]


def _adapt_alpaca(record: Record) -> Record:
    instruction, more = record.text("instruction"), record.get("input")
    question = f"{instruction}\n\n{record.text('input')}" if more else instruction
    return with_fields(record, question=question, response=record.text("output"))


def _adapt_input_output(record: Record) -> Record:
    given, said = record.fields["input"], record.fields["output"]
    given = given["messages"] if isinstance(given, dict) and "messages" in given else given
    prompt = {"question": given} if isinstance(given, str) else {"messages": given}
    if isinstance(said, dict):
        said = read_response("output", said, record)
    return with_fields(record, **prompt, response=record.checked_text("output", said))


def _is_input_output(fields: Mapping[str, Any]) -> bool:
    has_both = isinstance(fields.get("input"), (str, list, dict)) and isinstance(fields.get("output"), (str, dict))
    return has_both and not any(name in fields for name in ("question", "messages", "prompt", "response"))


def _adapt_opencompass(record: Record) -> Record:
    asked, response = record.fields["origin_prompt"], record.text("prediction")
    if isinstance(asked, str):
        return with_fields(record, prompt=asked, response=response)
    turns = [
        {"role": _OPENCOMPASS_ROLES.get(turn.get("role"), turn.get("role")), "content": turn.get("prompt")}
        for turn in asked
    ]
    return with_fields(record, messages=turns, response=response)


LLM = Format(
    "llm",
    "what llm logs --json prints: prompt, system, response, of one conversation in order",
    lambda fields: {"prompt", "system", "response"} <= fields.keys() and "messages" not in fields,
    _read_llm,
)
SHAREGPT = row_format(
    "sharegpt",
    "ShareGPT rows: conversations of from (human, gpt, system) and value",
    _is_sharegpt,
    _adapt_sharegpt,
)
ALPACA = row_format(
    "alpaca",
    "Alpaca rows: instruction, input, output",
    lambda fields: {"instruction", "output"} <= fields.keys(),
    _adapt_alpaca,
)
INPUT_OUTPUT = row_format(
    "input-output",
    "rows of input and output (texts, or messages), as Langfuse exports them",
    _is_input_output,
    _adapt_input_output,
)
OPENCOMPASS = row_format(
    "opencompass",
    "OpenCompass predictions: origin_prompt, prediction, gold",
    lambda fields: {"origin_prompt", "prediction"} <= fields.keys(),
    _adapt_opencompass,
)
