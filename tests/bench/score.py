"""Scored response tokens a second, beside plain forward passes.

    python -m tests.bench.score [--workload samples|shared-prefix] [--responses 48] [--rounds 3] [--dtype float32]
        [--model NAME]

samples        samples/responses.jsonl: one response a question, short prompts
shared-prefix  samples/responses_n16.jsonl, 16 responses a question, below a header of eight worked examples

Plain is what scoring costs without any sharing: 1 + M passes over padded batches of 16, all logits, and a softmax in
float32 with its entropy.
"""

import argparse

import torch

from tests.bench.common import in_turn, peak_bytes, plain_model, responses
from tokur_cli import Tokur

BATCH = 16
DRAWS = 2


class Plain:
    """1 + M forward passes over padded batches."""

    def __init__(self, model, rows):
        self.model = model
        self.sequences = [row["tokur"]["prompt_token_ids"] + row["tokur"]["token_ids"] for row in rows]

    @torch.inference_mode()
    def __call__(self):
        for first in range(0, len(self.sequences), BATCH):
            batch = self.sequences[first : first + BATCH]
            length = max(map(len, batch))
            ids = torch.tensor([[*sequence, *[0] * (length - len(sequence))] for sequence in batch])
            mask = torch.tensor([[1] * len(sequence) + [0] * (length - len(sequence)) for sequence in batch])
            for _ in range(1 + DRAWS):
                logits = self.model(ids.to(self.model.device), attention_mask=mask.to(self.model.device)).logits
                for row in logits:
                    log_p = row.float().log_softmax(-1)
                    (log_p.exp() * log_p).sum(-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=("samples", "shared-prefix"), default="samples")
    parser.add_argument("--responses", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--model", help="a folder or hub id with SmolLM2's vocabulary, or a larger one")
    options = parser.parse_args()
    rows = responses(options.workload, options.responses)
    for row in rows:
        row["tokur"]["model"] = options.model or row["tokur"]["model"]
    tokens = sum(len(row["tokur"]["token_ids"]) for row in rows)
    tokur = Tokur(options.model or "smollm2-135m-instruct", dtype=options.dtype, draws=DRAWS)
    ways = {"tokur": lambda: list(tokur.score(rows)), "plain": Plain(plain_model(options.model, options.dtype), rows)}
    seconds = in_turn(ways, options.rounds)
    for name, taken in seconds.items():
        print(f"{name:6} {taken:8.2f} s  {tokens / taken:8.1f} tokens a second")
    print(f"tokur is {seconds['plain'] / seconds['tokur']:.2f} times as fast; peak memory {peak_bytes() / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
