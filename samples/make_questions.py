"""Write the sample questions: templated one-step word problems, and rows of GSM8K and MATH.

python samples/make_questions.py GSM8K_TEST.jsonl MATH_TEST.jsonl > samples/questions.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SEED = 0
PER_TEMPLATE = 12
PER_DATA_SET = 20

NAMES = (
    "Tom",
    "Maria",
    "Aisha",
    "Ben",
    "Chen",
    "Dara",
    "Elif",
    "Femi",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kofi",
    "Lena",
)
THINGS = ("apples", "pencils", "marbles", "stickers", "books", "coins", "shells", "cookies", "buttons", "cards")

Numbers = tuple[int, int, int]
"""The two numbers that a question names, and its answer."""


def addition(draw: random.Random) -> Numbers:
    n, m = draw.randint(2, 12), draw.randint(2, 9)
    return n, m, n + m


def subtraction(draw: random.Random) -> Numbers:
    m, left = draw.randint(2, 9), draw.randint(2, 9)
    return m + left, m, left


def multiplication(draw: random.Random) -> Numbers:
    n, m = draw.randint(2, 12), draw.randint(2, 10)
    return n, m, n * m


def division(draw: random.Random) -> Numbers:
    m, each = draw.randint(2, 10), draw.randint(2, 10)
    return m * each, m, each


TEMPLATES: tuple[tuple[Callable[[random.Random], Numbers], str], ...] = (
    (addition, "{a} has {n} {things} and buys {m} more. How many {things} does {a} have in total?"),
    (addition, "{a} has {n} {things} and {b} has {m} {things}. How many {things} do they have together?"),
    (
        addition,
        "{a} found {n} {things} in the morning and {m} {things} in the afternoon. "
        "How many {things} did {a} find in total?",
    ),
    (subtraction, "{a} has {n} {things} and loses {m}. How many {things} are left?"),
    (subtraction, "{a} has {n} dollars and spends {m} dollars. How many dollars does {a} have left?"),
    (multiplication, "{a} has {n} boxes with {m} {things} each. How many {things} does {a} have?"),
    (multiplication, "One ticket costs {m} dollars. How many dollars do {n} tickets cost?"),
    (multiplication, "{a} walks {m} kilometres a day. How many kilometres does {a} walk in {n} days?"),
    (multiplication, "There are {n} rows of {m} chairs. How many chairs are there in total?"),
    (division, "{a} shares {n} {things} equally among {m} friends. How many {things} does each friend get?"),
    (division, "{a} paid {n} dollars for {m} tickets of the same price. How many dollars did one ticket cost?"),
)


def word_problems(draw: random.Random) -> Iterator[dict[str, str]]:
    made: set[str] = set()
    while len(made) < PER_TEMPLATE * len(TEMPLATES):
        numbers, template = TEMPLATES[len(made) % len(TEMPLATES)]
        a, b = draw.sample(NAMES, 2)
        n, m, answer = numbers(draw)
        question = template.format(a=a, b=b, n=n, m=m, things=draw.choice(THINGS))
        if question in made:
            continue
        made.add(question)
        yield {
            "id": f"word-{len(made):03d}",
            "question": question,
            "reference": str(answer),
            "source": f"templated {numbers.__name__} (samples/make_questions.py)",
            "licence": "CC0-1.0",
        }


def read_sample(path: Path, draw: random.Random) -> list[tuple[int, dict[str, Any]]]:
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    return sorted(draw.sample(list(enumerate(rows)), PER_DATA_SET), key=lambda numbered: numbered[0])


def gsm8k(path: Path, draw: random.Random) -> Iterator[dict[str, str]]:
    for i, row in read_sample(path, draw):
        yield {
            "id": f"gsm8k-test-{i}",
            "question": row["question"],
            "reference": row["answer"].rpartition("####")[2].strip(),
            "source": "GSM8K test split (openai/grade-school-math)",
            "licence": "MIT",
        }


def math(path: Path, draw: random.Random) -> Iterator[dict[str, str]]:
    for _, row in read_sample(path, draw):
        yield {
            "id": f"math-{row['unique_id'].removesuffix('.json').replace('/', '-')}",
            "question": row["problem"],
            "reference": row["answer"],
            "source": "MATH, test subset of Let's Verify Step by Step (openai/prm800k)",
            "licence": "MIT",
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gsm8k", type=Path, help="GSM8K test rows: question, answer")
    parser.add_argument("math", type=Path, help="MATH test rows: problem, answer, unique_id")
    paths = parser.parse_args()
    draw = random.Random(SEED)
    for questions in (word_problems(draw), gsm8k(paths.gsm8k, draw), math(paths.math, draw)):
        for question in questions:
            print(json.dumps(question, ensure_ascii=False))


if __name__ == "__main__":
    main()
