"""Makes ``openai_responses*.jsonl``, a batch of Responses, out of the openai package's own types: ``… FOLDER``."""

import json
import sys
from pathlib import Path

from openai.types.responses import Response

TEXT = {"type": "output_text", "annotations": [], "logprobs": []}
REQUESTS = {
    "sum": {"model": "gpt-5-mini", "input": "What is 6 times 7?"},
    "prime": {
        "model": "gpt-5-mini",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Name a prime above 10."}]}],
        "max_output_tokens": 4,
    },
    "sky": {"model": "gpt-5-mini", "input": "Why is the sky blue?"},
    "more": {"model": "gpt-5-mini", "previous_response_id": "resp_sum", "input": "And 6 times 8?"},
}


def response(name, output, **more):
    body = {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 1764000000,
        "model": "gpt-5-mini-2025-08-07",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **more,
    }
    return Response.model_validate(body).model_dump(mode="json", exclude_unset=True)


def message(*texts):
    content = [{**TEXT, "text": text} for text in texts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


def reasoning(summary, content=None):
    item = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in summary]}
    return item if content is None else {**item, "content": [{"type": "reasoning_text", "text": content}]}


RESPONSES = {
    "prime": response(
        "prime", [message("11, or ", "13")], status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    ),
    "sum": response("sum", [reasoning([], "6 times 7 is 42."), message("It is 42.")]),
    "sky": response("sky", [reasoning(["The user asks about the sky."]), message("It scatters.")]),
    "more": response("more", [message("48")], previous_response_id="resp_sum"),
}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def main(folder: Path) -> None:
    requests = [{"custom_id": k, "method": "POST", "url": "/v1/responses", "body": b} for k, b in REQUESTS.items()]
    rows = [
        {
            "id": f"batch_req_{name}",
            "custom_id": name,
            "response": {"status_code": 200, "request_id": "r", "body": body},
            "error": None,
        }
        for name, body in RESPONSES.items()
    ]
    (folder / "openai_responses_requests.jsonl").write_text(lines(requests), encoding="utf-8")
    (folder / "openai_responses.jsonl").write_text(lines(rows), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
