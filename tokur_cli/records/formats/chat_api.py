"""What chat and completion services answer, in whatever layout it was saved: batches, saved answers, logged calls.

Every layout is turned into the body of a chat completion; each of its choices is a record.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat
from typing import Any

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.base import Fields, Format, Given, Items, adapt_rows, dicts, digest, with_tokur
from tokur_cli.records.formats.logprobs import VERY_UNLIKELY, logged_tokens
from tokur_cli.records.mapping import find_value, with_fields
from tokur_cli.records.prompt import ENCRYPTED, read_response, read_tools
from tokur_cli.records.record import Record

_PROMPTS = ("question", "messages", "prompt")
_JOINED = ("id", *_PROMPTS, "reference")  # of a request; any other field stays the completion's where both have it
_REASONS = {
    **dict.fromkeys(("end_turn", "eos_token", "eos", "STOP"), "stop"),
    **dict.fromkeys(("stop_sequence", "word"), "stop_string"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("limit", "MAX_TOKENS"), "length"),
    "tool_use": "tool_calls",
}


def _layout(body: Fields) -> Callable[[Fields], list[dict[str, Any]]] | None:
    """Return what reads a service's answer as choices of a chat completion; None where it is one, or no answer."""
    match body:
        case {"object": "response"} if "choices" not in body:
            return _of_responses_api
        case {"type": "message", "role": "assistant", "content": blocks} if dicts(blocks):
            return _of_messages_api
        case {"candidates": [{"content": dict()}, *_]} | {"candidates": [{"finishReason": _}, *_], "modelVersion": _}:
            return _of_gemini
        case {"message": dict(), "done": _, "model": _}:  # of Ollama
            at = ["message.content", "done_reason", "logprobs", "", "message.thinking"]
        case {"completion_probabilities": _, "content": str()}:  # of llama.cpp
            at = ["content", "stop_type", "completion_probabilities"]
        case {"meta_info": dict(), "text": str()}:  # of SGLang
            at = ["text", "meta_info.finish_reason", "meta_info.output_token_logprobs", "meta_info.output_top_logprobs"]
        case {"details": dict(), "generated_text": str()}:  # of Hugging Face's Text Generation Inference
            at = ["generated_text", "details.finish_reason", "details.tokens", "details.top_tokens"]
        case _:
            return None
    return partial(_of_one_text, at)


def _choice(text: Any, reason: Any, tokens: Any = None, **message: Any) -> dict[str, Any]:
    """Return a choice of a chat completion, with the log-probabilities of a list of tokens."""
    if isinstance(reason, dict):  # of SGLang
        reason = "stop_string" if isinstance(reason.get("matched"), str) else reason.get("type")
    reason = _REASONS.get(reason, reason) if isinstance(reason, str) else None
    logprobs = {"content": tokens} if tokens else None
    choice = {"message": {"content": text, **message}, "finish_reason": reason, "logprobs": logprobs}
    return choice | ({"logged": True} if tokens else {})


def _tokens(listed: Any, tops: Any = None) -> list[dict[str, Any]]:
    """Return tokens as chat completions have them, with the likeliest ones at each place.

    Services write a token as an object of its text and its (log-)probability by various names, SGLang as a list of its
    log-probability, its id and its text.
    """
    tokens = []
    tops = chain(tops if isinstance(tops, list) else [], repeat(None))
    for token, top in zip(listed if isinstance(listed, list) else [], tops, strict=False):
        one = token if isinstance(token, dict) else dict(zip(("logprob", "id", "text"), token or (), strict=False))
        if not {"token", "logprob"} <= one.keys():
            text = next((one[name] for name in ("token", "text", "tok_str", "content") if name in one), None)
            logprob, likeliest = one.get("logprob", one.get("log_probability")), _tokens(top or one.get("probs"))
            if "prob" in one:
                logprob = math.log(one["prob"]) if one["prob"] > 0 else VERY_UNLIKELY
            elif "probs" in one:  # llama.cpp before December 2024 gave the probabilities of the likeliest alone
                logprob = next((other["logprob"] for other in likeliest if other["token"] == text), VERY_UNLIKELY)
            one = {"token": text, "logprob": logprob, "top_logprobs": likeliest}
        tokens.append(one)
    return tokens


def _of_one_text(paths: list[str], body: Fields) -> list[dict[str, Any]]:
    """Text, finish reason, tokens, the likeliest ones and reasoning at these paths; the last two may be missing."""
    text, reason, listed, tops, reasoning = (find_value(body, path) for path in [*paths, "", ""][:5])
    if not reason:  # of llama.cpp before December 2024
        reason = next((name for name in ("limit", "word", "eos") if body.get(f"stopped_{name}")), None)
    tokens = _tokens(listed, tops)
    are_texts = all(token["token"] is not None for token in tokens)  # SGLang gives them if asked to
    return [_choice(text, reason, tokens if are_texts else None, reasoning_content=reasoning)]


def _of_responses_api(body: Fields) -> list[dict[str, Any]]:
    """OpenAI's Responses API."""
    said, thought, calls = (dicts(body.get("output"), form) for form in ("message", "reasoning", "function_call"))
    texts, thoughts = ([part for item in items for part in dicts(item.get("content"))] for items in (said, thought))
    reasoning = [{"type": "reasoning", "reasoning": part.get("text")} for part in thoughts]
    hidden = [{"type": ENCRYPTED}] if thought and not thoughts else []
    tokens = [token for part in texts for token in dicts(part.get("logprobs"))]
    content = [*hidden, *reasoning, *texts] if texts else None
    return [_choice(content, find_value(body, "incomplete_details.reason") or "stop", tokens, tool_calls=calls)]


def _of_messages_api(body: Fields) -> list[dict[str, Any]]:
    """Anthropic's Messages API."""
    blocks = [block for block in body["content"] if block["type"] != "tool_use"]
    has_text = any(block["type"] not in ("thinking", ENCRYPTED) for block in blocks)
    content, calls = blocks if has_text else None, dicts(body["content"], "tool_use")
    return [_choice(content, body.get("stop_reason"), tool_calls=calls)]


def _of_gemini(body: Fields) -> list[dict[str, Any]]:
    """Google's Gemini API, as its service (camelCase) or its client (snake_case) writes it."""

    def in_snake_case(fields: Fields) -> Fields:
        return {re.sub("[A-Z]", lambda sign: f"_{sign[0].lower()}", name): value for name, value in fields.items()}

    body, choices = json.loads(json.dumps(body), object_hook=in_snake_case), []
    for candidate in dicts(body["candidates"]):
        result = candidate.get("logprobs_result") or {}
        tops = [top.get("candidates") for top in dicts(result.get("top_candidates"))]
        parts = [part for part in dicts(find_value(candidate, "content.parts")) if isinstance(part.get("text"), str)]
        text, thought = ("".join(p["text"] for p in parts if bool(p.get("thought")) == kind) for kind in (False, True))
        tokens = _tokens(result.get("chosen_candidates"), tops)
        choices.append(_choice(text, candidate.get("finish_reason"), tokens, reasoning_content=thought))
    return choices


# --- requests ---


def _read_request(record: Record, request: Record) -> dict[str, Any]:
    """Return the fields of the request that a record answers: the prompt, the id, and what else is known of it.

    It is a question, or a request to OpenAI's chat completions, completions or responses, or to Anthropic's messages,
    maybe in a batch.
    """
    if request.get("question") is not None:
        taken = (*_JOINED, *record.fields, "response", "tokur")
        return {name: request.get(name) for name in _JOINED} | request.copy(without=taken).fields
    place = f"its request ({request.source}:{request.line})"
    body = find_value(request.fields, "body", dict) or find_value(request.fields, "params", dict) or request.fields
    known = {"id": request.get("custom_id", request.get("id")), "reference": request.get("reference")}
    match body:
        case {"messages": messages}:
            system = body.get("system")
        case {"input": messages}:
            if before := [name for name in ("previous_response_id", "conversation", "prompt") if body.get(name)]:
                raise record.error(f'{place} goes on from "{before[0]}", which it does not hold')
            system = body.get("instructions")
            messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        case {"echo": echo} if echo:
            raise record.error(f"{place} asked for echo: prompt and response cannot be distinguished")
        case {"prompt": str(text) | [str(text)]}:
            return {**known, "prompt": text}
        case {"prompt": [[*tokens]] | [*tokens]} if all(type(token) is int for token in tokens):
            return {**known, "prompt_token_ids": tokens}
        case _:
            raise record.error(f"{place} has neither messages nor a single prompt")
    tools = body.get("tools")
    if tools and isinstance(tools, list) and read_tools(tools) is None:
        raise record.error(f"{place} has tools that are no functions, the only ones that can be named to a model")
    if system is not None and isinstance(messages, list):
        messages = [{"role": "system", "content": system}, *messages]
    return {**known, "messages": messages, "tools": tools}


# --- rows ---


def read_choice(record: Record, what: str, choice: dict[str, Any], asked: Fields, **known: Any) -> Iterator[Record]:
    """Yield the record of a choice of a chat completion or a completion, which errors call ``what``.

    ``asked`` are the fields of the prompt; ``known`` is what else ``tokur`` holds.
    """
    name, said = ("message", dict(choice["message"])) if "message" in choice else ("text", choice.get("text"))
    text = read_response(f"{what}.{name}", said, record)
    parts = dicts(find_value(choice, "message.content"))
    is_hidden = any(part.get("redacted") or part.get("type") == ENCRYPTED for part in parts)
    known["reasoning"] = "withheld" if is_hidden else None
    logged = {"logprobs": choice["logprobs"]} if "logged" in choice else {}
    # vLLM tells which of the request's stop strings ended a response; no end token follows it then
    reason = "stop_string" if isinstance(choice.get("stop_reason"), str) else choice.get("finish_reason")
    record = with_fields(record, response=text, **asked, **logged)
    yield with_tokur(record, **known, finish_reason=reason, **logged_tokens(choice))


def _read(rows: Items, given: Given) -> Items:
    """Join answers with their requests: by id in a batch, else with their own, or with the one in the same position."""
    first = next(rows)
    is_batch = isinstance(first, Record) and "custom_id" in first.fields
    asked, in_order = list(given.requests or ()), given.requests is not None and not is_batch
    keys = [row.get("custom_id") if is_batch and isinstance(row, Record) else n for n, row in enumerate(asked, start=1)]
    requests = dict(zip(map(str, keys), asked, strict=True))
    if len(requests) < len(asked):
        raise TokurError("--requests: some have one custom_id, or none; is this the batch's input file?")
    samples: Counter[bytes] = Counter()  # of each question so far

    def check_count(rows: int | None) -> None:
        if in_order and rows not in (None, len(requests)):
            raise TokurError(f"--requests: {len(requests):,} requests, but {rows:,} completions, which go in order")

    def adapt(row: Record, number: int) -> Items:
        place, body = _answer(row)
        key = row.text("custom_id") if is_batch else str(number)
        prompt: dict[str, Any] = {"id": key} if is_batch else {}
        if given.requests is not None:
            asked = requests.get(key, RecordError(f"there is none with the id or number {key}"))
            if isinstance(asked, RecordError):
                raise row.error(f"its request cannot be read: {asked}")
            prompt |= _read_request(row, asked)
        elif place and not is_batch:
            own = find_value(row.fields, "request.body", dict) or row.get("request", row.fields)
            known = {"id": row.get("id"), "reference": row.get("reference")}
            prompt = _read_request(row, Record({**own, **known}, row.source, row.line))
            body = {**body, "model": body.get("model") or own.get("model")}
        elif any(row.get(name) is not None for name in _PROMPTS):
            prompt["id"] = None  # the id of a completion is no question's
        # so samples of one question are told apart by their numbers
        question = digest({name: prompt.get(name, row.get(name)) for name in ("id", *_PROMPTS, "prompt_token_ids")})
        first, choices = samples[question], body["choices"]
        prompt_ids = prompt.pop("prompt_token_ids", None) or body.get("prompt_token_ids")
        samples[question] += len(choices)
        for position, choice in enumerate(choices or [{}]):
            one, index = row.copy(), find_value(choice, "index", int)
            if len(choices) > 1:  # else every record would carry all the others' responses
                own = {**body, "choices": [choice]}
                own = {**row.fields["response"], "body": own} if place == "response.body." else own
                one.set("response" if place else "choices", own if place else [choice])
            known = {"model": body.get("model"), "sample": first + (position if index is None else index)}
            known["prompt_token_ids"] = prompt_ids or find_value(choice, "prompt_token_ids")
            read = partial(read_choice, what=f"{place}choices[{position}]", choice=choice, asked=prompt, **known)
            yield from adapt_rows([one], COMPLETIONS.name, read)

    check_count(sum(1 for _ in given.again) if in_order and given.again else None)
    for number, row in enumerate(chain([first], rows), given.before + 1):
        yield from adapt_rows([row], COMPLETIONS.name, partial(adapt, number=number))
    check_count(number)


def _unwrapped(fields: Fields) -> tuple[str, Fields]:
    """Return where in a row a service's answer stands, such as ``response.body.``, or nowhere; and the answer."""
    is_of_anthropic = "custom_id" in fields and "response" not in fields
    for place in ("result.message", "result") if is_of_anthropic else ("response.body", "response"):
        if (answer := find_value(fields, place, dict)) is not None:
            return f"{place}.", answer
    return "", fields


def _answer(row: Record) -> tuple[str, Fields]:
    """Return the same of an answer that did not fail, in the form of a chat completion or a completion."""
    place, body = _unwrapped(row.fields)
    status, error = find_value(row.fields, "response.status_code"), row.get("error") or body.get("error")
    error = find_value(error, "error") or (body.get("type") if error is None and place == "result." else error)
    code = "" if status in (None, 200) else f" with status {status}"
    if code or (error and not body.get("choices")):
        said = find_value(error, "message") or error or body
        raise row.error(f"the request failed{code}: {said}")
    if (choices_of := _layout(body)) is not None:
        model = next((body[name] for name in ("model", "modelVersion", "model_version") if name in body), None)
        body = {"model": model, "choices": choices_of(body)}
    return place, body


def _is_answer(fields: Fields) -> bool:
    """Return whether a row holds a service's answer: by itself, or beside its request or its id in a batch."""
    place, answer = _unwrapped(fields)
    if "custom_id" in fields:
        return "error" in fields or bool(place)
    if not place and fields.get("object") in ("chat.completion", "text_completion"):
        return isinstance(fields.get("choices"), list)
    has_request = isinstance(fields.get("request"), dict) or bool({*_PROMPTS, "input"} & fields.keys())
    is_layout = _layout(answer) is not None
    return has_request and (is_layout or "choices" in answer) if place else is_layout


COMPLETIONS = Format("completions", _is_answer, _read)
