"""The log-probabilities that services return beside a response: of its tokens, and of the likeliest at each place."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tokur_cli.records.encoding import json_type
from tokur_cli.records.formats import FORMATS
from tokur_cli.records.mapping import value_at
from tokur_cli.records.prompt import is_bytes
from tokur_cli.records.record import Record

_ESCAPED = re.compile(r"bytes:(\\x[0-9a-f]{2})+")
_VERY_UNLIKELY = -9999.0  # no number: the service does not say how unlikely
_MOST = 1e-3  # of a log-probability, as services round
_MOST_MASS = 1.01  # of the likeliest tokens together
_LIKELIEST_OF_ALL = -0.6932  # log of a half, rounded down: no other token is likelier than this one


@dataclass(frozen=True)
class LoggedToken:
    """What a service says about one token of a response.

    Attributes:
        text: the token's bytes.
        logprob: log p of the token in nats; None where the service does not say.
        likeliest: log p of the likeliest tokens at this place, as far as they are known to be that, in nats.
        texts: what the ``likeliest`` add to a text.
    """

    text: bytes
    logprob: float | None
    likeliest: tuple[float, ...]
    texts: tuple[bytes, ...]


def logged_logprobs(record: Record) -> list[LoggedToken]:
    """Return what a record's log says about each token of its response.

    Read are, where the formats have them, the ``logprobs`` of chat completions (``content``), of completions
    (``tokens``, ``token_logprobs``, ``top_logprobs``), a list of tokens, and the ``output`` of the Responses API.

    Raises:
        RecordError: there are none, or they are no log-probabilities of this response's tokens.
    """
    what, found = _find(record)
    rows: Any
    if isinstance(found, dict) and isinstance(found.get("tokens"), list):
        rows = _rows_of_completions(record, what, found)
    else:
        rows = found.get("content") if isinstance(found, dict) else found
        if not isinstance(rows, list):
            raise record.error(f'"{what}" is {json_type(found)} without a list of tokens')
    if not rows:
        raise record.error(f'"{what}" holds no tokens')
    tokens = [_read(record, f"{what}, token {number}", row) for number, row in enumerate(rows, start=1)]
    known = [token.logprob for token in tokens if token.logprob is not None]
    if known and rows[0].get("logprob") is None:
        raise record.error(f'"{what}" has none for its first token, as where the prompt is echoed before the response')
    if len(known) > 1 and not any(known) and not any(number < 0 for token in tokens for number in token.likeliest):
        raise record.error(f'"{what}" is 0 for every token, as of a service that reports none, or after its sampling')
    return tokens


def _find(record: Record) -> tuple[str, Any]:
    for place in (place for form in FORMATS.values() for place in form.logprobs):
        value = _at(record.fields, place)
        if value is not None:
            return place.replace(".*", ""), value
    raise record.error(
        'has no "logprobs": ask the service for them ("logprobs": true, "top_logprobs": 20), or leave out '
        "--from-logprobs to score with a model"
    )


def _at(fields: Any, place: str) -> Any:
    """Return what stands at a place, with ``*`` the lists that stand at each of the places joined; None for nothing."""
    path, several, rest = place.partition(".*.")
    try:
        value = value_at(fields, path)
    except LookupError:
        return None
    if not several:
        return value
    lists = [_at(item, rest) for item in value] if isinstance(value, list) else []
    return [item for found in lists if isinstance(found, list) for item in found] or None


def _rows_of_completions(record: Record, what: str, logprobs: dict[str, Any]) -> list[Any]:
    """Return parallel lists as a list of tokens in the form of chat completions."""
    numbers, likeliest = (logprobs.get(name) or [] for name in ("token_logprobs", "top_logprobs"))
    if not isinstance(numbers, list) or not isinstance(likeliest, list):
        raise record.error(f'"{what}" holds "token_logprobs" or "top_logprobs" that are no lists')
    if not all(top is None or isinstance(top, dict) for top in likeliest):
        raise record.error(f'"{what}.top_logprobs" is no list of objects')
    tops = ([{"token": name, "logprob": value} for name, value in (top or {}).items()] for top in likeliest)
    return [
        {"token": token, "logprob": number, "top_logprobs": top}
        for token, number, top in itertools.zip_longest(logprobs["tokens"], numbers, tops)
    ]


def _read(record: Record, what: str, row: Any) -> LoggedToken:
    if not isinstance(row, dict) or not isinstance(row.get("token"), str):
        raise record.error(f'{what}: is no object with "token" and "logprob"')
    logprob = _number(record, f"{what}: logprob", row.get("logprob"))
    top = row.get("top_logprobs") or []
    if not isinstance(top, list) or not all(isinstance(other, dict) for other in top):
        raise record.error(f"{what}: top_logprobs is no list of objects")
    listed = [(other, _number(record, f"{what}: top_logprobs", other.get("logprob"))) for other in top]
    known = [(other, number) for other, number in listed if number is not None]
    _check_mass(record, f"{what}: top_logprobs", known)
    if known and (known[0][0].get("token"), known[0][1]) == (row["token"], logprob):
        # vLLM puts the sampled token first, whether it is one of the likeliest or not. Where it is less likely than all
        # others, or alone, and not more likely than all that are not listed, it may be there as the sampled one only
        others = [number for _, number in known[1:]]
        if known[0][1] < (min(others) if others else _LIKELIEST_OF_ALL):
            del known[0]
    known.sort(key=lambda pair: -pair[1])
    return LoggedToken(
        _text_of(row), logprob, tuple(number for _, number in known), tuple(_text_of(other) for other, _ in known)
    )


def _check_mass(record: Record, what: str, known: list[tuple[dict[str, Any], float]]) -> None:
    """Refuse likeliest tokens that are no distribution's: too likely together, or one of them twice."""
    mass = sum(math.exp(number) for _, number in known)
    if mass > _MOST_MASS:
        raise record.error(f"{what}: the probabilities sum to {mass:.3g}")
    for (text, _), times in Counter((_text_of(other), number) for other, number in known).items():
        # Pieces of characters that a service spells alike may have equal numbers
        if times > 1 and text and "\ufffd" not in text.decode("utf-8", "replace"):
            raise record.error(f"{what}: lists the token {text.decode()!r} {times} times")


def _text_of(row: dict[str, Any]) -> bytes:
    r"""Return a token's bytes; none where a service names no text.

    OpenAI's completions write those that are no whole character as ``bytes:\xf0\x9f``.
    """
    token = row.get("token")
    if is_bytes(row.get("bytes")):
        return bytes(row["bytes"])
    if isinstance(token, str) and _ESCAPED.fullmatch(token):
        return bytes.fromhex(token.removeprefix("bytes:").replace("\\x", ""))
    return token.encode("utf-8", "surrogatepass") if isinstance(token, str) else b""


def _number(record: Record, what: str, value: Any) -> float | None:
    number = record.number(what, value)
    if number is not None and number > _MOST:
        raise record.error(f"{what} is {number:g}, which is the logarithm of no probability")
    return None if number is None or number <= _VERY_UNLIKELY else min(number, 0.0)
