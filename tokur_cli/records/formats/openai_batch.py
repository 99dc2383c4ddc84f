"""The output of OpenAI's batch API and of vLLM's ``run_batch``, joined with the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tokur_cli.records.errors import RecordError
from tokur_cli.records.formats.adapting import Adapter, Format, article, required, typed, with_fields, with_tokur
from tokur_cli.records.formats.logged_tokens import logged_tokens
from tokur_cli.records.formats.requests import Requests
from tokur_cli.records.formats.responses_api import as_chat_completion, check_tools, read_messages
from tokur_cli.records.prompt import is_withheld, read_response
from tokur_cli.records.record import Record
from tokur_cli.records.scan import kind

_NAME = "openai-batch"


def _new_adapter(requests: Requests | None) -> Adapter:
    def adapt(record: Record) -> Iterator[Record | RecordError]:
        identity = record.checked_text("custom_id", required(record, "custom_id", _NAME, str))
        body = _read_body(record)
        choices = typed(record, '"response.body.choices"', body.get("choices"), _NAME, list)
        if not choices:
            raise record.error('"response.body.choices" is empty')
        prompt = _read_prompt(record, identity, requests)
        for position, choice in enumerate(choices):
            try:
                yield _adapt_choice(record, identity, body, position, choice, prompt)
            except RecordError as error:
                yield error

    return adapt


def _read_body(record: Record) -> dict[str, Any]:
    """Return the body of a request that succeeded."""
    error = record.get("error")
    if error is not None:
        raise record.error(f"the request failed: {_reason(error)}")
    response = required(record, "response", _NAME, dict)
    body = response.get("body")
    status = response.get("status_code", 200)
    if status != 200:
        raise record.error(f"the request failed with status {status}: {_reason(body)}")
    body = typed(record, '"response.body"', body, _NAME, dict)
    if body.get("object") == "response":
        body = as_chat_completion(record, body)
    if "choices" not in body:
        raise record.error(
            f"is not {article(_NAME)} row of chat completions, completions or responses, but of "
            f"{body.get('object', kind(body))!r}"
        )
    return dict(body)


def _reason(error: Any) -> str:
    """Return the message in an error as the services write it."""
    if isinstance(error, dict):
        inner = error.get("error")
        return _reason(inner) if isinstance(inner, dict) else str(error.get("message") or json.dumps(error))
    return str(error)


def _adapt_choice(
    record: Record, identity: str, body: dict[str, Any], position: int, choice: Any, prompt: dict[str, Any]
) -> Record:
    what = f"response.body.choices[{position}]"
    choice = typed(record, f'"{what}"', choice, _NAME, dict)
    text = _read_text(record, what, choice)
    one = record.copy()
    if len(body["choices"]) > 1:  # else every record would carry all the others' responses
        one.set("response", {**record.get("response"), "body": {**body, "choices": [choice]}})
    fields = dict(prompt)
    prompt_ids = fields.pop("prompt_token_ids", None)
    if prompt_ids is None:
        prompt_ids = body.get("prompt_token_ids") or choice.get("prompt_token_ids")
    one = with_fields(one, id=identity, response=text, **fields)
    return with_tokur(
        one,
        model=body.get("model"),
        sample=choice.get("index", position),
        # vLLM tells which of the request's stop strings ended a response; no end token follows it then
        finish_reason="stop_string" if isinstance(choice.get("stop_reason"), str) else choice.get("finish_reason"),
        prompt_token_ids=prompt_ids,
        reasoning="withheld" if is_withheld(choice.get("message")) else None,
        **logged_tokens(choice),
    )


def _read_text(record: Record, what: str, choice: dict[str, Any]) -> str:
    if "message" not in choice:
        return record.checked_text(f"{what}.text", choice.get("text"))
    message = typed(record, f'"{what}.message"', choice["message"], _NAME, dict)
    return read_response(f"{what}.message", message, record)


def _read_prompt(record: Record, identity: str, requests: Requests | None) -> dict[str, Any]:
    """Return the fields that hold the prompt, from the request."""
    if requests is None:
        return {}
    request = requests.find(identity)
    if request is None:
        raise record.error(f"{requests.name} has no request with custom_id {identity!r}")
    place = f"its request ({request.source}:{request.line})"
    body = request.get("body")
    if not isinstance(body, dict):
        raise record.error(f"{place} has no body")
    if "messages" in body or "input" in body:
        messages = body["messages"] if "messages" in body else read_messages(place, record, body)
        check_tools(place, record, body.get("tools"))
        return {"messages": messages, "tools": body.get("tools")}
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


def _recognises(fields: Mapping[str, Any]) -> bool:
    return "custom_id" in fields and ("error" in fields or isinstance(fields.get("response"), dict))


OPENAI_BATCH = Format(
    _NAME,
    "OpenAI batch and vLLM run_batch output: custom_id, response; prompts from --requests",
    _recognises,
    _new_adapter,
    takes_requests=True,
)
