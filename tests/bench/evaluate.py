"""Time and memory of ``tokur evaluate`` on 100,000 records: ``python -m tests.bench.evaluate [records]``.

The records have all scores and plain numeric answers to grade; intervals come from 1,000 resamples. The command runs
in a process of its own, whose peak memory is measured, and the run fails over 30 s or 1 GB.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.catalogue import CATALOGUE, LENGTH

SECONDS, MEGABYTES = 30.0, 1000.0


def write_records(path: Path, count: int) -> None:
    """Write scored records, a third of them right, whose scores tell a little."""
    rng = random.Random(0)
    with path.open("w") as file:
        for number in range(count):
            reference = rng.randint(1, 5000)
            right = rng.random() < 0.35
            scores = {name: rng.gauss(0.5 * right, 1) for name in CATALOGUE}
            scores |= {LENGTH: -float(rng.randint(20, 400)), P_CORRECT: rng.random()}
            record = {
                "id": f"q{number}",
                "question": f"What comes {number} after the first?",
                "reference": f"{reference}",
                "response": f"We count step by step.\nThe answer is {reference if right else reference + 1}.",
                "tokur": {"schema": 1, "scores": scores},
            }
            file.write(json.dumps(record) + "\n")


def main() -> int:
    """Run once, print what it took."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scored.jsonl"
        write_records(path, count)
        started = time.perf_counter()
        command = [sys.executable, "-m", "tokur_cli", "evaluate", str(path), "--scores", "all"]
        command += ["--versus", "ll", "-o", f"{folder}/out"]
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    megabytes = usage.ru_maxrss / 1024
    work = f"{seconds:.1f} s ({usage.ru_utime + usage.ru_stime:.1f} s of processor time)"
    print(f"{count:,} records, {len(CATALOGUE)} scores: {work}, {megabytes:.0f} MB at most")
    return int(count <= 100_000 and (seconds > SECONDS or megabytes > MEGABYTES))


if __name__ == "__main__":
    raise SystemExit(main())
