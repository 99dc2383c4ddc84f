"""Samples of Inspect AI logs (``.eval``, ``.json``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokur_cli.records.formats.adapting import required, row_format, typed, with_fields, with_tokur
from tokur_cli.records.formats.logged_tokens import logged_tokens
from tokur_cli.records.prompt import read_content
from tokur_cli.records.record import Record

_NAME = "inspect"
_ATTACHMENT = "attachment://"
_LENGTH_REASONS = ("max_tokens", "model_length")  # which everyone else calls "length"


def _adapt(record: Record) -> Record:
    fields: dict[str, Any] = {"response": _read_response(record)}
    question = required(record, "input", _NAME, str, list)
    if isinstance(question, str):
        fields["question"] = _inline(record, "input", question)
    if not _ends_with_response(record, fields["response"]):
        # solvers may have added turns to the input, so the conversation, where there is one, is what the model saw
        fields["messages"] = question if isinstance(question, list) else None
    target = record.get("target")
    fields["reference"] = target[0] if isinstance(target, list) and len(target) == 1 else target
    required(record, "id", _NAME, int, str)
    epoch = required(record, "epoch", _NAME, int)
    output = record.fields["output"]
    choice = output["choices"][0]
    stop_reason = choice.get("stop_reason")
    return with_tokur(
        with_fields(record, **fields),
        model=output.get("model") or None,
        sample=epoch - 1,
        finish_reason="length" if stop_reason in _LENGTH_REASONS else stop_reason,
        **logged_tokens(choice),
    )


def _read_response(record: Record) -> str:
    error = record.get("error")
    if error is not None:
        raise record.error(f"the sample failed: {error.get('message') if isinstance(error, dict) else error}")
    choices = required(record, "output", _NAME, dict).get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise record.error(f'is not an {_NAME} sample with a response: "output.choices" is empty')
    message = typed(record, '"output.choices[0].message"', choices[0].get("message"), _NAME, dict)
    content = read_content("output.choices[0].message.content", message.get("content"), record)
    return _inline(record, "output.choices[0].message.content", content)


def _ends_with_response(record: Record, response: str) -> bool:
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        return False
    last = messages[-1]
    return (
        last.get("role") == "assistant"
        and read_content("messages[-1].content", last.get("content"), record) == response
    )


def _inline(record: Record, what: str, text: str) -> str:
    if text.startswith(_ATTACHMENT):
        raise record.error(f'"{what}" is stored as an attachment: write the log again with resolve_attachments=True')
    return text


def _recognises(fields: Mapping[str, Any]) -> bool:
    return {"epoch", "input", "target", "output"} <= fields.keys()


INSPECT = row_format(_NAME, "Inspect AI logs (.eval, .json): id, epoch, input, target, output", _recognises, _adapt)
