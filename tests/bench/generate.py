"""Generated tokens a second, beside transformers' ``generate``; ``--vllm`` adds vLLM where it is installed.

    python -m tests.bench.generate [--questions 64] [--samples 4] [--max-new-tokens 64] [--rounds 3] [--dtype float32]
        [--guide] [--vllm]

Each way samples N responses to the same prompts at temperature 0.8. A token counts up to and including the end of its
response. ``--guide`` measures guided generation instead, for which transformers has nothing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch

from tests.bench.common import SAMPLES, in_turn, peak_bytes, plain_model, rows_of
from tokur_cli import Tokur

ROWS = 64


class Padded:
    """``model.generate`` over left-padded batches of 64 rows."""

    def __init__(self, model, prompts, samples, limit):
        self.model, self.prompts, self.samples, self.limit = model, prompts, samples, limit
        self.tokens = 0

    @torch.inference_mode()
    def __call__(self):
        self.tokens = 0
        end = self.model.generation_config.eos_token_id
        each = max(1, ROWS // self.samples)
        for first in range(0, len(self.prompts), each):
            batch = self.prompts[first : first + each]
            width = max(map(len, batch))
            ids = torch.tensor([[end] * (width - len(prompt)) + prompt for prompt in batch], device=self.model.device)
            mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in batch])
            out = self.model.generate(
                ids, attention_mask=mask.to(ids.device), do_sample=True, temperature=0.8, top_k=0, top_p=1.0,
                max_new_tokens=self.limit, num_return_sequences=self.samples, pad_token_id=end,
            )  # fmt: skip
            for row in out[:, width:].tolist():
                self.tokens += row.index(end) + 1 if end in row else len(row)


def vllm_seconds(count, options):
    """The clock of ``tokur generate --backend vllm``, start included."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as questions:
        with (SAMPLES / "questions.jsonl").open() as file:
            questions.writelines(line for _, line in zip(range(count), file, strict=False))
        questions.flush()
        command = [sys.executable, "-m", "tokur_cli", "generate", questions.name, "--backend", "vllm", "-o", os.devnull]
        began = time.perf_counter()
        subprocess.run([*command, "-n", str(options.samples), "--temperature", "0.8"], check=True)
        return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("questions", 64), ("samples", 4), ("max-new-tokens", 64), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--guide", action="store_true")
    parser.add_argument("--vllm", action="store_true")
    options = parser.parse_args()
    rows = rows_of("responses.jsonl", options.questions)
    prompts = [row["tokur"]["prompt_token_ids"] for row in rows]
    questions = [{"id": row["id"], "question": row["question"]} for row in rows]
    tokur = Tokur("smollm2-135m-instruct", dtype=options.dtype)
    settings = {"samples": options.samples, "temperature": 0.8, "max_new_tokens": options.max_new_tokens}
    settings |= {"guide": "eu"} if options.guide else {}
    made = []

    def ours():
        made[:] = tokur.generate(questions, **settings)

    ways = {"tokur": ours}
    if not options.guide:
        ways["padded"] = Padded(plain_model(None, options.dtype), prompts, options.samples, options.max_new_tokens)
    seconds = in_turn(ways, options.rounds)
    tokens = {"tokur": sum(len(record["tokur"]["token_ids"]) for record in made)}
    tokens |= {name: way.tokens for name, way in ways.items() if name != "tokur"}
    for name, taken in seconds.items():
        print(f"{name:6} {taken:8.2f} s  {tokens[name] / taken:8.1f} tokens a second")
    print(f"peak memory {peak_bytes() / 1e9:.2f} GB")
    if options.vllm:
        print(f"vllm   {vllm_seconds(options.questions, options):8.2f} s, start included")


if __name__ == "__main__":
    main()
