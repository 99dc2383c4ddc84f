"""Does a certificate keep its promise? Certify half of some labelled responses, look at the other half, 200 times.

tokur evaluate scored.jsonl --graded labelled.jsonl
python samples/certificate_splits.py labelled.jsonl --by eu --certify 60
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from tokur_cli.metrics.certification import Target, certify
from tokur_cli.scores.catalogue import CATALOGUE

SPLITS = 200


def value_of(record: dict[str, Any], by: str) -> float:
    """Return a score of a scored record, or of a row of the study of strengths."""
    return float(record["tokur"]["scores"][by] if "tokur" in record else record[by])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help='records with "correct" and scores, one response to each question')
    parser.add_argument("--by", default="eu")
    parser.add_argument("--certify", type=float, default=60.0, help="percent")
    parser.add_argument("--only", metavar="FIELD=VALUE", help="of the records, these")
    given = parser.parse_args()
    records = [json.loads(line) for line in given.file.read_text(encoding="utf-8").splitlines()]
    if given.only:
        field, _, value = given.only.partition("=")
        records = [record for record in records if str(record[field]) == value]
    sign = -1.0 if CATALOGUE[given.by].orientation == "uncertainty" else 1.0
    confidence = sign * np.array([value_of(record, given.by) for record in records])
    wrong = ~np.array([bool(record["correct"]) for record in records])
    generator, target = np.random.default_rng(0), Target(given.certify / 100, 0.05)
    coverages, errors = [], []
    for _ in range(SPLITS):
        order, lots = generator.permutation(len(wrong)), generator.random(len(wrong))
        here, there = order[: len(order) // 2], order[len(order) // 2 :]
        found = certify(confidence[here], lots[here], wrong[here], target)
        if found is None:
            continue
        above = np.ones(len(there), dtype=bool)
        if found.next is not None:
            place = here[found.next]
            tied = confidence[there] == confidence[place]
            above = (confidence[there] > confidence[place]) | (tied & (lots[there] > lots[place]))
        coverages.append(above.mean())
        errors.append(wrong[there][above].mean() if above.any() else 0.0)
    more = sum(error > target.risk for error in errors)
    print(f"{len(wrong)} questions, {wrong.mean():.1%} answered wrong; {given.by}, at most {given.certify:g} %")
    print(f"certified in {len(errors)} of {SPLITS} splits")
    if errors:
        print(f"then on the other half: coverage {np.mean(coverages):.1%}, wrong {np.mean(errors):.1%} of these")
        print(f"more than {given.certify:g} % there in {more} splits")


if __name__ == "__main__":
    main()
