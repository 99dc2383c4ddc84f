"""Saved answers of chat and completion services; what was asked is in another file, in the same order.

These are what the clients of OpenAI and Anthropic return, as ``model_dump_json()`` writes it: chat completions,
completions, responses and messages. None of them holds its request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats import messages_api, responses_api
from tokur_cli.records.formats.adapting import Adapter, Format, Given, with_fields
from tokur_cli.records.formats.choices import read_choices
from tokur_cli.records.formats.request_body import read_body
from tokur_cli.records.record import Record

_NAME = "completions"
_PROMPTS = ("question", "messages", "prompt")
_JOINED = ("id", *_PROMPTS, "reference")  # of a request; any other field stays the completion's where both have it
_WITHOUT_PROMPT = (
    "has no prompt, since a saved completion does not hold what was asked: give the requests or questions with "
    "--requests, one for each completion in the same order"
)
_OF_ANSWERS = ("response", "tokur")


class _Completions(Adapter):
    """Joins each row with the request in the same position."""

    def __init__(self, given: Given) -> None:
        self._file, self._asked, self._taken = given.requests, None, 0
        self._samples: Counter[bytes] = Counter()  # of each question so far
        if self._file is not None:
            counts = self._file.counts()
            if counts is not None and counts[0] != counts[1]:
                raise self._unequal(f"{counts[0]:,}", f"{counts[1]:,}")
            self._asked = self._file.in_order()

    def read(self, row: Record, position: int) -> Iterator[Record | RecordError]:
        """Yield a record for each choice of a completion."""
        request = self._request(row, position)
        body = _as_chat_completion(row)
        if request is None:
            prompt: dict[str, Any] = {"id": None} if any(row.get(name) is not None for name in _PROMPTS) else {}
        else:
            row, prompt = _joined(row, request, f"its request ({request.source}:{request.line})")
        # The id of a completion is no question's, so that samples of one question are told apart by their numbers
        question = {name: prompt.get(name, row.get(name)) for name in ("id", *_PROMPTS, "prompt_token_ids")}
        key = blake2b(encode_value(question), digest_size=8).digest()
        for record in read_choices(row, body, _NAME, prompt, _keep_one, first=self._samples[key]):
            yield record
            self._samples[key] += 1

    def finish(self, count: int) -> Iterator[str]:
        """Check that there were as many requests.

        Raises:
            TokurError: there are more.
        """
        if self._asked is not None:
            self._pass_over(count)
            if next(self._asked, None) is not None:
                raise self._unequal(f"{count:,}", "more")
        return iter(())

    def _request(self, row: Record, position: int) -> Record | None:
        """Return the request on a place; None where there is no file of them."""
        if self._asked is None:
            return None
        self._pass_over(position)
        item = next(self._asked, None)
        self._taken += 1
        if item is None:
            raise self._unequal(f"more than {position:,}", f"{position:,}")
        if isinstance(item, RecordError):
            raise row.error(f"its request is a bad one: {item}")
        return item

    def _pass_over(self, position: int) -> None:
        """Go to the request on a place."""
        assert self._asked is not None
        while self._taken < position:
            next(self._asked, None)
            self._taken += 1

    def _unequal(self, rows: str, requests: str) -> TokurError:
        assert self._file is not None
        return TokurError(
            f"{self._file.name}: holds {requests} requests, but there are {rows} completions: each completion is "
            "joined with the request in the same position"
        )


def _as_chat_completion(row: Record) -> dict[str, Any]:
    if row.get("object") == "response":
        return responses_api.as_chat_completion(row, row.fields)
    return messages_api.as_chat_completion(row, row.fields) if row.get("type") == "message" else row.fields


def _keep_one(record: Record, choice: dict[str, Any]) -> None:
    record.set("choices", [choice])


def _joined(row: Record, request: Record, place: str) -> tuple[Record, dict[str, Any]]:
    """Return a completion with the other fields of its question, and the fields that hold the prompt, and the id."""
    body = request.get("body")
    if isinstance(body, dict):  # of a batch
        return row, {"id": request.get("custom_id"), **read_body(place, row, body)}
    asked = {name: request.get(name) for name in ("id", "reference")}
    if request.get("question") is None:
        return row, {**asked, **read_body(place, row, request.fields)}
    joined = with_fields(row, **{name: request.fields.get(name) for name in _JOINED})
    for name in request.fields:
        if name in _JOINED or not (name in row.fields or name in _OF_ANSWERS):
            joined.set(name, request.fields[name])
    return joined, {}


def _recognises(fields: Mapping[str, Any]) -> bool:
    if fields.get("object") in ("chat.completion", "text_completion"):
        return isinstance(fields.get("choices"), list)
    if fields.get("object") == "response":
        return isinstance(fields.get("output"), list)
    kind = fields.get("type"), fields.get("role")
    return kind == ("message", "assistant") and isinstance(fields.get("content"), list)


COMPLETIONS = Format(
    _NAME,
    "what OpenAI's and Anthropic's clients return (model_dump_json), one a line; prompts from --requests, in order",
    _recognises,
    _Completions,
    takes_requests=True,
    without_prompt=lambda fields: _WITHOUT_PROMPT if _recognises(fields) else "",
    logprobs=("choices.0.logprobs", "output.*.content.*.logprobs"),
)
