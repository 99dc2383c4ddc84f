"""Time and peak memory of ``tokur select`` on many scored records: ``python -m tests.bench.select [--questions 500]``.

Records are as ``score --no-tokens`` writes them, shuffled over the whole file, with plain numeric answers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tokur_cli.scores.catalogue import CATALOGUE

RUN = {"model": "m", "revision": None, "dtype": "float32", "rank": 8, "sigma": 0.1, "draws": 2, "sampling": "stepwise",
       "targets": "q_proj,k_proj", "seed": 0, "version": "0.1.0"}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--samples", type=int, default=512)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scattered, grouped = Path(folder, "scattered.jsonl"), Path(folder, "grouped.jsonl")
        write(grouped, range(options.questions * options.samples), options.samples)
        order = list(range(options.questions * options.samples))
        random.Random(0).shuffle(order)
        write(scattered, order, options.samples)
        print(f"{len(order):,} records, {scattered.stat().st_size / 2**20:,.0f} MiB")
        for name, path, extra in (
            ("scattered", scattered, []),
            ("--method wbon", scattered, ["--method", "wbon"]),
            ("--grouped", grouped, ["--grouped"]),
            ("--records", scattered, ["--records"]),
        ):
            seconds, mebibytes = measure(["select", str(path), "--force", "-o", f"{folder}/out.jsonl", *extra])
            print(f"{name:16}{seconds:6.1f} s{mebibytes:8.0f} MiB")


def write(path: Path, order, samples: int) -> None:
    with path.open("w") as file:
        for number in order:
            file.write(json.dumps(record(*divmod(number, samples))) + "\n")


def record(question: int, sample: int) -> dict:
    rng = random.Random(question * 1_000_003 + sample)
    answer = question if rng.random() < 0.4 else rng.randrange(1000)
    steps = "".join(f"Step {step}: {rng.randrange(1000)} + {rng.randrange(1000)} makes more.\n" for step in range(12))
    return {
        "id": f"q{question}",
        "question": f"Question {question}: " + "how many apples are there? " * 6,
        "reference": str(question),
        "response": f"{steps}Therefore, the final answer is: $\\boxed{{{answer}}}$. I hope it is correct.",
        "tokur": {
            "schema": 1, "model": "m", "sample": sample, "seed": 0, "finish_reason": "stop",
            "scores": {name: rng.random() for name in CATALOGUE}, "run": RUN,
        },
    }  # fmt: skip


def measure(arguments: list[str]) -> tuple[float, float]:
    """(seconds, peak resident MiB) of one run of the command line."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "tokur_cli", *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    unit = 1 if sys.platform == "darwin" else 1024
    return time.perf_counter() - begin, usage.ru_maxrss * unit / 2**20


if __name__ == "__main__":
    main()
