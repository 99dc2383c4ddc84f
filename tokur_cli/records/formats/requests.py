"""The requests that rows answer: a batch's are found by their id, others come in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record


@dataclass(frozen=True)
class RequestFile:
    """A file of requests, which a format reads in the way in which it joins them with the rows.

    Attributes:
        name: the file's name, for messages.
        in_order: yields the records of the file, in whatever format they are.
        rows: yields its rows as they stand there.
        counts: tells how many rows and how many requests there are; None where that cannot be known beforehand.
    """

    name: str
    in_order: Callable[[], Iterator[Record | RecordError]]
    rows: Callable[[], Iterator[Record | RecordError]]
    counts: Callable[[], tuple[int, int] | None]

    def by_id(self) -> dict[str, Record]:
        """Return a batch's requests by their ``custom_id``.

        Raises:
            TokurError: the file cannot be read, holds a row that is not a request, or two requests with one id.
        """
        requests: dict[str, Record] = {}
        for row in self.rows():
            try:
                if isinstance(row, RecordError):
                    raise row
                identity = row.text("custom_id")
            except RecordError as error:
                raise TokurError(f"{error}; is this the batch's input file?") from None
            if identity in requests:
                raise TokurError(
                    f"{self.name}:{row.line}: a second request with custom_id {identity!r}; the first is on line "
                    f"{requests[identity].line}"
                )
            requests[identity] = row
        return requests


def read_body(place: str, record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that hold the prompt of a request: ``messages`` and ``tools``, ``prompt`` or its token ids.

    Args:
        place: names the request, for errors.
        record: the record that answers it, for errors.
        body: the request to OpenAI's chat completions, completions or responses, or to Anthropic's messages.
    """
    if "messages" in body or "input" in body:
        tools = body.get("tools")
        tools = [_function(tool) for tool in tools] if isinstance(tools, list) else tools
        for tool in tools if isinstance(tools, list) else []:
            if isinstance(tool, dict) and tool.get("type") != "function":
                raise record.error(f"{place} has the tool {tool.get('type')!r}; only functions can be named to a model")
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


def _function(tool: Any) -> Any:
    """Return the definition of a tool, Anthropic's in the form of OpenAI's."""
    if not isinstance(tool, dict) or not isinstance(tool.get("input_schema"), dict):
        return tool
    known = {name: tool[name] for name in ("name", "description") if name in tool}
    return {"type": "function", "function": {**known, "parameters": tool["input_schema"]}}
