"""What a request to a chat or completion service asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokur_cli.records.formats.responses_api import check_tools, read_messages
from tokur_cli.records.record import Record


def read_body(place: str, record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that hold the prompt of a request: ``messages`` and ``tools``, ``prompt`` or its token ids.

    Args:
        place: names the request, for errors.
        record: the record that answers it, for errors.
        body: the request to OpenAI's chat completions, completions or responses, or to Anthropic's messages.
    """
    if "messages" in body or "input" in body:
        tools = _functions(body.get("tools"))
        check_tools(place, record, tools)
        messages = body["messages"] if "messages" in body else read_messages(place, record, body)
        if body.get("system") is not None and isinstance(messages, list):  # where Anthropic's requests have it
            messages = [{"role": "system", "content": body["system"]}, *messages]
        return {"messages": messages, "tools": tools}
    if body.get("echo"):
        raise record.error(f"{place} asked for echo: prompt and response cannot be told apart")
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, list) and all(type(token) is int for token in prompt):
        return {"prompt_token_ids": prompt}
    raise record.error(f"{place} has neither messages nor a single prompt")


def _functions(tools: Any) -> Any:
    """Return definitions of tools, Anthropic's in the form of OpenAI's."""
    return [_function(tool) for tool in tools] if isinstance(tools, list) else tools


def _function(tool: Any) -> Any:
    if not isinstance(tool, dict) or not isinstance(tool.get("input_schema"), dict):
        return tool
    told = {name: tool[name] for name in ("name", "description") if name in tool}
    return {"type": "function", "function": {**told, "parameters": tool["input_schema"]}}
