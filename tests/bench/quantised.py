"""What weights of fewer bits do to the numbers and to the speed.

    python -m tests.bench.quantised numbers
    python -m tests.bench.quantised speed [--rounds 3]

Numbers are those of every third of the sample responses: the mean KL divergence of a token's prediction from that in
float32, and what ``tokur evaluate`` says of the scores. The speed is in tokens a second, all ways in turn: 16 responses
scored, and one response generated, or four to each of four questions (32 tokens at most).
"""

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.bench.generate import read_prompts, refilled_batch
from tests.bench.score import Tokur as Scorer
from tests.bench.score import read_rows, responses_of
from tokur_cli import Tokur
from tokur_cli.commands.options.scoring import default_batch_tokens
from tokur_cli.engine.loading.cache import cache_folder
from tokur_cli.engine.loading.models import DEFAULT_MODEL, load_language_model
from tokur_cli.engine.posterior.posterior import build_posterior

WAYS = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16"},
    "8 bits": {"dtype": "bfloat16", "quantize": "8bit"},
    "4 bits": {"dtype": "bfloat16", "quantize": "4bit"},
}
SCORES = "eu,tu,ll_sum"


@torch.inference_mode()
def predictions(model, response):
    """(T, V) log-probabilities."""
    logits = model(input_ids=torch.from_numpy(response.input_ids)[None]).logits[0, len(response.prompt_ids) - 1 :]
    return logits.double().log_softmax(-1)


def divergence(exact, model, responses):
    """Mean over tokens of KL(exact ‖ model), nats."""
    found = []
    for response in responses:
        expected = predictions(exact, response)
        found.append((expected.exp() * (expected - predictions(model, response))).sum(-1))
    return float(torch.cat(found).mean())


def evaluation(options, rows):
    """What ``tokur evaluate`` prints of rows that are scored with these options."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scored.jsonl")
        file.write_text("".join(json.dumps(row) + "\n" for row in Tokur(device_map="cpu", **options).score(rows)))
        command = [sys.executable, "-m", "tokur_cli", "evaluate", str(file), "--as", "table", "--scores", SCORES]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def numbers(rows):
    exact = load_language_model(DEFAULT_MODEL, device_map="cpu", **WAYS["float32"]).model
    for way, options in WAYS.items():
        model = load_language_model(DEFAULT_MODEL, device_map="cpu", **options).model
        print(f"{way}: KL to float32 {divergence(exact, model, responses_of(rows)):.2g} nats a token")
        print(evaluation(options, rows), flush=True)


def speed(rows, rounds):
    responses, prompts = responses_of(rows[:16]), read_prompts(4)
    tokens = sum(len(response.response_ids) for response in responses)
    works, speeds = {}, {}
    for way, options in WAYS.items():
        loaded = load_language_model(DEFAULT_MODEL, device_map="cpu", **options)
        posterior = build_posterior(loaded.model, cache=cache_folder() / "bases")
        scorer = Scorer(loaded.model, posterior, "stepwise", default_batch_tokens("cpu"))
        works[way, "scored"] = lambda scorer=scorer: len(scorer.score(responses)) and tokens
        for questions, samples in ((1, 1), (4, 4)):
            arguments = loaded, prompts[:questions], samples, 32
            works[way, f"{questions} × {samples} generated"] = functools.partial(refilled_batch, *arguments)
    for _ in range(1 + rounds):
        for key, work in works.items():
            began = time.perf_counter()
            speeds.setdefault(key, []).append(work() / (time.perf_counter() - began))
    for (way, what), (_, *each) in speeds.items():  # the first round warms up
        every = ", ".join(f"{one:.3g}" for one in each)
        print(f"{way}, {what}: {statistics.median(each):.3g} tokens a second ({every})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("numbers", "speed"))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = read_rows("responses.jsonl", None)[::3]
    numbers(rows) if arguments.what == "numbers" else speed(rows, arguments.rounds)


if __name__ == "__main__":
    main()
