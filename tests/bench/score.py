"""Scored response tokens a second: tokur beside what a capable user would write in an afternoon.

    python -m tests.bench.score [--workload samples|shared-prefix|one-prefix|llama1b] [--responses 172] [--rounds 3]
        [--ways tokur,plain,forward,padded] [--dtypes float32,bfloat16] [--device cpu] [--sampling stepwise]
        [--batch-tokens N] [--profile]

samples        samples/responses.jsonl: one response a question, short prompts
shared-prefix  samples/responses_n16.jsonl, sixteen responses a question, under a header of eight worked examples
one-prefix     responses of 150 random tokens to one prompt of 700
llama1b        random responses under a random model of Llama-3.2-1B's shape, the yardstick on a GPU

The plain version makes a forward pass a draw with swapped weights over padded batches of 16, takes all logits and a
log-softmax in float32, and computes the same seven quantities. ``forward`` is one of its passes alone, with all logits;
``padded`` is tokur without packing. Every round runs all ways one after another.
"""

import argparse
import itertools
import json
import random
import resource
import statistics
import time
from pathlib import Path

import torch

from tests.bench.plain import PlainScorer
from tokur_cli.commands.scoring import _ACCELERATOR_BATCH_TOKENS, _BATCH_TOKENS
from tokur_cli.engine.cache import cache_folder
from tokur_cli.engine.perturbed import Draws
from tokur_cli.engine.posterior import build_posterior
from tokur_cli.engine.scoring import Scorer, TokenisedResponse

SAMPLES = Path(__file__).parents[2] / "samples"
SHOTS = 8
DRAWS = 2


def windows(responses):
    """Sixteen responses, then twice as many each time up to 256, as the commands take them from the stream."""
    first, size = 0, 16
    while first < len(responses):
        yield responses[first : first + size]
        first, size = first + size, min(2 * size, 256)


class Tokur:
    """The scorer as the commands run it: window after window."""

    def __init__(self, model, posterior, sampling, batch_tokens, packed=True):
        self.scorer = Scorer(model, Draws(posterior, DRAWS), sampling=sampling, batch_tokens=batch_tokens)
        if not packed:
            self.scorer._longest_packed = 0

    def score(self, responses):
        results = []
        for window in windows(responses):
            results += [result for _, result in sorted(self.scorer.score(window), key=lambda item: item[0])]
        return results


def read_rows(name, count):
    with (SAMPLES / name).open() as file:
        return [json.loads(line) for line in itertools.islice(file, count)]


def responses_of(rows, header=()):
    return [TokenisedResponse([*header, *r["tokur"]["prompt_token_ids"]], r["tokur"]["token_ids"]) for r in rows]


def samples(count):
    from tokur_cli.engine.loading import load_language_model

    return lambda dtype, device: load_language_model("smollm2-135m-instruct", dtype=dtype, device_map=device).model, (
        responses_of(read_rows("responses.jsonl", count))
    )


def shared_prefix(count):
    """The header's worked examples are sample questions with responses of middling length."""
    load, _ = samples(0)
    rows = sorted(read_rows("responses.jsonl", None), key=lambda row: len(row["tokur"]["token_ids"]))
    shots = rows[len(rows) // 4 :][:SHOTS]
    header = [id for row in shots for key in ("prompt_token_ids", "token_ids") for id in row["tokur"][key]]
    return load, responses_of(read_rows("responses_n16.jsonl", count), header)


def one_prefix(count):
    load, _ = samples(0)
    numbers = random.Random(0)
    prompt = [numbers.randrange(49_152) for _ in range(700)]
    return load, [TokenisedResponse(prompt, [numbers.randrange(49_152) for _ in range(150)]) for _ in range(count)]


def llama1b(count, **sizes):
    """Prompts of 50 to 150 tokens and responses of 100 to 600, all different."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    shape = {
        "vocab_size": 128_256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": True,
    } | sizes

    def load(dtype, device):
        torch.manual_seed(0)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(LlamaConfig(**shape), dtype=getattr(torch, dtype))
        return model.eval().requires_grad_(False)

    numbers = random.Random(0)

    def ids(least, most):
        return [numbers.randrange(shape["vocab_size"]) for _ in range(numbers.randint(least, most))]

    return load, [TokenisedResponse(ids(50, 150), ids(100, 600)) for _ in range(count)]


def tiny(count):
    """Like llama1b, of a size for testing this file."""
    small = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    return llama1b(count, **small, num_attention_heads=4, num_key_value_heads=2)


WORKLOADS = {
    "samples": samples,
    "shared-prefix": shared_prefix,
    "one-prefix": one_prefix,
    "llama1b": llama1b,
    "tiny": tiny,
}


def distinct_positions(responses):
    """Positions that any way must compute: beginnings that responses have in common count once."""
    total, before = 0, []
    for sequence in sorted(
        [(id, max(place - len(r.prompt_ids), -1)) for place, id in enumerate([*r.prompt_ids, *r.response_ids[:-1]])]
        for r in responses
    ):
        common = next((i for i, (a, b) in enumerate(zip(before, sequence, strict=False)) if a != b), None)
        common = min(len(before), len(sequence)) if common is None else common
        total, before = total + len(sequence) - common, sequence
    return total


class Meter:
    """Time, positions through the model's body and peak memory of each way."""

    def __init__(self, model, device):
        self.device, self.positions = device, 0
        model.get_input_embeddings().register_forward_hook(self._count)

    def _count(self, module, arguments, output):
        self.positions += arguments[0].numel()

    def _wait(self):
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()

    def run(self, work):
        self.positions = 0
        if self.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        self._wait()
        began = time.perf_counter(), time.process_time()
        results = work()
        self._wait()
        seconds = time.perf_counter() - began[0], time.process_time() - began[1]
        if self.device.startswith("cuda"):
            peak = torch.cuda.max_memory_allocated()
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # of the process so far
        return results, seconds, self.positions, peak


def matrix_peak(dtype, device):
    """FLOP/s of the fastest of a few large products."""
    best = 0.0
    for size in (1024, 2048) if device == "cpu" else (4096, 8192, 16384):
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        for _ in range(6):
            if device != "cpu":
                torch.cuda.synchronize()
            began = time.perf_counter()
            a @ b
            if device != "cpu":
                torch.cuda.synchronize()
            best = max(best, 2 * size**3 / (time.perf_counter() - began))
    return best


def flops(model, responses, members, positions):
    """Products with weights that scoring cannot do without: the body at each position, the head at response tokens."""
    head = model.get_output_embeddings().weight.numel()
    body = sum(p.numel() for p in model.base_model.parameters() if p.ndim == 2)
    body -= model.get_input_embeddings().weight.numel()
    return 2 * members * (body * positions + head * sum(len(r.response_ids) for r in responses))


def one_forward_pass(plain):
    """The mean weights alone, all logits: what M = 2 is measured against."""

    def run(responses):
        for batch in plain.batches(responses):
            plain.logits(batch)

    return run


def measure(arguments, load, responses, dtype):
    model = load(dtype, arguments.device)
    posterior = build_posterior(model, cache=cache_folder() / "bases")
    default = _BATCH_TOKENS.get(torch.device(arguments.device).type, _ACCELERATOR_BATCH_TOKENS)
    budget = arguments.batch_tokens or default
    plain = PlainScorer(model, posterior, DRAWS)
    ours = Tokur(model, posterior, arguments.sampling, budget)
    every = {
        "tokur": ours.score,
        "plain": plain.score,
        "forward": one_forward_pass(plain),
        "padded": Tokur(model, posterior, arguments.sampling, budget, packed=False).score,
    }
    ways = {name: every[name] for name in arguments.ways.split(",")}
    meter = Meter(model, arguments.device)
    for way in ways.values():
        way(responses[:2])
    if arguments.profile:
        with torch.profiler.profile() as profile:
            ours.score(responses)
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=60))
    seconds, positions, peaks, results = {name: [] for name in ways}, {}, {}, {}
    peak_flops = []
    for _ in range(arguments.rounds):
        peak_flops.append(matrix_peak(getattr(torch, dtype), arguments.device))
        for name, way in ways.items():
            results[name], took, positions[name], peaks[name] = meter.run(lambda way=way: way(responses))
            seconds[name].append(took)
    tokens = sum(len(r.response_ids) for r in responses)
    lengths = sum(r.length for r in responses)
    distinct = sum(map(distinct_positions, windows(responses)))
    members = 1 + DRAWS
    report = {"dtype": dtype, "response_tokens": tokens, "positions": lengths, "distinct_positions": distinct}
    report["matrix_gflops"] = round(statistics.median(peak_flops) / 1e9)
    needed = flops(model, responses, members, distinct)
    medians = {name: statistics.median(wall for wall, _ in times) for name, times in seconds.items()}
    cpu = {name: statistics.median(own for _, own in times) for name, times in seconds.items()}
    for name, median in medians.items():
        rows = positions[name] / (1 if name == "forward" else members)
        report[name] = {
            "seconds": round(median, 3),
            "cpu_seconds": round(cpu[name], 3),
            "tokens_per_second": round(tokens / median, 1),
            "positions_computed": round(rows),
            "beyond_distinct": round(1 - distinct / rows, 4),
            "peak_memory_gb": round(peaks[name] / 1e9, 2),
        }
    report["share_of_matrix_peak"] = round(needed / medians["tokur"] / statistics.median(peak_flops), 3)
    report["times_tokur"] = {name: round(median / medians["tokur"], 2) for name, median in medians.items()}
    report["times_tokur_by_cpu_time"] = {name: round(own / cpu["tokur"], 2) for name, own in cpu.items()}
    if "plain" in results:
        report["largest_logprob_difference"] = max(
            float(abs(ours["logprob"] - theirs["logprob"]).max())
            for ours, theirs in zip(results["tokur"], results["plain"], strict=True)
        )
    return report


def show(report):
    print()
    print(f"{report['dtype']}: {report['response_tokens']} response tokens, {report['positions']} positions,", end=" ")
    print(f"{report['distinct_positions']} of them distinct; matrix products run at {report['matrix_gflops']} GFLOP/s")
    columns = ("tokens_per_second", "seconds", "cpu_seconds", "positions_computed", "beyond_distinct", "peak_memory_gb")
    print(" " * 8, *(f"{name.replace('_', ' '):>18}" for name in columns))
    for name in report["times_tokur"]:
        print(f"{name:8}", *(f"{report[name][column]:>18}" for column in columns))
    print(f"tokur runs at {report['share_of_matrix_peak']:.1%} of the matrix peak", end="")
    for name, times in report["times_tokur"].items():
        if name != "tokur":
            print(
                f"; {name}: {times:.2f} × its time ({report['times_tokur_by_cpu_time'][name]:.2f} × by CPU time)",
                end="",
            )
    print(flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=WORKLOADS, default="samples")
    parser.add_argument("--responses", type=int, default=172)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sampling", default="stepwise")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--ways", default="tokur,plain,forward", help="tokur first; plain, forward, padded")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    load, responses = WORKLOADS[arguments.workload](arguments.responses)
    reports = []
    for dtype in arguments.dtypes.split(","):
        reports.append(measure(arguments, load, responses, dtype))
        show(reports[-1])
    settings = {"workload": arguments.workload, "responses": len(responses), "rounds": arguments.rounds}
    settings |= {"device": arguments.device, "threads": torch.get_num_threads(), "sampling": arguments.sampling}
    print(json.dumps({**settings, "reports": reports}))


if __name__ == "__main__":
    main()
