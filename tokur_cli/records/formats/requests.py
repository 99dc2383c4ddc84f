"""The requests that rows answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.base import RequestFile
from tokur_cli.records.record import Record


def requests_by_id(file: RequestFile) -> dict[str, Record]:
    """Return a batch's requests by their ``custom_id``.

    Raises:
        TokurError: the file cannot be read, holds a row that is not a request, or two requests with one id.
    """
    requests: dict[str, Record] = {}
    for row in file.rows():
        try:
            if isinstance(row, RecordError):
                raise row
            identity = row.text("custom_id")
        except RecordError as error:
            raise TokurError(f"{error}; is this the batch's input file?") from None
        if identity in requests:
            raise TokurError(f"{file.name}:{row.line}: a second request with custom_id {identity!r}")
        requests[identity] = row
    return requests


def read_body(place: str, record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that hold the prompt of a request: ``messages`` and ``tools``, ``prompt`` or its token ids.

    It is one to OpenAI's chat completions, completions or responses, or to Anthropic's messages; ``place`` names it in
    the errors of the record that answers it.
    """
    if "messages" in body or "input" in body:
        tools = body.get("tools")
        tools = [_function(place, record, tool) for tool in tools] if isinstance(tools, list) else tools
        messages = body["messages"] if "messages" in body else _read_input(place, record, body)
        if body.get("system") is not None and isinstance(messages, list):  # where Anthropic's requests have it
            messages = [{"role": "system", "content": body["system"]}, *messages]
        return {"messages": messages, "tools": tools}
    if body.get("echo"):
        raise record.error(f"{place} asked for echo: prompt and response cannot be distinguished")
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, list) and all(type(token) is int for token in prompt):
        return {"prompt_token_ids": prompt}
    raise record.error(f"{place} has neither messages nor a single prompt")


def _read_input(place: str, record: Record, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages that a request to the Responses API consists of."""
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name) is not None:
            raise record.error(f'{place} goes on from "{name}", which it does not hold')
    given = body["input"]
    turns = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(turns, list) or not all(isinstance(turn, dict) and "role" in turn for turn in turns):
        raise record.error(f"{place} has input that is neither text nor messages")
    instructions = body.get("instructions")
    return [{"role": "system", "content": instructions}, *turns] if instructions is not None else turns


def _function(place: str, record: Record, tool: Any) -> Any:
    """Return the definition of a tool, Anthropic's in the form of OpenAI's."""
    if not isinstance(tool, dict):
        return tool
    if isinstance(tool.get("input_schema"), dict):
        known = {name: tool[name] for name in ("name", "description") if name in tool}
        return {"type": "function", "function": {**known, "parameters": tool["input_schema"]}}
    if tool.get("type") != "function":
        raise record.error(f"{place} has the tool {tool.get('type')!r}; only functions can be named to a model")
    return tool
