"""A response's tokens in the logs of chat and completion services."""

from __future__ import annotations

import re
from typing import Any

from tokur_cli.records.prompt import is_bytes

_TOKEN_ID = re.compile(r"token_id:(\d+)")  # as vLLM writes tokens with return_tokens_as_token_ids


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
