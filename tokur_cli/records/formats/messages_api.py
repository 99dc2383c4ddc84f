"""Anthropic's Messages API: what its messages say, in the terms of chat completions."""

from __future__ import annotations

from typing import Any

from tokur_cli.records.encoding import json_type
from tokur_cli.records.record import Record

_REASONS = {"end_turn": "stop", "max_tokens": "length", "model_context_window_exceeded": "length"}
_REASONS |= {"stop_sequence": "stop_string", "tool_use": "tool_calls"}


def as_chat_completion(record: Record, message: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a chat completion that says the same as a message."""
    content = message.get("content")
    if not isinstance(content, list):
        raise record.error(f'"content" is {json_type(content)}, not a list')
    blocks = [block for block in content if isinstance(block, dict)]
    kinds = {
        name: [block for block in blocks if block.get("type") == name] for name in ("text", "thinking", "tool_use")
    }
    unread = [block for block in blocks if block.get("type") not in (*kinds, "redacted_thinking")]
    reason = message.get("stop_reason")
    return {
        "model": message.get("model"),
        "choices": [
            {
                "message": {
                    "content": [*kinds["text"], *unread] or None,  # what cannot be read is an error that names it
                    "reasoning_content": "\n\n".join(str(block.get("thinking")) for block in kinds["thinking"]),
                    "tool_calls": kinds["tool_use"],
                    "withheld": any(block.get("type") == "redacted_thinking" for block in blocks),
                },
                "finish_reason": _REASONS.get(reason, reason) if isinstance(reason, str) else None,
            }
        ],
    }
