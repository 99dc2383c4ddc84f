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


def test_another_models_samples_tell_the_difficulty_by_id(tmp_path, run_tokur):
    others = write_lines(tmp_path / "others.jsonl", samples(30, 10, 2))
    level = failures(parsed(others.read_text()), 10)
    own = samples(32, 1, 3)  # two questions that the other model was not asked
    code, out, err = run_tokur(
        *("evaluate", write_lines(tmp_path / "own.jsonl", own), "--bootstrap", 0),
        *("--difficulty", 10, "--difficulty-from", others),
    )
    assert code == 0, err
    assert "not in a group: 2 records without 10 labelled samples of their question" in err
    counts = {row["group"]: row["labelled"] for row in parsed(out) if "group" in row}
    assert counts == {str(value): list(level.values()).count(value) for value in sorted(set(level.values()))}


def test_each_run_is_grouped_by_its_own_samples(tmp_path, run_tokur):
    wrong = ({"q0", "q1"}, {"q2", "q3"})
    paths = [
        write_lines(
            tmp_path / f"run{number}.jsonl",
            [
                {"id": f"q{q}", "correct": f"q{q}" not in names, "tokur": {"sample": n, "scores": {"eu": q + n}}}
                for q in range(4)
                for n in range(2)
            ],
        )
        for number, names in enumerate(wrong)
    ]
    code, out, err = run_tokur("evaluate", *paths, "--difficulty", 2, "--bootstrap", 0)
    assert code == 0, err
    accuracies = {row["group"]: row["accuracy"]["values"] for row in parsed(out) if "group" in row}
    assert accuracies == {"0": [1.0, 1.0], "2": [0.0, 0.0]}
