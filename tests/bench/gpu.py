"""What is to be known of a GPU, as a table: ``python -m tests.bench.gpu --model NAME``.

``pytest -m gpu`` comes first, then scoring and generation. What fails is a row, too, and the rest goes on.
"""

import argparse
import subprocess
import sys

import torch

from tests.bench.common import rows_of
from tokur_cli import Tokur


def tests(_):
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "gpu"], capture_output=True, text=True)
    return run.stdout.strip().splitlines()[-1]


def bench(module, *arguments):
    """Return a section that runs another benchmark and tells its lines."""

    def run(options):
        command = [sys.executable, "-m", f"tests.bench.{module}", "--dtype", "bfloat16", *arguments]
        if options.model and module == "score":
            command += ["--model", options.model]
        done = subprocess.run(command, capture_output=True, text=True)
        return "; ".join((done.stdout or done.stderr).strip().splitlines()[-3:])

    return run


def repeatable(options):
    """Whether two runs give the same numbers to the last bit."""
    tokur = Tokur(options.model or "smollm2-135m-instruct", dtype="bfloat16")
    rows = [{"question": row["question"], "response": row["response"]} for row in rows_of("responses.jsonl", 16)]
    first, second = ([record["tokur"]["tokens"] for record in tokur.score(rows)] for _ in range(2))
    return "the same to the last bit" if first == second else "different"


SECTIONS = {
    "pytest -m gpu": tests,
    "scoring": bench("score", "--responses", "172"),
    "scoring below a header": bench("score", "--workload", "shared-prefix", "--responses", "256"),
    "generation": bench("generate", "--questions", "64", "--samples", "4"),
    "guided generation": bench("generate", "--questions", "8", "--samples", "16", "--guide"),
    "two runs": repeatable,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    options = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"| {device}, PyTorch {torch.__version__} | |\n| --- | --- |", flush=True)
    for name, section in SECTIONS.items():
        try:
            found = section(options)
        except Exception as error:  # a part that does not run here is a result too
            found = f"**{type(error).__name__}**: {next(iter(str(error).splitlines()), '')[:200]}"
        print(f"| {name} | {found} |", flush=True)


if __name__ == "__main__":
    main()
