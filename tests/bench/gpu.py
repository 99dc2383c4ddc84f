"""What is to be known of a GPU, within 20 minutes, as a table: ``python -m tests.bench.gpu [--responses 128]``.

``pytest -m gpu`` comes first, then a random model of Llama-3.2-1B's shape in bfloat16. What fails is a row, too, and
the rest goes on. ``--device cpu --workload tiny --responses 8`` tries the program out: its figures mean nothing.
"""

import argparse
import importlib.util
import itertools
import statistics
import subprocess
import sys
import time
import warnings

import torch

from tests.bench.plain import PlainScorer
from tests.bench.score import DRAWS, WORKLOADS, Tokur
from tokur_cli.commands.options.scoring import default_batch_tokens
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.posterior.basis import left_singular_vectors
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.uncertainty.vocabulary import token_quantities

ROUNDS = 3
NEW_TOKENS = 128
REGIONS = {"attention": ("flash", "attention", "fmha"), "products": ("gemm", "cutlass", "mm_")}


class Bench:
    """The model, what is scored, and the device's clock."""

    def __init__(self, arguments):
        self.device = torch.device(arguments.device)
        load, self.responses = WORKLOADS[arguments.workload](arguments.responses)
        self.model = load("bfloat16", arguments.device)
        self.posterior = build_posterior(self.model)
        self.tokens = sum(len(response.response_ids) for response in self.responses)
        self.scorer = Tokur(self.model, self.posterior, "stepwise", default_batch_tokens(self.device.type))

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work, rounds=ROUNDS):
        """Median, after a round that does not count."""
        work()
        times = []
        for _ in range(rounds):
            self.wait()
            began = time.perf_counter()
            work()
            self.wait()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    def the_tests(self):
        """pytest -m gpu."""
        run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "gpu"], capture_output=True, text=True)
        return run.stdout.strip().splitlines()[-1]

    def scoring(self):
        """Response tokens scored a second, beside swapped weights and padded batches."""
        ours = self.tokens / self.seconds(lambda: self.scorer.score(self.responses))
        plain = PlainScorer(self.model, self.posterior, DRAWS)
        theirs = self.tokens / self.seconds(lambda: plain.score(self.responses), 1)
        return f"{ours:,.0f} tokens/s, plain {theirs:,.0f}: {ours / theirs:.2f} times as fast"

    def equal_runs(self):
        """Whether two runs give the same numbers to the last bit."""
        first, second = (self.scorer.score(self.responses[:16]) for _ in range(2))
        same = all((a[name] == b[name]).all() for a, b in zip(first, second, strict=True) for name in a)
        return "the same to the last bit" if same else "different"

    def waiting(self):
        """Calls that wait for the GPU: the copies of results alone should, in scoring, and none in generation."""
        if self.device.type != "cuda":
            return "only on CUDA"
        found = []
        asked = [DecodingRequest(n, str(n), list(one.prompt_ids), [0, 1]) for n, one in enumerate(self.responses[:16])]
        settings = {"end_ids": frozenset(), "max_new_tokens": 32, "max_rows": 16}
        decoder = Decoder(self.model, str, Sampling(temperature=0.8, top_p=0.9), **settings)
        for name, work in (
            ("scoring 16 responses", lambda: self.scorer.score(self.responses[:16])),
            ("generating 32 of 32 tokens", lambda: list(decoder.run(asked))),
        ):
            work()
            torch.cuda.set_sync_debug_mode("warn")
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    work()
            finally:
                torch.cuda.set_sync_debug_mode("default")
            places = {f"{warning.filename.rpartition('tokur_cli')[2]}:{warning.lineno}" for warning in caught}
            found.append(f"{name}: {len(caught)}, at {', '.join(sorted(places)) or 'no place'}")
        return "; ".join(found)

    def where_time_goes(self):
        """Shares of the device's time by kind of kernel, and of the clock without any."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self.wait()
        began = time.perf_counter()
        with torch.profiler.profile(activities=activities) as profile:
            self.scorer.score(self.responses)
            self.wait()
        clock = time.perf_counter() - began
        by_region, total = dict.fromkeys([*REGIONS, "others"], 0.0), 0.0
        for event in profile.key_averages():
            spent = event.self_device_time_total / 1e6
            name = event.key.lower()
            region = next((r for r, words in REGIONS.items() if any(word in name for word in words)), "others")
            by_region[region] += spent
            total += spent
        shares = ", ".join(f"{region} {spent / max(total, 1e-9):.0%}" for region, spent in by_region.items())
        return f"{shares}; idle {max(0.0, 1 - total / clock):.0%} of {clock:.2f} s"

    def decoding(self):
        """Tokens a second at several widths, in a batch that is refilled, beside transformers' padded batches."""
        found = []
        for rows in (1, 16, 64, 256):
            every = itertools.cycle(response.prompt_ids for response in self.responses)
            prompts = list(itertools.islice(every, 2 * rows))
            requests = [DecodingRequest(index, str(index), list(ids), [0]) for index, ids in enumerate(prompts)]
            decoder = Decoder(
                self.model,
                str,
                Sampling(temperature=0.8),
                end_ids=frozenset(),
                max_new_tokens=NEW_TOKENS,
                max_rows=rows,
            )
            ours = len(requests) * NEW_TOKENS / self.seconds(lambda r=requests, d=decoder: list(d.run(r)), 1)
            batch = prompts[:rows]
            width = max(map(len, batch))
            ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in batch], device=self.device)
            options = {"do_sample": True, "min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS, "pad_token_id": 0}
            usual = self.seconds(lambda i=ids, o=options: self.model.generate(i, attention_mask=i != 0, **o), 1)
            found.append(f"{rows} rows {ours:,.0f} (transformers {len(batch) * NEW_TOKENS / usual:,.0f})")
        return "; ".join(found)

    def beside_vllm(self):
        """Tokens a second generated by SmolLM2, 64 × 4 of at most 256, beside vLLM with CUDA graphs."""
        if importlib.util.find_spec("vllm") is None:
            return "vLLM is not installed"
        command = [sys.executable, "-m", "tests.bench.generate", "--ways", "refilled_batch,vllm"]
        run = subprocess.run(command, capture_output=True, text=True)
        return (run.stdout or run.stderr).strip().splitlines()[-1]

    def reduction(self):
        """What the vocabulary's reduction reads a second."""
        size, tokens = (128_256, 512) if self.device.type == "cuda" else (1000, 16)
        logits = torch.randn(1 + DRAWS, tokens, size, device=self.device).bfloat16()
        targets, starts = torch.zeros(tokens, dtype=torch.long, device=self.device), torch.zeros(tokens).long()
        spent = self.seconds(lambda: token_quantities(lambda states: states, logits.clone(), targets, starts))
        return f"{spent * 1000:.2f} ms, {logits.nbytes / spent / 1e9:,.0f} GB/s of logits"

    def too_little_memory(self):
        """Whether scoring goes on in halves where a batch does not fit."""
        if self.device.type != "cuda":
            return "only on CUDA"
        held = torch.cuda.memory_allocated() + (1 << 30)
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(held / torch.cuda.get_device_properties(0).total_memory)
        try:
            results = self.scorer.score(self.responses[:64])
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return f"{len(results)} of {len(self.responses[:64])} responses with 1 GiB beside the weights"

    def basis(self):
        """Seconds for the first eight singular vectors of a weight."""
        size = 4096 if self.device.type == "cuda" else 256
        left, right = (torch.linalg.qr(torch.randn(size, size, device=self.device))[0] for _ in range(2))
        weight = left * (1 / torch.arange(1, size + 1, device=self.device).sqrt()) @ right
        return f"{self.seconds(lambda: left_singular_vectors(weight, 8), 1):.2f} s for {size} × {size}"


SECTIONS = (
    Bench.the_tests, Bench.scoring, Bench.equal_runs, Bench.waiting, Bench.where_time_goes, Bench.decoding,
    Bench.beside_vllm, Bench.reduction, Bench.too_little_memory, Bench.basis,
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workload", choices=WORKLOADS, default="llama1b")
    parser.add_argument("--responses", type=int, default=128)
    arguments = parser.parse_args()
    bench = Bench(arguments)
    name = torch.cuda.get_device_name() if bench.device.type == "cuda" else "no GPU"
    print(f"| {name}, PyTorch {torch.__version__} | |\n| --- | --- |", flush=True)
    for section in SECTIONS:
        try:
            found = section(bench)
        except Exception as error:  # a part that does not run here is a result too
            found = f"**{type(error).__name__}**: {next(iter(str(error).splitlines()), '')[:200]}"
        print(f"| {section.__name__.replace('_', ' ')} | {found} |", flush=True)


if __name__ == "__main__":
    main()
