"""``tokur evaluate --difficulty`` groups questions by how many of N samples are wrong."""

import random

import pytest
from sklearn.metrics import roc_auc_score

from tests.helpers import parsed, write_lines


def samples(questions, count, seed, shuffled=True):
    rng = random.Random(seed)
    records = [
        {
            "id": f"q{q}",
            "correct": rng.random() < q / questions,
            "tokur": {"sample": n, "scores": {"eu": rng.random()}},
        }
        for q in range(questions)
        for n in range(count)
    ]
    if shuffled:
        rng.shuffle(records)
    return records


def failures(records, count):
    found = {}
    for record in records:
        if record["tokur"]["sample"] < count:
            found[record["id"]] = found.get(record["id"], 0) + (not record["correct"])
    return found


def test_groups_are_of_questions_with_equally_many_wrong_samples(tmp_path, run_tokur):
    records = samples(40, 6, 1)
    code, out, err = run_tokur(
        "evaluate", write_lines(tmp_path / "a.jsonl", records), "--difficulty", 4, "--bootstrap", 0
    )
    assert code == 0, err
    level = failures(records, 4)  # two samples of each question are evaluated but do not tell
    rows = {row["group"]: row for row in parsed(out) if "group" in row}
    assert list(rows) == sorted({str(value) for value in level.values()})
    for group, row in rows.items():
        members = [record for record in records if level[record["id"]] == int(group)]
        label = [record["correct"] for record in members]
        assert (row["labelled"], row["questions"]) == (len(members), len(members) // 6)
        if len(set(label)) > 1:
            value = roc_auc_score(label, [-record["tokur"]["scores"]["eu"] for record in members])
            assert row["auroc"]["value"] == pytest.approx(value)
