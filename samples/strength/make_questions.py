"""Write 528 single-step word problems that are not among the sample questions.

python samples/strength/make_questions.py > arithmetic.jsonl
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

SAMPLES = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SAMPLES))

import make_questions  # noqa: E402 (of the folder above)

COUNT = 528


def main() -> None:
    make_questions.PER_TEMPLATE = 52
    known = {json.loads(line)["question"] for line in (SAMPLES / "questions.jsonl").read_text().splitlines()}
    new = [row for row in make_questions.word_problems(random.Random(1)) if row["question"] not in known]
    for number, row in enumerate(new[:COUNT]):
        print(json.dumps({"id": f"arith-{number:03d}", "question": row["question"], "reference": row["reference"]}))


if __name__ == "__main__":
    main()
