"""The log-probabilities that services return beside a response: of its tokens, and of the likeliest at each place."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, NamedTuple

from tokur_cli.records.mapping import find_value
from tokur_cli.records.prompt import is_bytes
from tokur_cli.records.record import Record

# In a record, or in the source that keeps what its fields were: of saved answers, batches, logged calls and Inspect
_PLACES = ("logprobs", *(f"{answer}choices.0.logprobs" for answer in ("", "response.body.", "response.", "output.")))
TOKEN_ID = re.compile(r"token_id:(\d+)")  # as vLLM writes tokens with return_tokens_as_token_ids
_ESCAPED = re.compile(r"bytes:(\\x[0-9a-f]{2})+")  # as OpenAI's completions write what is no whole character
VERY_UNLIKELY = -9999.0  # as a log-probability no number: the service does not say how unlikely
_MOST = 1e-3  # of a log-probability, as services round
_MOST_MASS = 1.01  # of the likeliest tokens together
_LIKELIEST_OF_ALL = -0.6932  # log of a half, rounded down: no other token is likelier than this one


class LoggedToken(NamedTuple):
    """What a service says about one token of a response; log p in nats."""

    text: bytes
    logprob: float | None  # None where the service does not say
    likeliest: tuple[float, ...]  # of the likeliest tokens at this place, as far as they are known to be that
    texts: tuple[bytes, ...]  # of the likeliest


def logged_tokens(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of ``tokur`` that hold a choice's exact tokens, as far as it tells them.

    It may have vLLM's ``token_ids``, or the ``logprobs`` of chat completions (``content``) or completions (``tokens``).
    """
    if choice.get("token_ids") is not None:
        return {"token_ids": choice["token_ids"]}
    listed = find_value(choice, "logprobs.content", list) or find_value(choice, "logprobs.tokens", list) or []
    tokens = [token if isinstance(token, dict) else {"token": token} for token in listed]
    if not tokens or not all(isinstance(token.get("token"), str) for token in tokens):
        return {}
    if all(TOKEN_ID.fullmatch(token["token"]) for token in tokens):
        return {"token_ids": [int(token["token"].partition(":")[2]) for token in tokens]}
    texts = [(text, text.decode("utf-8", "replace")) for text in map(_text_of, tokens)]
    # bytes where they are not whole characters
    return {"token_strings": [spelled if spelled.encode() == text else list(text) for text, spelled in texts]}


def logged_logprobs(record: Record) -> list[LoggedToken]:
    """Return what a record's log says about each token of its response.

    Read are the ``logprobs`` of chat completions (``content``), of completions (``tokens``, ``token_logprobs``,
    ``top_logprobs``), and a list of tokens, which is also what the answers of other services were turned into.

    Raises:
        RecordError: there are none, or they are no log-probabilities of this response's tokens.
    """
    what, rows = _find(record)
    try:
        if isinstance(rows, dict) and "tokens" in rows:
            numbers, likeliest = (rows.get(name) or [] for name in ("token_logprobs", "top_logprobs"))
            tops = ([{"token": name, "logprob": value} for name, value in (top or {}).items()] for top in likeliest)
            parallel = itertools.zip_longest(rows["tokens"], numbers, tops)
            rows = [{"token": text, "logprob": number, "top_logprobs": top} for text, number, top in parallel]
        elif isinstance(rows, dict):
            rows = rows["content"]
        tokens = [_read(record, f"{what}, token {number}", row) for number, row in enumerate(rows, start=1)]
    except (KeyError, TypeError, AttributeError):
        raise record.error(f'"{what}" is no list of tokens with their log-probabilities') from None
    if not tokens:
        raise record.error(f'"{what}" holds no tokens')
    known = [token.logprob for token in tokens if token.logprob is not None]
    if known and rows[0].get("logprob") is None:
        raise record.error(f'"{what}" has none for its first token, as where the prompt is echoed before the response')
    if len(known) > 1 and not any(known) and not any(number < 0 for token in tokens for number in token.likeliest):
        raise record.error(f'"{what}" is 0 for every token, as of a service that reports none, or after its sampling')
    return tokens


def _find(record: Record) -> tuple[str, Any]:
    """Return the path of the record's log-probabilities, and what stands there."""
    fields, before = record.fields, ""
    while fields:
        for place in _PLACES:
            if (value := find_value(fields, place)) is not None:
                return before + place, value
        fields, before = find_value(fields, "source", dict), f"{before}source."
    raise record.error('has no "logprobs": ask the service for "top_logprobs": 20, or leave out --from-logprobs')


def _read(record: Record, what: str, row: dict[str, Any]) -> LoggedToken:
    if not isinstance(row["token"], str):
        raise TypeError
    logprob, tops = _number(record, f"{what}: logprob", row.get("logprob")), row.get("top_logprobs") or ()
    listed = [(_number(record, f"{what}: top_logprobs", top.get("logprob")), top) for top in tops]
    likeliest = [(number, top) for number, top in listed if number is not None]
    if (mass := sum(math.exp(number) for number, _ in likeliest)) > _MOST_MASS:
        raise record.error(f"{what}: top_logprobs: the probabilities sum to {mass:.3g}")
    is_first = bool(likeliest) and (likeliest[0][0], likeliest[0][1].get("token")) == (logprob, row["token"])
    # vLLM puts the sampled token first, whether it is one of the likeliest or not. Where it is less likely than all
    # others, or alone, and not more likely than all that are not listed, it may be there as the sampled one only
    if is_first and likeliest[0][0] < min((number for number, _ in likeliest[1:]), default=_LIKELIEST_OF_ALL):
        del likeliest[0]
    likeliest.sort(key=lambda pair: -pair[0])
    texts = tuple(_text_of(top) for _, top in likeliest)
    return LoggedToken(_text_of(row), logprob, tuple(number for number, _ in likeliest), texts)


def _text_of(row: dict[str, Any]) -> bytes:
    """Return a token's bytes; none where a service names no text."""
    if is_bytes(row.get("bytes")):
        return bytes(row["bytes"])
    if not isinstance(token := row.get("token"), str):
        return b""
    is_escaped = _ESCAPED.fullmatch(token)
    return bytes.fromhex(re.sub(r"bytes:|\\x", "", token)) if is_escaped else token.encode("utf-8", "surrogatepass")


def _number(record: Record, what: str, value: Any) -> float | None:
    number = record.number(what, value)
    if number is not None and number > _MOST:
        raise record.error(f"{what} is {number:g}, which is the logarithm of no probability")
    return None if number is None or number <= VERY_UNLIKELY else min(number, 0.0)
