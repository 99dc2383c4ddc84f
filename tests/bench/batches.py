"""How many responses rounding changes with the batch that they are generated in.

    python -m tests.bench.batches [--dtypes float32,bfloat16] [--batches 48,5] [-- OPTIONS OF generate]

Twelve sample questions, four responses to each at temperature 0.8, of at most 48 tokens; say, ``-- --top-p 0.9`` or
``-- --guide eu``.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

QUESTIONS = Path(__file__).parents[2] / "samples" / "questions.jsonl"


def responses(words):
    """Token ids by question and sample, of a run of the command in a process of its own."""
    asked = b"\n".join(QUESTIONS.read_bytes().splitlines()[:12]) + b"\n"
    command = [sys.executable, "-m", "tokur_cli", "generate", "-n", "4", "--temperature", "0.8", *words]
    output = subprocess.run(command, input=asked, stdout=subprocess.PIPE, check=True).stdout
    return {(r["id"], r["tokur"]["sample"]): r["tokur"]["token_ids"] for r in map(json.loads, output.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--batches", default="48,5")
    parser.add_argument("options", nargs="*", default=[])
    options = parser.parse_args()
    for dtype in options.dtypes.split(","):
        words = ["--dtype", dtype, "--max-new-tokens", "48", *options.options]
        one, other = (responses([*words, "--batch-size", size]) for size in options.batches.split(","))
        changed = sum(ids != other[key] for key, ids in one.items())
        print(
            f"{dtype}: {changed} of {len(one)} responses differ in batches of {options.batches.replace(',', ' and ')}"
        )


if __name__ == "__main__":
    main()
