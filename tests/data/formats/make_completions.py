"""Makes ``completions*.jsonl``, what ``model_dump_json()`` writes of what the clients of OpenAI and Anthropic return.

``python make_completions.py FOLDER`` asks a server of its own, which answers with the bytes that theirs document, since
no other could be asked; the clients parse them and write the lines.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import anthropic
import openai

QUESTIONS = [
    ("What is 6 times 7?", "It is 42."),
    ("Name a prime above 10.", "11"),
    ("Why is the sky blue?", "It scatters."),
]


def text_of(body):
    prompt = body.get("messages") or body.get("input") or body.get("prompt")
    question = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return dict(QUESTIONS)[question]


def tokens(text):
    return [
        {"token": part, "logprob": -0.25, "bytes": list(part.encode()), "top_logprobs": []}
        for part in text.replace(" ", "\0 ").split("\0")
    ]


def chat(body):
    text, count = text_of(body), body.get("n", 1)
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None, "annotations": []},
            "logprobs": {"content": tokens(text), "refusal": None} if body.get("logprobs") else None,
            "finish_reason": "stop",
        }
        for index in range(count)
    ]
    usage = {"prompt_tokens": 9, "completion_tokens": 5 * count, "total_tokens": 9 + 5 * count}
    more = {"usage": usage, "service_tier": "default", "system_fingerprint": "fp_1"}
    return {
        "object": "chat.completion",
        "created": 1764000000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": choices,
        **more,
    }


def completion(body):
    choice = {"index": 0, "text": " " + text_of(body), "logprobs": None, "finish_reason": "length"}
    return {"object": "text_completion", "created": 1764000000, "model": "davinci-002", "choices": [choice]}


def response(body):
    part = {"type": "output_text", "text": text_of(body), "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    more = {"error": None, "incomplete_details": None, "instructions": body.get("instructions"), "status": "completed"}
    more |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0}
    return {"object": "response", "created_at": 1764000000, "model": "gpt-5-mini-2025-08-07", "output": [item], **more}


def message(body):
    content = [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": text_of(body)},
    ]
    more = {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 5}}
    return {"type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929", "content": content, **more}


ANSWERS = {
    "/v1/chat/completions": ("chatcmpl-", chat),
    "/v1/completions": ("cmpl-", completion),
    "/v1/responses": ("resp_", response),
    "/v1/messages": ("msg_", message),
}


class Service(BaseHTTPRequestHandler):
    asked = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prefix, answer = ANSWERS[self.path]
        Service.asked += 1
        data = json.dumps({"id": f"{prefix}{Service.asked}", **answer(body)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


def main(folder: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    gpt = openai.OpenAI(api_key="none", base_url=f"{address}/v1")
    claude = anthropic.Anthropic(api_key="none", base_url=address)
    system = {"role": "system", "content": "Be brief."}
    asked = {"": [], "_text": [], "_responses": [], "_messages": []}
    calls = {
        "": gpt.chat.completions.create,
        "_text": gpt.completions.create,
        "_responses": gpt.responses.create,
        "_messages": claude.messages.create,
    }
    for number, (question, _) in enumerate(QUESTIONS):
        turn = {"role": "user", "content": question}
        more = {"n": 2} if number == 1 else {"logprobs": True} if number == 0 else {}
        asked[""].append({"model": "gpt-4o-mini", "messages": [system, turn], **more})
        asked["_text"].append({"model": "davinci-002", "prompt": question, "max_tokens": 5})
        asked["_responses"].append({"model": "gpt-5-mini", "instructions": "Be brief.", "input": question})
        asked["_messages"].append(
            {"model": "claude-sonnet-4-5", "max_tokens": 99, "system": "Be brief.", "messages": [turn]}
        )
    for name, requests in asked.items():
        lines = [calls[name](**request).model_dump_json() + "\n" for request in requests]
        (folder / f"completions{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        given = "".join(json.dumps(request) + "\n" for request in requests)
        (folder / f"completions{name}_requests.jsonl").write_text(given, encoding="utf-8")
    server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
