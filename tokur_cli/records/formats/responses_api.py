"""OpenAI's Responses API: what its requests asked and what its responses say, in the terms of chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokur_cli.records.encoding import json_type
from tokur_cli.records.record import Record


def as_chat_completion(record: Record, body: dict[str, Any], place: str = "") -> dict[str, Any]:
    """Return the body of a chat completion that says the same as a response's.

    Args:
        record: the row, for errors.
        body: the response.
        place: what stands before a field of the body in errors, with its dot.
    """
    output, error, incomplete = body.get("output"), body.get("error"), body.get("incomplete_details")
    if isinstance(error, dict):
        raise record.error(f"the request failed: {error.get('message')}")
    if not isinstance(output, list):
        raise record.error(f'"{place}output" is {json_type(output)}, not a list')
    items = [item for item in output if isinstance(item, dict)]
    parts = [part for item in _of_type(items, "message") for part in _dicts(item.get("content"))]
    thoughts = [part for item in _of_type(items, "reasoning") for part in _dicts(item.get("content"))]
    logged = [token for part in parts for token in _dicts(part.get("logprobs"))]
    reason = incomplete.get("reason") if isinstance(incomplete, dict) else None
    message: dict[str, Any] = {
        "content": parts or None,
        "reasoning_content": "\n\n".join(str(part.get("text")) for part in thoughts),
        "tool_calls": _of_type(items, "function_call"),
        "withheld": bool(_of_type(items, "reasoning")) and not thoughts,
    }
    choice = {
        "message": message,
        "finish_reason": "length" if reason == "max_output_tokens" else reason or "stop",
        "logprobs": {"content": logged} if logged else None,
    }
    return {**body, "choices": [choice]}


def read_messages(place: str, record: Record, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages that a request's body with ``input`` consists of."""
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name) is not None:
            raise record.error(f'{place} goes on from "{name}", which it does not hold')
    given = body["input"]
    turns = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(turns, list) or not all(isinstance(turn, dict) and "role" in turn for turn in turns):
        raise record.error(f"{place} has input that is neither text nor messages")
    instructions = body.get("instructions")
    return [{"role": "system", "content": instructions}, *turns] if instructions is not None else turns


def check_tools(place: str, record: Record, tools: Any) -> None:
    """Refuse a request's tools that no chat template can tell a model of."""
    for tool in _dicts(tools):
        if tool.get("type") != "function":
            raise record.error(f"{place} has the tool {tool.get('type')!r}; only functions can be told to a model")


def _of_type(items: list[dict[str, Any]], form: str) -> list[dict[str, Any]]:
    return [item for item in items if item.get("type") == form]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
