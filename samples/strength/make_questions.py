"""Write up to 528 single-step word problems that are neither among the sample questions nor those of the default seed.

python samples/strength/make_questions.py > arithmetic.jsonl
python samples/strength/make_questions.py --seed 2 > fresh.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

SAMPLES = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SAMPLES))

import make_questions  # noqa: E402 (of the folder above)

COUNT = 528
SEED = 1


def unknown(seed: int, known: set[str]) -> Iterator[dict[str, str]]:
    """Yield the first problems of a seed whose questions are not known."""
    new = [row for row in make_questions.word_problems(random.Random(seed)) if row["question"] not in known]
    yield from new[:COUNT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    seed = parser.parse_args().seed
    make_questions.PER_TEMPLATE = 52
    known = {json.loads(line)["question"] for line in (SAMPLES / "questions.jsonl").read_text().splitlines()}
    if seed != SEED:
        known |= {row["question"] for row in unknown(SEED, known)}
    for number, row in enumerate(unknown(seed, known)):
        print(json.dumps({"id": f"arith-{number:03d}", "question": row["question"], "reference": row["reference"]}))


if __name__ == "__main__":
    main()
