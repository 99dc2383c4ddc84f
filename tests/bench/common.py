"""What the benchmarks share: samples, a plain model, the clock."""

import itertools
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import torch

SAMPLES = Path(__file__).parents[2] / "samples"
SHOTS = 8


def rows_of(name, count=None):
    """The first records of a file of samples."""
    with (SAMPLES / name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in itertools.islice(file, count)]


def responses(workload, count):
    """Responses to score: one a question, or 16 a question below a header of eight worked examples."""
    if workload == "samples":
        return rows_of("responses.jsonl", count)
    by_length = sorted(rows_of("responses.jsonl"), key=lambda row: len(row["tokur"]["token_ids"]))
    shots = by_length[len(by_length) // 4 :][:SHOTS]
    header = [id for row in shots for key in ("prompt_token_ids", "token_ids") for id in row["tokur"][key]]
    rows = rows_of("responses_n16.jsonl", count)
    for row in rows:
        row["tokur"]["prompt_token_ids"] = [*header, *row["tokur"]["prompt_token_ids"]]
    return rows


def plain_model(name, dtype):
    """A model as a user of transformers loads it; the embedded one from tokur's cache."""
    from transformers import AutoModelForCausalLM

    if name is None:
        cache = Path(os.environ.get("TOKUR_CACHE", Path.home() / ".cache" / "tokur"))
        name = next((cache / "models").glob("smollm2*"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, dtype), device_map=device)


def in_turn(ways, rounds):
    """Run ways in turn, after a round that does not count; return the median seconds of each."""
    seconds = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            began = time.perf_counter()
            work()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def peak_bytes():
    """The most memory that this process has had; on a GPU, of its tensors there."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
