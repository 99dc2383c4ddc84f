"""Scored response tokens a second: tokur beside what a capable user would write in an afternoon.

    python -m tests.bench.score [--workload samples|shared-prefix|one-prefix|llama1b|llama3b] [--responses 172]
        [--rounds 3] [--ways tokur,plain,forward,padded] [--dtypes float32,bfloat16] [--device cpu]
        [--sampling stepwise] [--batch-tokens N] [--profile]

samples        samples/responses.jsonl: one response a question, short prompts
shared-prefix  samples/responses_n16.jsonl, sixteen responses a question, under a header of eight worked examples
one-prefix     responses of 150 random tokens to one prompt of 700
llama1b        random responses under a random model of Llama-3.2-1B's shape in bfloat16, the yardstick on a GPU; on a
               CPU four short ones
llama3b        the same of Llama-3.2-3B's shape

The plain version makes a forward pass a draw with swapped weights over padded batches of 16, takes all logits and a
log-softmax in float32, and computes the same seven quantities. ``forward`` is one of its passes alone, with all logits;
``padded`` is tokur without packing. Every round runs all ways one after another.
"""

import argparse
import copy
import functools
import itertools
import json
import random
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from tests.bench.plain import PlainScorer
from tests.bench.shapes import SHAPES, random_model
from tokur_cli.commands.baselines.features import largest_window
from tokur_cli.commands.options.scoring import BaselineOptions, default_batch_tokens
from tokur_cli.commands.score.windows import window_sizes
from tokur_cli.engine.loading.reordered import reorder_weights
from tokur_cli.engine.model.cache_dir import cache_folder
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.engine.uncertainty.perturbed import Draws

SAMPLES = Path(__file__).parents[2] / "samples"
SHOTS = 8
DRAWS = 2


def windows(responses, batch_tokens):
    """Cut responses as the commands do."""
    first = 0
    for size in window_sizes(largest_window((), BaselineOptions(), batch_tokens)):
        if first >= len(responses):
            return
        yield responses[first : first + size]
        first += size


class Tokur:
    """The scorer as the commands run it: window after window, nothing left of an earlier run."""

    def __init__(self, model, posterior, sampling, batch_tokens, shares=True):
        self.model, self.draws, self.shares = model, Draws(posterior, DRAWS), shares
        self.options = {"sampling": sampling, "batch_tokens": batch_tokens}

    def score(self, responses):
        scorer = Scorer(self.model, self.draws, **self.options)
        if not self.shares:
            scorer.shares_prefixes = False
        results = []
        for window in windows(responses, self.options["batch_tokens"]):
            results += [result for _, result in sorted(scorer.score(window), key=lambda item: item[0])]
        return results


def tell(what):
    print(what, file=sys.stderr, flush=True)


def read_rows(name, count):
    with (SAMPLES / name).open() as file:
        return [json.loads(line) for line in itertools.islice(file, count)]


def responses_of(rows, header=()):
    return [TokenizedResponse([*header, *r["tokur"]["prompt_token_ids"]], r["tokur"]["token_ids"]) for r in rows]


def samples(count):
    from transformers import AutoModelForCausalLM

    from tokur_cli.engine.model.embedded import DEFAULT_MODEL
    from tokur_cli.engine.model.load import describe_model
    from tokur_cli.engine.model.request import ModelRequest

    def load(dtype, device):
        place = describe_model(ModelRequest(DEFAULT_MODEL, dtype=dtype)).place
        return AutoModelForCausalLM.from_pretrained(place, dtype=dtype, device_map=device).requires_grad_(False)

    return load, responses_of(read_rows("responses.jsonl", count))


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
    return load, [TokenizedResponse(prompt, [numbers.randrange(49_152) for _ in range(150)]) for _ in range(count)]


def of_shape(shape, count, device="cuda"):
    """Prompts of 50 to 150 tokens and responses of 100 to 600, on a CPU of 20 to 60, all different."""
    numbers = random.Random(0)

    def ids(least, most):
        return [numbers.randrange(SHAPES[shape]["vocab_size"]) for _ in range(numbers.randint(least, most))]

    lengths = (20, 60) if device == "cpu" else (100, 600)
    responses = [TokenizedResponse(ids(50, 150), ids(*lengths)) for _ in range(count)]
    return functools.partial(random_model, shape), responses


WORKLOADS = {"samples": samples, "shared-prefix": shared_prefix, "one-prefix": one_prefix}
WORKLOADS |= {shape: functools.partial(of_shape, shape) for shape in SHAPES}


def distinct_positions(responses):
    """Positions that any way must compute: what responses have in common counts once."""
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

    def __init__(self, models, device):
        self.device, self.positions = device, 0
        for model in models:
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


class Contest:
    """All ways with the model in one dtype, round after round."""

    def __init__(self, arguments, load, responses, dtype):
        self.dtype, self.device, self.responses = dtype, arguments.device, responses
        self.tokens = sum(len(response.response_ids) for response in responses)
        self.usual = usual = load(dtype, arguments.device)  # for the plain version, which swaps its weights
        kept = usual.get_output_embeddings().weight  # which the embedding has too, and which is not reordered then
        self.model = copy.deepcopy(usual, {id(kept): kept}) if arguments.device == "cpu" else usual
        reorder_weights(self.model)  # as loading does
        tell(f"the model in {dtype} is there")
        posterior, plain_posterior = (build_posterior(m, cache=cache_folder() / "bases") for m in (self.model, usual))
        tell("its basis is there")
        default = default_batch_tokens(torch.device(arguments.device).type)
        budget = arguments.batch_tokens or default
        plain = PlainScorer(usual, plain_posterior, DRAWS)
        every = {
            "tokur": Tokur(self.model, posterior, arguments.sampling, budget).score,
            "plain": plain.score,
            "forward": one_forward_pass(plain),
            "padded": Tokur(self.model, posterior, arguments.sampling, budget, shares=False).score,
        }
        self.ways = {name: every[name] for name in arguments.ways.split(",")}
        self.meter = Meter({usual, self.model}, arguments.device)
        self.wall, self.cpu = {name: [] for name in self.ways}, {name: [] for name in self.ways}
        self.positions, self.peaks, self.results, self.matrix = {}, {}, {}, []
        for way in self.ways.values():
            way(responses[:1])

    def profile(self):
        with torch.profiler.profile() as profile:
            self.ways["tokur"](self.responses)
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=60))

    def round(self):
        self.matrix.append(matrix_peak(getattr(torch, self.dtype), self.device))
        for name, way in self.ways.items():
            outcome = self.meter.run(lambda way=way: way(self.responses))
            self.results[name], (wall, cpu), self.positions[name], self.peaks[name] = outcome
            self.wall[name].append(wall)
            self.cpu[name].append(cpu)
            tell(f"{name} in {self.dtype}: {wall:.2f} s, {self.tokens / wall:.1f} tokens a second")

    def report(self):
        distinct = distinct_positions(self.responses)
        wall, cpu = ({name: statistics.median(t) for name, t in times.items()} for times in (self.wall, self.cpu))
        matrix = statistics.median(self.matrix)
        report = {
            "dtype": self.dtype,
            "response_tokens": self.tokens,
            "positions": sum(r.length for r in self.responses),
            "distinct_positions": distinct,
            "matrix_gflops": round(matrix / 1e9),
        }
        for name in self.ways:
            rows = self.positions[name] / (1 if name == "forward" else 1 + DRAWS)
            report[name] = {
                "tokens_per_second": round(self.tokens / wall[name], 1),
                "seconds": round(wall[name], 3),
                "cpu_seconds": round(cpu[name], 3),
                "positions_computed": round(rows),
                "beyond_distinct": round(1 - distinct / rows, 4),
                "peak_memory_gb": round(self.peaks[name] / 1e9, 2),
            }
        needed = flops(self.usual, self.responses, 1 + DRAWS, distinct)
        report["share_of_matrix_peak"] = round(needed / wall["tokur"] / matrix, 3)
        if "plain" in self.results:
            report["largest_logprob_difference"] = max(
                float(abs(ours["logprob"] - theirs["logprob"]).max())
                for ours, theirs in zip(self.results["tokur"], self.results["plain"], strict=True)
            )
        return report


def compare(reports, arguments):
    """How much longer than tokur, in the dtype that it is fastest in, the other ways take in every dtype."""
    best = min(reports, key=lambda report: report["tokur"]["seconds"])
    times = {}
    for report in reports:
        for name in arguments.ways.split(","):
            wall, cpu = (report[name][key] / best["tokur"][key] for key in ("seconds", "cpu_seconds"))
            times[f"{name} {report['dtype']}"] = {"wall": round(wall, 2), "cpu": round(cpu, 2)}
    return {f"times tokur {best['dtype']}": times}


def errors(exact, rough):
    """Root mean square difference from tokur in float32 by way, of what the mean weights give: logprob and entropy.

    Those of the uncertainties depend on the draws by chance: see ``tests.bench.rounding``.
    """

    def error(results, name):
        gaps = [theirs[name] - ours[name] for ours, theirs in zip(exact, results, strict=True)]
        return float(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))

    return {
        way: {name: error(results, name) for name in ("logprob", "entropy")}
        for way, results in rough.items()
        if way != "forward"
    }


def show(report, ways):
    print()
    print(f"{report['dtype']}: {report['response_tokens']} response tokens, {report['positions']} positions,", end=" ")
    print(f"{report['distinct_positions']} of them distinct; matrix products run at {report['matrix_gflops']} GFLOP/s")
    print(" " * 8, *(f"{column.replace('_', ' '):>18}" for column in report["tokur"]))
    for name in ways:
        print(f"{name:8}", *(f"{value:>18}" for value in report[name].values()))
    print(f"tokur runs at {report['share_of_matrix_peak']:.1%} of the matrix peak")
    for name in ways[1:]:
        wall, cpu = (report[name][key] / report["tokur"][key] for key in ("seconds", "cpu_seconds"))
        print(f"{name} takes {wall:.2f} × its time, {cpu:.2f} × by CPU time")
    for name, by_quantity in report.get("errors", {}).items():
        print(f"{name}, root mean square error:", ", ".join(f"{of} {error:.2g}" for of, error in by_quantity.items()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=WORKLOADS, default="samples")
    parser.add_argument("--responses", type=int, help="172; of llama1b and llama3b on a CPU 4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtypes", help="float32,bfloat16; of llama1b and llama3b bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sampling", default="stepwise")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--ways", default="tokur,plain,forward", help="tokur first; plain, forward, padded")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    options, dtypes, most = {}, "float32,bfloat16", 172
    if arguments.workload in SHAPES:
        options, dtypes = {"device": arguments.device}, "bfloat16"
        most = 4 if arguments.device == "cpu" else most
    load, responses = WORKLOADS[arguments.workload](arguments.responses or most, **options)
    dtypes = arguments.dtypes or dtypes
    contests = [Contest(arguments, load, responses, dtype) for dtype in dtypes.split(",")]
    for contest in contests if arguments.profile else ():
        contest.profile()
    for _ in range(arguments.rounds):
        for contest in contests:
            contest.round()
    reports = [contest.report() for contest in contests]
    exact = next((contest.results["tokur"] for contest in contests if contest.dtype == "float32"), None)
    for contest, report in zip(contests, reports, strict=True):
        if exact and contest.dtype != "float32":
            report["errors"] = errors(exact, contest.results)
    for report in reports:
        show(report, arguments.ways.split(","))
    settings = {"workload": arguments.workload, "responses": len(responses), "rounds": arguments.rounds}
    settings |= {"device": arguments.device, "threads": torch.get_num_threads(), "sampling": arguments.sampling}
    print(json.dumps({**settings, "reports": reports, **compare(reports, arguments)}))


if __name__ == "__main__":
    main()
