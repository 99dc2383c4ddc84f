"""Answer the sample questions with the embedded model: greedy, float32, plain transformers ``generate``.

python samples/make_responses.py < samples/questions.jsonl > samples/responses.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tokur_cli.engine.model.cached import DEFAULT_MODEL, LANGUAGE, embedded_folder

BATCH = 44
MAX_NEW_TOKENS = 256


def respond(model: Any, tokenizer: Any, questions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question["question"]}], add_generation_prompt=True, return_dict=False
        )
        for question in questions
    ]
    batch = tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt")
    with torch.inference_mode():
        sequences = model.generate(**batch, do_sample=False, max_new_tokens=MAX_NEW_TOKENS)
    end = tokenizer.eos_token_id  # also pads what comes after it
    for question, prompt, row in zip(
        questions, prompts, sequences[:, batch["input_ids"].shape[1] :].tolist(), strict=True
    ):
        stopped = end in row
        token_ids = row[: row.index(end) + 1] if stopped else row
        yield question | {
            "response": tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False),
            "tokur": {
                "schema": 1,
                "model": DEFAULT_MODEL,
                "sample": 0,
                "seed": 0,
                "finish_reason": "stop" if stopped else "length",
                "prompt_token_ids": prompt,
                "token_ids": token_ids,
            },
        }


def main() -> None:
    folder = embedded_folder(LANGUAGE, lambda message: print(message, file=sys.stderr))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    questions = [json.loads(line) for line in sys.stdin.buffer]
    for start in range(0, len(questions), BATCH):
        for record in respond(model, tokenizer, questions[start : start + BATCH]):
            print(json.dumps(record, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
