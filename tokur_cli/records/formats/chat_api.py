"""What chat and completion services answer, in whatever layout it was saved: batches, saved answers, logged calls.

Every layout is turned into the body of a chat completion; each of its choices is a record.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any

from tokur_cli.records.encoding import encode_value, json_type
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.base import (
    Format,
    Given,
    Items,
    Note,
    RequestFile,
    dicts,
    each,
    with_fields,
    with_tokur,
)
from tokur_cli.records.prompt import is_bytes, is_withheld, read_response
from tokur_cli.records.record import Record

Body = Mapping[str, Any]
_BATCH, _COMPLETIONS, _CALLS = "openai-batch", "completions", "calls"
_PROMPTS = ("question", "messages", "prompt")
_JOINED = ("id", *_PROMPTS, "reference")  # of a request; any other field stays the completion's where both have it
_TOKEN_ID = re.compile(r"token_id:(\d+)")  # as vLLM writes tokens with return_tokens_as_token_ids
_NONE = -9999.0  # log of a probability of 0
_REASONS = {
    **dict.fromkeys(("end_turn", "eos_token", "eos", "STOP"), "stop"),
    **dict.fromkeys(("stop_sequence", "word"), "stop_string"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("limit", "MAX_TOKENS"), "length"),
    "tool_use": "tool_calls",
}


# --- choices ---


def _read_choices(record: Record, body: Body, prompt: dict[str, Any], place: str = "", first: int = 0) -> Items:
    """Yield a record for each choice, and an error in the place of a bad one.

    Args:
        record: the row.
        body: what the service answered, as a chat completion or a completion.
        prompt: the fields that hold the prompt, and the id; a prompt's token ids are ``prompt_token_ids``.
        place: where the body stands in the row: nothing, ``response.`` or ``response.body.``.
        first: the number of the first sample.
    """
    if not body["choices"]:
        raise record.error(f'"{place}choices" is empty')
    prompt_ids = prompt.get("prompt_token_ids") or body.get("prompt_token_ids")
    fields = {name: value for name, value in prompt.items() if name != "prompt_token_ids"}
    for position, choice in enumerate(body["choices"]):
        what = f"{place}choices[{position}]"
        try:
            if "message" in choice:
                text = read_response(f"{what}.message", choice["message"], record)
            else:
                text = record.checked_text(f"{what}.text", choice.get("text"))
            one = record.copy()
            if len(body["choices"]) > 1:  # else every record would carry all the others' responses
                kept = {**body, "choices": [choice]}
                kept = {**one.get("response"), "body": kept} if place == "response.body." else kept
                one.set("response" if place else "choices", kept if place else [choice])
            index = choice.get("index", position)
            logged = {"logprobs": choice["logprobs"]} if "logged" in choice else {}
            yield with_tokur(
                with_fields(one, response=text, **fields, **logged),
                model=body.get("model"),
                sample=index + first if isinstance(index, int) else index,
                # vLLM tells which of the request's stop strings ended a response; no end token follows it then
                finish_reason=(
                    "stop_string" if isinstance(choice.get("stop_reason"), str) else choice.get("finish_reason")
                ),
                prompt_token_ids=prompt_ids or choice.get("prompt_token_ids"),
                reasoning="withheld" if is_withheld(choice.get("message")) else None,
                **logged_tokens(choice),
            )
        except RecordError as error:
            yield error
        except (TypeError, AttributeError):
            yield record.error(f'"{what}" is no choice')


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
    tokens = [token.get("token") if isinstance(token, dict) else token for token in listed]
    texts = [text for text in tokens if isinstance(text, str)]
    if len(texts) < len(listed):
        return {}
    ids = [_TOKEN_ID.fullmatch(text) for text in texts]
    if all(ids):
        return {"token_ids": [int(match[1]) for match in ids if match]}
    return {"token_strings": [_string(token) if isinstance(token, dict) else token for token in listed]}


def _string(token: dict[str, Any]) -> str | list[int]:
    """Return a token's text, or its bytes where they are not whole characters."""
    data: Any = token.get("bytes")
    try:
        return bytes(data).decode() if is_bytes(data) else str(token["token"])
    except UnicodeDecodeError:
        return list(data)


# --- layouts ---


def _body(record: Record, body: Body, place: str = "") -> Body:
    """Return what a service answered as the body of a chat completion; itself where it is none of the layouts."""
    return next((read(record, body, place) for is_one, read in _LAYOUTS if is_one(body)), body)


def _is_layout(body: Body) -> bool:
    return any(is_one(body) for is_one, _ in _LAYOUTS)


def _one_choice(text: Any, reason: Any, logprobs: list[Any] | None, model: Any = None, **message: Any) -> Body:
    """Return a chat completion of one choice, with the log-probabilities of a list of tokens."""
    choice = {
        "message": {"content": text, **message},
        "finish_reason": _REASONS.get(reason, reason) if isinstance(reason, str) else None,
        "logprobs": {"content": logprobs} if logprobs else None,
    }
    return {"model": model, "choices": [choice | ({"logged": True} if logprobs else {})]}


def _token(text: Any, logprob: Any, top: Iterable[Any] = ()) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "top_logprobs": list(top)}


def _of_responses_api(record: Record, body: Body, place: str) -> Body:
    """OpenAI's Responses API."""
    output, error, incomplete = body.get("output"), body.get("error"), body.get("incomplete_details")
    if isinstance(error, dict):
        raise record.error(f"the request failed: {error.get('message')}")
    if not isinstance(output, list):
        raise record.error(f'"{place}output" is {json_type(output)}, not a list')
    parts = [part for item in _of_type(output, "message") for part in dicts(item.get("content"))]
    reasoning = _of_type(output, "reasoning")
    thoughts = [part for item in reasoning for part in dicts(item.get("content"))]
    reason = incomplete.get("reason") if isinstance(incomplete, dict) else None
    read = _one_choice(
        parts or None,
        reason if isinstance(reason, str) else "stop",
        [token for part in parts for token in dicts(part.get("logprobs"))],
        reasoning_content="\n\n".join(str(part.get("text")) for part in thoughts),
        tool_calls=_of_type(output, "function_call"),
        withheld=bool(reasoning) and not thoughts,
    )
    read["choices"][0].pop("logged", None)  # the row keeps them where they are
    return {**body, "choices": read["choices"]}


def _of_messages_api(record: Record, body: Body, place: str) -> Body:
    """Anthropic's Messages API."""
    content = body.get("content")
    known = ("text", "thinking", "tool_use", "redacted_thinking")
    unread = [block for block in dicts(content) if block.get("type") not in known]
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
    for token in dicts(body.get("completion_probabilities")):
        if "probs" not in token:
            tokens.append(token)
            continue
        top = [_token(other.get("tok_str"), _log(other.get("prob"))) for other in dicts(token["probs"])]
        own = (other["logprob"] for other in top if other["token"] == token.get("content"))
        tokens.append(_token(token.get("content"), next(own, _NONE), top))
    stopped = (name for name in ("limit", "word", "eos") if body.get(f"stopped_{name}"))
    return _one_choice(body.get("content"), body.get("stop_type") or next(stopped, None), tokens, body.get("model"))


def _log(probability: Any) -> float:
    return math.log(probability) if isinstance(probability, (int, float)) and probability > 0 else _NONE


def _of_sglang(record: Record, body: Body, place: str) -> Body:
    """SGLang's own generate: tokens as [log-probability, id, text]."""
    info, reason = body["meta_info"], body["meta_info"].get("finish_reason")
    tokens = [
        _token(token[2], token[0], [_token(other[2], other[0]) for other in _triples(top)])
        for token, top in _with_tops(_triples(info.get("output_token_logprobs")), info.get("output_top_logprobs"))
    ]
    if isinstance(reason, dict):
        is_string = reason.get("type") == "stop" and isinstance(reason.get("matched"), str)
        reason = "stop_string" if is_string else reason.get("type")
    return _one_choice(body["text"], reason, tokens)


def _triples(value: Any) -> list[list[Any]]:
    """Return a list of [log-probability, id, text]; none without texts."""
    listed = value if isinstance(value, list) else []
    return [item for item in listed if isinstance(item, list) and len(item) == 3 and isinstance(item[2], str)]


def _with_tops(tokens: list[Any], tops: Any) -> list[tuple[Any, Any]]:
    """Return each token with the likeliest ones at its place, where there are any."""
    return list(zip(tokens, [*(tops if isinstance(tops, list) else []), *[None] * len(tokens)], strict=False))


def _of_tgi(record: Record, body: Body, place: str) -> Body:
    """Hugging Face's Text Generation Inference."""
    details = body["details"]
    tokens = [
        _token(token.get("text"), token.get("logprob"), [_token(o.get("text"), o.get("logprob")) for o in dicts(top)])
        for token, top in _with_tops(dicts(details.get("tokens")), details.get("top_tokens"))
    ]
    return _one_choice(body["generated_text"], details.get("finish_reason"), tokens)


def _of_gemini(record: Record, body: Body, place: str) -> Body:
    """Google's Gemini API, as its service (camelCase) or its client (snake_case) writes it."""

    def get(value: Any, name: str) -> Any:
        snake = re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name)
        return value.get(name, value.get(snake)) if isinstance(value, dict) else None

    def token(one: dict[str, Any], top: Any) -> dict[str, Any]:
        return _token(one.get("token"), get(one, "logProbability"), [token(other, None) for other in dicts(top)])

    choices = []
    for candidate in dicts(body.get("candidates")):
        result = get(candidate, "logprobsResult")
        tops = [get(top, "candidates") for top in dicts(get(result, "topCandidates"))]
        tokens = [token(one, top) for one, top in _with_tops(dicts(get(result, "chosenCandidates")), tops)]
        said = [part for part in dicts(get(candidate.get("content"), "parts")) if isinstance(part.get("text"), str)]
        text, thought = ("".join(p["text"] for p in said if bool(p.get("thought")) == kind) for kind in (False, True))
        choices += _one_choice(text, get(candidate, "finishReason"), tokens, reasoning_content=thought)["choices"]
    return {"model": get(body, "modelVersion"), "choices": choices}


def _is_dict(body: Any, name: str) -> bool:
    return isinstance(body, dict) and isinstance(body.get(name), dict)


def _is_list(body: Body, name: str) -> bool:
    return isinstance(body.get(name), list) and body[name] != []


def _of_type(items: Any, form: str) -> list[dict[str, Any]]:
    return [item for item in dicts(items) if item.get("type") == form]


_LAYOUTS: tuple[tuple[Callable[[Body], bool], Callable[[Record, Body, str], Body]], ...] = (
    (lambda body: body.get("object") == "response" and "choices" not in body, _of_responses_api),
    (
        lambda body: (body.get("type"), body.get("role")) == ("message", "assistant") and _is_list(body, "content"),
        _of_messages_api,
    ),
    (lambda body: _is_dict(body, "message") and "done" in body and "model" in body, _of_ollama),
    (lambda body: "completion_probabilities" in body and isinstance(body.get("content"), str), _of_llama_cpp),
    (lambda body: _is_dict(body, "meta_info") and isinstance(body.get("text"), str), _of_sglang),
    (lambda body: _is_dict(body, "details") and isinstance(body.get("generated_text"), str), _of_tgi),
    (lambda body: any(_is_dict(one, "content") for one in dicts(body.get("candidates"))[:1]), _of_gemini),
)
"""How the answers of services are recognised, and turned into chat completions."""


# --- requests ---


def _requests_by_id(file: RequestFile) -> dict[str, Record]:
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


def _read_body(place: str, record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
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


# --- batches ---


def _read_batch(rows: Items, given: Given, note: Note) -> Items:
    requests = {} if given.requests is None else _requests_by_id(given.requests)

    def adapt(record: Record) -> Items:
        identity = record.text("custom_id")
        body = _batch_body(record)
        prompt = {"id": identity}
        if given.requests is not None:
            request = requests.get(identity)
            if request is None:
                raise record.error(f"{given.requests.name} has no request with custom_id {identity!r}")
            place = f"its request ({request.source}:{request.line})"
            if not isinstance(request.get("body"), dict):
                raise record.error(f"{place} has no body")
            prompt |= _read_body(place, record, request.get("body"))
        return _read_choices(record, body, prompt, "response.body.")

    return each(rows, _BATCH, adapt)


def _batch_body(record: Record) -> Body:
    """Return the body of a request that succeeded."""
    if record.get("error") is not None:
        raise record.error(f"the request failed: {_reason(record.get('error'))}")
    response = record.fields["response"]
    body, status = response.get("body"), response.get("status_code", 200)
    if status != 200:
        raise record.error(f"the request failed with status {status}: {_reason(body)}")
    body = _body(record, body, "response.body.")
    if "choices" not in body:
        raise record.error(f"is no {_BATCH} row of completions or responses, but of {body.get('object')!r}")
    return body


def _reason(error: Any) -> str:
    """Return the message in an error as the services write it."""
    if isinstance(error, dict):
        return _reason(error.get("error") or error.get("message") or json.dumps(error))
    return str(error)


OPENAI_BATCH = Format(
    _BATCH,
    "OpenAI batch and vLLM run_batch output: custom_id, response; prompts from --requests",
    lambda fields: "custom_id" in fields and ("error" in fields or _is_dict(fields, "response")),
    _read_batch,
    takes_requests=True,
    logprobs=("source.response.body.choices.0.logprobs", "source.response.body.output.*.content.*.logprobs"),
)


# --- saved answers, their requests in the same order ---


def _read_completions(rows: Items, given: Given, note: Note) -> Items:
    """Join each row with the request in the same position."""
    samples: Counter[bytes] = Counter()  # of each question so far
    file = given.requests
    asked = iter(()) if file is None else _in_order(file, given.before)
    request: Record | RecordError | None = None

    def adapt(row: Record) -> Items:
        body = _body(row, row.fields)
        if isinstance(request, RecordError):
            raise row.error(f"its request is a bad one: {request}")
        if request is None:
            prompt: dict[str, Any] = {"id": None} if any(row.get(name) is not None for name in _PROMPTS) else {}
        else:
            row, prompt = _joined(row, request, f"its request ({request.source}:{request.line})")
        # The id of a completion is no question's, so that samples of one question are told apart by their numbers
        question = {name: prompt.get(name, row.get(name)) for name in ("id", *_PROMPTS, "prompt_token_ids")}
        key = blake2b(encode_value(question), digest_size=8).digest()
        for record in _read_choices(row, body, prompt, first=samples[key]):
            yield record
            samples[key] += 1

    count = given.before
    for count, row in enumerate(rows, given.before + 1):
        if file is not None:
            request = next(asked, None)
            if request is None:
                raise _unequal(file, f"more than {count - 1:,}", f"{count - 1:,}")
        yield from each(iter((row,)), _COMPLETIONS, adapt)
    if file is not None and next(asked, None) is not None:
        raise _unequal(file, f"{count:,}", "more")


def _in_order(requests: RequestFile, before: int) -> Items:
    counts = requests.counts()
    if counts is not None and counts[0] != counts[1]:
        raise _unequal(requests, f"{counts[0]:,}", f"{counts[1]:,}")
    return islice(requests.records(), before, None)


def _unequal(file: RequestFile, rows: str, requests: str) -> TokurError:
    return TokurError(
        f"{file.name}: holds {requests} requests, but there are {rows} completions: each completion is joined with the "
        "request in the same position"
    )


def _joined(row: Record, request: Record, place: str) -> tuple[Record, dict[str, Any]]:
    """Return a completion with the other fields of its question, and the fields that hold the prompt, and the id."""
    body = request.get("body")
    if isinstance(body, dict):  # of a batch
        return row, {"id": request.get("custom_id"), **_read_body(place, row, body)}
    if request.get("question") is None:
        known = {name: request.get(name) for name in ("id", "reference")}
        return row, {**known, **_read_body(place, row, request.fields)}
    joined = with_fields(row, **{name: request.fields.get(name) for name in _JOINED})
    for name in request.fields:
        if name in _JOINED or not (name in row.fields or name in ("response", "tokur")):
            joined.set(name, request.fields[name])
    return joined, {}


def _is_completion(fields: Mapping[str, Any]) -> bool:
    if fields.get("object") in ("chat.completion", "text_completion"):
        return isinstance(fields.get("choices"), list)
    return _is_layout(fields)


COMPLETIONS = Format(
    _COMPLETIONS,
    "what the services of OpenAI, Anthropic, Gemini, Ollama, llama.cpp, SGLang and TGI return, one a line; prompts "
    "from --requests, in order",
    _is_completion,
    _read_completions,
    takes_requests=True,
    logprobs=("choices.0.logprobs", "output.*.content.*.logprobs"),
)


# --- logged calls: request and answer in one row ---


def _adapt_call(record: Record) -> Items:
    answer, request = record.fields["response"], record.get("request", record.fields)
    answer, request = (one["body"] if _is_dict(one, "body") else one for one in (answer, request))
    prompt = _read_body("its request", record, {name: request[name] for name in request if name != "response"})
    body = _body(record, answer, "response.")
    model = body.get("model") or request.get("model")
    return _read_choices(record, {**body, "model": model}, prompt, "response.")


def _is_call(fields: Mapping[str, Any]) -> bool:
    if not _is_dict(fields, "response") or "custom_id" in fields:
        return False
    answer = fields["response"]
    answer = answer["body"] if _is_dict(answer, "body") else answer
    has_request = _is_dict(fields, "request") or any(name in fields for name in ("messages", "input", "prompt"))
    return has_request and ("choices" in answer or _is_layout(answer))


CALLS = Format(
    _CALLS,
    "logged calls of services, as LiteLLM and OpenRouter keep them: request (or messages) and response as objects",
    _is_call,
    lambda rows, given, note: each(rows, _CALLS, _adapt_call),
    logprobs=(
        "source.response.choices.0.logprobs",
        "source.response.body.choices.0.logprobs",
        "source.response.output.*.content.*.logprobs",
    ),
)
