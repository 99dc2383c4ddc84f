"""Rows of conversations: ``llm logs --json``, ShareGPT, Alpaca, Langfuse, OpenCompass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tokur_cli.records.errors import RecordError
from tokur_cli.records.formats.base import (
    Adapter,
    Format,
    Given,
    required,
    row_format,
    typed,
    with_fields,
    with_tokur,
)
from tokur_cli.records.prompt import read_response, with_reasoning
from tokur_cli.records.record import Record

_LLM, _SHAREGPT, _ALPACA = "llm", "sharegpt", "alpaca"
_INPUT_OUTPUT, _OPENCOMPASS = "input-output", "opencompass"
_UNREAD = ("prompt_fragments", "system_fragments", "attachments", "tool_calls", "tool_results")
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}

Turns = list[dict[str, Any]]


def _new_llm_adapter(given: Given) -> Adapter:
    conversations: dict[str, Turns] = {}

    def adapt(record: Record) -> Iterator[Record | RecordError]:
        for name in _UNREAD:
            if record.get(name):
                raise record.error(f'its prompt had "{name}", which are not read')
        prompt = required(record, "prompt", _LLM, str)
        response = required(record, "response", _LLM, str)
        system = typed(record, '"system"', record.get("system"), _LLM, str, type(None))
        conversation = record.get("conversation_id")
        turns = conversations.get(conversation, []) if isinstance(conversation, str) else []
        if not turns and not _begins(record, prompt):
            raise record.error("its conversation began before these logs: print all of them, llm logs --json -n 0")
        if system and system not in [turn["content"] for turn in turns if turn["role"] == "system"]:
            turns = [*turns, {"role": "system", "content": system}]
        turns = [*turns, {"role": "user", "content": prompt}]
        if isinstance(conversation, str):
            conversations[conversation] = [*turns, {"role": "assistant", "content": response}]
        reasoning = typed(record, '"reasoning"', record.get("reasoning"), _LLM, str, type(None))
        adapted = with_fields(record, messages=turns, response=with_reasoning(reasoning or "", response))
        yield with_tokur(adapted, model=record.get("model"))

    return Adapter(adapt)


def _begins(record: Record, prompt: str) -> bool:
    """Return whether a row is its conversation's first, whose name llm takes from the first prompt."""
    name = record.get("conversation_name")
    return not isinstance(name, str) or re.sub(r"\s+", " ", prompt).startswith(name.removesuffix("…"))


def _adapt_sharegpt(record: Record) -> Record:
    turns: Turns = []
    if isinstance(record.get("system"), str):
        turns.append({"role": "system", "content": record.get("system")})
    for number, turn in enumerate(required(record, "conversations", _SHAREGPT, list)):
        what = f'"conversations[{number}]"'
        turn = typed(record, what, turn, _SHAREGPT, dict)
        role = turn.get("from")
        if not isinstance(role, str) or role not in _ROLES:
            raise record.error(f"{what} is from {role!r}; turns that are read are from {', '.join(_ROLES)}")
        turns.append(
            {"role": _ROLES[role], "content": typed(record, f"{what}.value", turn.get("value"), _SHAREGPT, str)}
        )
    response = turns[-1]["content"] if turns and turns[-1]["role"] == "assistant" else None
    return with_fields(record, messages=turns, response=response)


def _adapt_alpaca(record: Record) -> Record:
    instruction = required(record, "instruction", _ALPACA, str)
    more = typed(record, '"input"', record.get("input"), _ALPACA, str, type(None))
    question = f"{instruction}\n\n{more}" if more else instruction
    return with_fields(record, question=question, response=required(record, "output", _ALPACA, str))


def _is_sharegpt(fields: Mapping[str, Any]) -> bool:
    turns = fields.get("conversations")
    return isinstance(turns, list) and bool(turns) and isinstance(turns[0], dict) and "from" in turns[0]


def _adapt_input_output(record: Record) -> Record:
    given, said = record.fields["input"], record.fields["output"]
    given = given["messages"] if isinstance(given, dict) and "messages" in given else given
    prompt = {"question": given} if isinstance(given, str) else {"messages": given}
    if isinstance(said, dict):
        said = read_response("output", said, record)
    return with_fields(record, **prompt, response=typed(record, '"output"', said, _INPUT_OUTPUT, str))


def _adapt_opencompass(record: Record) -> Record:
    asked = required(record, "origin_prompt", _OPENCOMPASS, str, list)
    response = required(record, "prediction", _OPENCOMPASS, str)
    if isinstance(asked, str):
        return with_fields(record, prompt=asked, response=response)
    turns = [typed(record, '"origin_prompt"', turn, _OPENCOMPASS, dict) for turn in asked]
    roles = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}
    messages = [
        {"role": roles.get(str(turn.get("role")), turn.get("role")), "content": turn.get("prompt")} for turn in turns
    ]
    return with_fields(record, messages=messages, response=response)


LLM = Format(
    _LLM,
    "what llm logs --json prints: prompt, system, response, of one conversation in order",
    lambda fields: {"prompt", "system", "response"} <= fields.keys() and "messages" not in fields,
    _new_llm_adapter,
)
SHAREGPT = row_format(
    _SHAREGPT,
    "ShareGPT rows: conversations of from (human, gpt, system) and value",
    _is_sharegpt,
    _adapt_sharegpt,
)
ALPACA = row_format(
    _ALPACA,
    "Alpaca rows: instruction, input, output",
    lambda fields: {"instruction", "output"} <= fields.keys(),
    _adapt_alpaca,
)
INPUT_OUTPUT = row_format(
    _INPUT_OUTPUT,
    "rows of input and output (texts, or messages), as Langfuse exports them",
    lambda fields: (
        isinstance(fields.get("input"), (str, list, dict))
        and isinstance(fields.get("output"), (str, dict))
        and not any(name in fields for name in ("question", "messages", "prompt", "response"))
    ),
    _adapt_input_output,
)
OPENCOMPASS = row_format(
    _OPENCOMPASS,
    "OpenCompass predictions: origin_prompt, prediction, gold",
    lambda fields: {"origin_prompt", "prediction"} <= fields.keys(),
    _adapt_opencompass,
)
