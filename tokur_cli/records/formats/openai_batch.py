"""The output of OpenAI's batch API and of vLLM's ``run_batch``, joined with the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tokur_cli.records.encoding import json_type
from tokur_cli.records.errors import RecordError
from tokur_cli.records.formats.adapting import Adapter, Format, Given, article, required, typed
from tokur_cli.records.formats.choices import read_choices
from tokur_cli.records.formats.request_body import read_body
from tokur_cli.records.formats.requests import RequestFile
from tokur_cli.records.formats.responses_api import as_chat_completion
from tokur_cli.records.record import Record

_NAME = "openai-batch"


def _new_adapter(given: Given) -> Adapter:
    requests = None if given.requests is None else (given.requests, given.requests.by_id())

    def adapt(record: Record) -> Iterator[Record | RecordError]:
        identity = record.checked_text("custom_id", required(record, "custom_id", _NAME, str))
        body = _read_body(record)
        prompt = {"id": identity, **_read_prompt(record, identity, requests)}

        def keep_one(one: Record, choice: dict[str, Any]) -> None:
            one.set("response", {**one.get("response"), "body": {**body, "choices": [choice]}})

        yield from read_choices(record, body, _NAME, prompt, keep_one, place="response.body.")

    return Adapter(adapt)


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
        body = as_chat_completion(record, body, "response.body.")
    if "choices" not in body:
        raise record.error(
            f"is not {article(_NAME)} row of chat completions, completions or responses, but of "
            f"{body.get('object', json_type(body))!r}"
        )
    return dict(body)


def _reason(error: Any) -> str:
    """Return the message in an error as the services write it."""
    if isinstance(error, dict):
        inner = error.get("error")
        return _reason(inner) if isinstance(inner, dict) else str(error.get("message") or json.dumps(error))
    return str(error)


def _read_prompt(
    record: Record, identity: str, requests: tuple[RequestFile, dict[str, Record]] | None
) -> dict[str, Any]:
    """Return the fields that hold the prompt, from the request."""
    if requests is None:
        return {}
    file, by_id = requests
    request = by_id.get(identity)
    if request is None:
        raise record.error(f"{file.name} has no request with custom_id {identity!r}")
    place = f"its request ({request.source}:{request.line})"
    body = request.get("body")
    if not isinstance(body, dict):
        raise record.error(f"{place} has no body")
    return read_body(place, record, body)


def _recognises(fields: Mapping[str, Any]) -> bool:
    return "custom_id" in fields and ("error" in fields or isinstance(fields.get("response"), dict))


OPENAI_BATCH = Format(
    _NAME,
    "OpenAI batch and vLLM run_batch output: custom_id, response; prompts from --requests",
    _recognises,
    _new_adapter,
    takes_requests=True,
    without_prompt=lambda fields: (
        "has no prompt: give the batch's input file with --requests" if "custom_id" in fields else ""
    ),
    logprobs=("source.response.body.choices.0.logprobs", "source.response.body.output.*.content.*.logprobs"),
)
