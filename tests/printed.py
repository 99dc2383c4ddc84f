"""The scores behind the READMEs' figures, kept: scoring all sample responses takes half an hour, scoring some a minute.

``python -m tests.printed`` makes ``data/printed`` anew with the READMEs' commands.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.readmes import ROOT, block_with

KEPT = Path(__file__).parent / "data" / "printed"
TOUR = Path("samples/README.md")
DECISIONS = Path("samples/decisions.md")
EVALUATE = "tokur evaluate scored.jsonl --scores"


def arguments(command: str, start: str) -> list[str]:
    """Return the words of the first command of a block that begins with ``start``, up to a pipe or a redirection."""
    line = next(line for line in command.splitlines() if line.strip().startswith(start))
    return shlex.split(re.split(r" [|>] ", line)[0])[1:]


def commands() -> dict[str, list[str]]:
    """Return what is kept: the name of each file, and the words of the tour's command that scores for it."""
    greedy = arguments(block_with(TOUR, EVALUATE).commands, "tokur score")
    sampled = arguments(block_with(DECISIONS, "for by in").commands, "tokur score")
    assert "float32" in greedy
    assert "float32" in sampled
    return {"responses": greedy, "responses-fisher": [*greedy, "--estimator", "fisher"], "responses_n16": sampled}


def score(words: list[str], rows: list[bytes]) -> list[dict]:
    """Score rows by the words of a command, whose path to sample responses is left out, in a process of its own."""
    words = [word for word in words if not word.startswith("samples/")]
    given = b"\n".join(rows) + b"\n"
    ended = subprocess.run([sys.executable, "-m", "tokur_cli", *words], check=True, input=given, stdout=subprocess.PIPE)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def rows_of(words: list[str]) -> list[bytes]:
    (path,) = (word for word in words if word.startswith("samples/"))
    return (ROOT / path).read_bytes().splitlines()


def scored(name: str, path: Path, anew: Sequence[int]) -> list[dict]:
    """Write all responses with their kept scores, once some are scored anew and have the same ones; return those.

    Args:
        name: of the kept scores.
        path: where the responses are written.
        anew: the places of those that are scored anew.

    Raises:
        AssertionError: a score is not what is kept.
    """
    words = commands()[name]
    rows = rows_of(words)
    with (KEPT / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        kept = [
            {score: float(value) for score, value in row.items() if score not in ("id", "sample")}
            for row in csv.DictReader(file)
        ]
    fresh = score(words, [rows[place] for place in anew])
    for record, place in zip(fresh, anew, strict=True):
        assert record["tokur"]["scores"] == pytest.approx(kept[place], rel=1e-3, abs=1e-6), record["id"]
    run = fresh[0]["tokur"]["run"]
    with path.open("w", encoding="utf-8") as file:
        for row, scores in zip(rows, kept, strict=True):
            record = json.loads(row)
            record["tokur"] = {**record["tokur"], "scores": scores, "run": run}
            file.write(json.dumps(record) + "\n")
    return fresh


def keep(name: str, records: list[dict]) -> None:
    """Keep the scores of all responses, to nine digits."""
    with (KEPT / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        names = list(records[0]["tokur"]["scores"])
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "sample", *names])
        for record in records:
            values = (f"{record['tokur']['scores'][name]:.9g}" for name in names)
            writer.writerow([record["id"], record["tokur"]["sample"], *values])


if __name__ == "__main__":
    for name, words in commands().items():
        if name in sys.argv[1:] or len(sys.argv) == 1:
            keep(name, score(words, rows_of(words)))
