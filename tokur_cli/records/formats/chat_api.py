"""What chat and completion services answer, in whatever layout it was saved: batches, saved answers, logged calls.

Every layout is turned into the body of a chat completion; each of its choices is a record.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from tokur_cli.records.encoding import encode_value, json_type
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.base import Adapter, Format, Given, article, required, typed, with_fields, with_tokur
from tokur_cli.records.formats.requests import read_body
from tokur_cli.records.prompt import is_bytes, is_withheld, read_response
from tokur_cli.records.record import Record

Body = Mapping[str, Any]
_BATCH, _COMPLETIONS, _CALLS = "openai-batch", "completions", "calls"
_PROMPTS = ("question", "messages", "prompt")
_JOINED = ("id", *_PROMPTS, "reference")  # of a request; any other field stays the completion's where both have it
_OF_ANSWERS = ("response", "tokur")
_TOKEN_ID = re.compile(r"token_id:(\d+)")  # as vLLM writes tokens with return_tokens_as_token_ids
_REASONS = {
    "end_turn": "stop",
    "eos_token": "stop",
    "eos": "stop",
    "stop_sequence": "stop_string",
    "word": "stop_string",
}
_REASONS |= {"max_tokens": "length", "max_output_tokens": "length", "model_context_window_exceeded": "length"}
_REASONS |= {"limit": "length", "tool_use": "tool_calls", "STOP": "stop", "MAX_TOKENS": "length"}


# --- choices ---


def read_choices(
    record: Record,
    body: Body,
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
            if "logged" in choice:
                fields["logprobs"] = choice["logprobs"]
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


def is_token_id(text: str) -> bool:
    """Return whether a token is written as its id, ``token_id:64``."""
    return _TOKEN_ID.fullmatch(text) is not None


def logged_tokens(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of ``tokur`` that hold a choice's exact tokens, as far as it tells them.

    Args:
        choice: with vLLM's ``token_ids``, or the ``logprobs`` of chat completions (``content``, each token with its
            text and, maybe, bytes) or of completions (``tokens``).
    """
    if choice.get("token_ids") is not None:
        return {"token_ids": choice["token_ids"]}
    logprobs = choice.get("logprobs")
    listed = (logprobs.get("content") or logprobs.get("tokens")) if isinstance(logprobs, dict) else None
    if not isinstance(listed, list):
        return {}
    texts = [token.get("token") if isinstance(token, dict) else token for token in listed]
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) < len(texts):
        return {}
    ids = [_TOKEN_ID.fullmatch(text) for text in strings]
    if all(ids):
        return {"token_ids": [int(match[1]) for match in ids if match]}
    return {"token_strings": [_string(text, token) for text, token in zip(strings, listed, strict=True)]}


def _string(text: str, token: Any) -> str | list[int]:
    """Return a token's text, or its bytes where they are not whole characters."""
    data = token.get("bytes") if isinstance(token, dict) else None
    if not is_bytes(data):
        return text
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return data


# --- layouts ---


def _body(record: Record, body: Body, place: str = "") -> Body:
    """Return what a service answered as the body of a chat completion; itself where it is none of the layouts."""
    return next((read(record, body, place) for is_one, read in LAYOUTS if is_one(body)), body)


def _one_choice(text: Any, reason: Any, logprobs: Any, model: Any = None, **message: Any) -> Body:
    """Return a chat completion of one choice, with the log-probabilities of a list of tokens."""
    choice = {
        "message": {"content": text, **message},
        "finish_reason": _finish(reason),
        "logprobs": {"content": logprobs} if logprobs else None,
    }
    return {"model": model, "choices": [choice | ({"logged": True} if logprobs else {})]}


def _finish(reason: Any) -> str | None:
    return _REASONS.get(reason, reason) if isinstance(reason, str) else None


def _token(text: Any, logprob: Any, top: Any = ()) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "top_logprobs": list(top or ())}


def _of_responses_api(record: Record, body: Body, place: str) -> Body:
    """OpenAI's Responses API."""
    output, error, incomplete = body.get("output"), body.get("error"), body.get("incomplete_details")
    if isinstance(error, dict):
        raise record.error(f"the request failed: {error.get('message')}")
    if not isinstance(output, list):
        raise record.error(f'"{place}output" is {json_type(output)}, not a list')
    parts = [part for item in _of_type(output, "message") for part in _dicts(item.get("content"))]
    reasoning = _of_type(output, "reasoning")
    thoughts = [part for item in reasoning for part in _dicts(item.get("content"))]
    logged = [token for part in parts for token in _dicts(part.get("logprobs"))]
    reason = incomplete.get("reason") if isinstance(incomplete, dict) else None
    message: dict[str, Any] = {
        "content": parts or None,
        "reasoning_content": "\n\n".join(str(part.get("text")) for part in thoughts),
        "tool_calls": _of_type(output, "function_call"),
        "withheld": bool(reasoning) and not thoughts,
    }
    choice = {
        "message": message,
        "finish_reason": _finish(reason) or "stop",
        "logprobs": {"content": logged} if logged else None,
    }
    return {**body, "choices": [choice]}


def _of_messages_api(record: Record, body: Body, place: str) -> Body:
    """Anthropic's Messages API."""
    content = body.get("content")
    if not isinstance(content, list):
        raise record.error(f'"content" is {json_type(content)}, not a list')
    known = ("text", "thinking", "tool_use", "redacted_thinking")
    unread = [block for block in _dicts(content) if block.get("type") not in known]
    return _one_choice(
        [*_of_type(content, "text"), *unread] or None,  # what cannot be read is an error that names it
        body.get("stop_reason"),
        None,
        body.get("model"),
        reasoning_content="\n\n".join(str(block.get("thinking")) for block in _of_type(content, "thinking")),
        tool_calls=_of_type(content, "tool_use"),
        withheld=bool(_of_type(content, "redacted_thinking")),
    )


def _of_ollama(record: Record, body: Body, place: str) -> Body:
    """Ollama's chats."""
    message = body["message"]
    reason, logprobs, model = (body.get(name) for name in ("done_reason", "logprobs", "model"))
    return _one_choice(message.get("content"), reason, logprobs, model, reasoning_content=message.get("thinking"))


def _of_llama_cpp(record: Record, body: Body, place: str) -> Body:
    """llama.cpp's own completions; before December 2024 it gave probabilities."""
    tokens = []
    for token in _dicts(body.get("completion_probabilities")):
        if "probs" not in token:
            tokens.append(token)
            continue
        top = [_token(other.get("tok_str"), _log(other.get("prob"))) for other in _dicts(token["probs"])]
        own = (other["logprob"] for other in top if other["token"] == token.get("content"))
        tokens.append(_token(token.get("content"), next(own, -9999.0), top))
    stopped = (name for name in ("limit", "word", "eos") if body.get(f"stopped_{name}"))
    reason = body.get("stop_type") or next(stopped, None)
    return _one_choice(body.get("content"), reason, tokens, body.get("model"))


def _log(probability: Any) -> Any:
    is_number = isinstance(probability, (int, float)) and probability > 0
    return math.log(probability) if is_number else -9999.0


def _of_sglang(record: Record, body: Body, place: str) -> Body:
    """SGLang's own generate: tokens as [log-probability, id, text]."""
    info = body["meta_info"]
    tops = info.get("output_top_logprobs") or []
    tokens = [
        _token(token[2], token[0], [_token(other[2], other[0]) for other in _triples(top)])
        for token, top in _with_tops(_triples(info.get("output_token_logprobs")), tops)
    ]
    reason = info.get("finish_reason")
    kind = reason.get("type") if isinstance(reason, dict) else reason
    if kind == "stop" and isinstance(reason, dict) and isinstance(reason.get("matched"), str):
        kind = "stop_string"
    return _one_choice(body["text"], kind, tokens)


def _with_tops(tokens: list[Any], tops: Any) -> list[tuple[Any, Any]]:
    """Return each token with the likeliest ones at its place, where there are any."""
    listed = tops if isinstance(tops, list) else []
    return list(zip(tokens, [*listed, *[None] * len(tokens)], strict=False))


def _triples(value: Any) -> list[list[Any]]:
    """Return a list of [log-probability, id, text]; none without texts."""
    listed = value if isinstance(value, list) else []
    return [item for item in listed if isinstance(item, list) and len(item) == 3 and isinstance(item[2], str)]


def _of_tgi(record: Record, body: Body, place: str) -> Body:
    """Hugging Face's Text Generation Inference."""
    details = body["details"]
    tops = details.get("top_tokens") or []
    tokens = [
        _token(token.get("text"), token.get("logprob"), [_token(o.get("text"), o.get("logprob")) for o in _dicts(top)])
        for token, top in _with_tops(_dicts(details.get("tokens")), tops)
    ]
    return _one_choice(body["generated_text"], details.get("finish_reason"), tokens)


def _of_gemini(record: Record, body: Body, place: str) -> Body:
    """Google's Gemini API, as its service (camelCase) or its client (snake_case) writes it."""

    def get(value: Any, name: str) -> Any:
        snake = re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name)
        return value.get(name, value.get(snake)) if isinstance(value, dict) else None

    choices = []
    for candidate in _dicts(body.get("candidates")):
        parts = _dicts(get(candidate.get("content"), "parts"))
        result = get(candidate, "logprobsResult")
        tops = _dicts(get(result, "topCandidates"))
        chosen = _dicts(get(result, "chosenCandidates"))
        tokens = [
            _token(one.get("token"), get(one, "logProbability"), [
                _token(other.get("token"), get(other, "logProbability")) for other in _dicts(get(top, "candidates"))
            ])
            for one, top in _with_tops(chosen, tops)
        ]  # fmt: skip
        said = [part for part in parts if isinstance(part.get("text"), str)]
        text = "".join(part["text"] for part in said if not part.get("thought"))
        thought = "".join(part["text"] for part in said if part.get("thought"))
        choices += _one_choice(text, get(candidate, "finishReason"), tokens, reasoning_content=thought)["choices"]
    return {"model": get(body, "modelVersion"), "choices": choices}


def _is_dict(body: Any, name: str) -> bool:
    return isinstance(body, dict) and isinstance(body.get(name), dict)


def _is_list(body: Body, name: str) -> bool:
    value = body.get(name)
    return isinstance(value, list) and bool(value)


LAYOUTS: tuple[tuple[Callable[[Body], bool], Callable[[Record, Body, str], Body]], ...] = (
    (lambda body: body.get("object") == "response" and "choices" not in body, _of_responses_api),
    (
        lambda body: (body.get("type"), body.get("role")) == ("message", "assistant") and _is_list(body, "content"),
        _of_messages_api,
    ),
    (lambda body: _is_dict(body, "message") and "done" in body and "model" in body, _of_ollama),
    (lambda body: "completion_probabilities" in body and isinstance(body.get("content"), str), _of_llama_cpp),
    (lambda body: _is_dict(body, "meta_info") and isinstance(body.get("text"), str), _of_sglang),
    (lambda body: _is_dict(body, "details") and isinstance(body.get("generated_text"), str), _of_tgi),
    (lambda body: _is_list(body, "candidates") and _is_dict(body["candidates"][0], "content"), _of_gemini),
)
"""How the answers of services are recognised, and turned into chat completions."""


def _of_type(items: Any, form: str) -> list[dict[str, Any]]:
    return [item for item in _dicts(items) if item.get("type") == form]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# --- batches ---


def _new_batch_adapter(given: Given) -> Adapter:
    requests = {} if given.requests is None else given.requests.by_id()

    def adapt(record: Record) -> Iterator[Record | RecordError]:
        identity = record.checked_text("custom_id", required(record, "custom_id", _BATCH, str))
        body = _read_batch_body(record)
        prompt = {"id": identity}
        if given.requests is not None:
            request = requests.get(identity)
            if request is None:
                raise record.error(f"{given.requests.name} has no request with custom_id {identity!r}")
            place = f"its request ({request.source}:{request.line})"
            if not isinstance(request.get("body"), dict):
                raise record.error(f"{place} has no body")
            prompt |= read_body(place, record, request.get("body"))

        def keep_one(one: Record, choice: dict[str, Any]) -> None:
            one.set("response", {**one.get("response"), "body": {**body, "choices": [choice]}})

        yield from read_choices(record, body, _BATCH, prompt, keep_one, place="response.body.")

    return Adapter(adapt)


def _read_batch_body(record: Record) -> Body:
    """Return the body of a request that succeeded."""
    error = record.get("error")
    if error is not None:
        raise record.error(f"the request failed: {_reason(error)}")
    response = required(record, "response", _BATCH, dict)
    body = response.get("body")
    status = response.get("status_code", 200)
    if status != 200:
        raise record.error(f"the request failed with status {status}: {_reason(body)}")
    body = _body(record, typed(record, '"response.body"', body, _BATCH, dict), "response.body.")
    if "choices" not in body:
        raise record.error(
            f"is not {article(_BATCH)} row of chat completions, completions or responses, but of "
            f"{body.get('object', json_type(body))!r}"
        )
    return body


def _reason(error: Any) -> str:
    """Return the message in an error as the services write it."""
    if isinstance(error, dict):
        inner = error.get("error")
        return _reason(inner) if isinstance(inner, dict) else str(error.get("message") or json.dumps(error))
    return str(error)


OPENAI_BATCH = Format(
    _BATCH,
    "OpenAI batch and vLLM run_batch output: custom_id, response; prompts from --requests",
    lambda fields: "custom_id" in fields and ("error" in fields or _is_dict(fields, "response")),
    _new_batch_adapter,
    takes_requests=True,
    without_prompt=lambda fields: (
        "has no prompt: give the batch's input file with --requests" if "custom_id" in fields else ""
    ),
    logprobs=("source.response.body.choices.0.logprobs", "source.response.body.output.*.content.*.logprobs"),
)


# --- saved answers, their requests in the same order ---


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
        body = _body(row, row.fields)
        if request is None:
            prompt: dict[str, Any] = {"id": None} if any(row.get(name) is not None for name in _PROMPTS) else {}
        else:
            row, prompt = _joined(row, request, f"its request ({request.source}:{request.line})")
        # The id of a completion is no question's, so that samples of one question are told apart by their numbers
        question = {name: prompt.get(name, row.get(name)) for name in ("id", *_PROMPTS, "prompt_token_ids")}
        key = blake2b(encode_value(question), digest_size=8).digest()
        for record in read_choices(row, body, _COMPLETIONS, prompt, _keep_one, first=self._samples[key]):
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


def _is_completion(fields: Mapping[str, Any]) -> bool:
    if fields.get("object") in ("chat.completion", "text_completion"):
        return isinstance(fields.get("choices"), list)
    return any(is_one(fields) for is_one, _ in LAYOUTS)


COMPLETIONS = Format(
    _COMPLETIONS,
    "what the services of OpenAI, Anthropic, Gemini, Ollama, llama.cpp, SGLang and TGI return, one a line; prompts "
    "from --requests, in order",
    _is_completion,
    _Completions,
    takes_requests=True,
    without_prompt=lambda fields: (
        "has no prompt, since a saved completion does not hold what was asked: give the requests or questions with "
        "--requests, one for each completion in the same order"
        if _is_completion(fields)
        else ""
    ),
    logprobs=("choices.0.logprobs", "output.*.content.*.logprobs"),
)


# --- logged calls: request and answer in one row ---


def _adapt_call(record: Record) -> Iterator[Record | RecordError]:
    answer = required(record, "response", _CALLS, dict)
    answer = answer["body"] if isinstance(answer.get("body"), dict) else answer
    request = record.fields if "request" not in record.fields else required(record, "request", _CALLS, dict)
    request = request["body"] if isinstance(request.get("body"), dict) else request
    prompt = read_body("its request", record, {name: request[name] for name in request if name != "response"})
    body = _body(record, answer, "response.")

    def keep_one(one: Record, choice: dict[str, Any]) -> None:
        one.set("response", {**body, "choices": [choice]})

    model = body.get("model") or request.get("model")
    yield from read_choices(record, {**body, "model": model}, _CALLS, prompt, keep_one, place="response.")


def _is_call(fields: Mapping[str, Any]) -> bool:
    if not _is_dict(fields, "response") or "custom_id" in fields:
        return False
    answer = fields["response"]
    answer = answer["body"] if _is_dict(answer, "body") else answer
    has_request = _is_dict(fields, "request") or any(name in fields for name in ("messages", "input", "prompt"))
    return has_request and ("choices" in answer or any(is_one(answer) for is_one, _ in LAYOUTS))


CALLS = Format(
    _CALLS,
    "logged calls of services, as LiteLLM and OpenRouter keep them: request (or messages) and response as objects",
    _is_call,
    lambda given: Adapter(_adapt_call),
    logprobs=(
        "source.response.choices.0.logprobs",
        "source.response.body.choices.0.logprobs",
        "source.response.output.*.content.*.logprobs",
    ),
)
