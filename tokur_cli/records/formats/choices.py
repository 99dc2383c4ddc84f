"""The answers of chat and completion services, wherever they were saved: a record for each choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tokur_cli.records.errors import RecordError
from tokur_cli.records.formats.adapting import typed, with_fields, with_tokur
from tokur_cli.records.formats.logged_tokens import logged_tokens
from tokur_cli.records.prompt import is_withheld, read_response
from tokur_cli.records.record import Record


def read_choices(
    record: Record,
    body: dict[str, Any],
    form: str,
    prompt: dict[str, Any],
    keep_one: Callable[[Record, dict[str, Any]], None],
    *,
    place: str = "",
    first: int = 0,
) -> Iterator[Record | RecordError]:
    """Yield a record for each choice, and an error in the place of a bad one.

    Args:
        record: the row.
        body: what the service answered, as a chat completion or a completion.
        form: the format's name, for errors.
        prompt: the fields that hold the prompt, and the id; a prompt's token ids are ``prompt_token_ids``.
        keep_one: takes all choices but one out of a row that has several.
        place: what stands before a field of the body in errors, with its dot.
        first: the number of the first sample.
    """
    choices = typed(record, f'"{place}choices"', body.get("choices"), form, list)
    if not choices:
        raise record.error(f'"{place}choices" is empty')
    for position, choice in enumerate(choices):
        what = f"{place}choices[{position}]"
        try:
            choice = typed(record, f'"{what}"', choice, form, dict)
            text = _read_text(record, what, choice, form)
            one = record.copy()
            if len(choices) > 1:  # else every record would carry all the others' responses
                keep_one(one, choice)
            fields, index = dict(prompt), choice.get("index", position)
            prompt_ids = fields.pop("prompt_token_ids", None)
            if prompt_ids is None:
                prompt_ids = body.get("prompt_token_ids") or choice.get("prompt_token_ids")
            yield with_tokur(
                with_fields(one, response=text, **fields),
                model=body.get("model"),
                sample=index + first if isinstance(index, int) else index,
                # vLLM tells which of the request's stop strings ended a response; no end token follows it then
                finish_reason=(
                    "stop_string" if isinstance(choice.get("stop_reason"), str) else choice.get("finish_reason")
                ),
                prompt_token_ids=prompt_ids,
                reasoning="withheld" if is_withheld(choice.get("message")) else None,
                **logged_tokens(choice),
            )
        except RecordError as error:
            yield error


def _read_text(record: Record, what: str, choice: dict[str, Any], form: str) -> str:
    if "message" not in choice:
        return record.checked_text(f"{what}.text", choice.get("text"))
    message = typed(record, f'"{what}.message"', choice["message"], form, dict)
    return read_response(f"{what}.message", message, record)
