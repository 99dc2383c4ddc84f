"""``tokur evaluate`` of several files, seeds and samples: what is a run, and what a question."""

import numpy as np
import pytest

from tests.commands.evaluate.rows import hand_worked, many, scored


def test_several_files_give_mean_and_standard_deviation(evaluate):
    perfect = [scored(number, float(number), correct=number < 2) for number in range(4)]
    _, (row,), _ = evaluate(hand_worked(), perfect)
    assert row["runs"] == 2
    assert row["auroc"]["value"] == pytest.approx(0.875)
    assert row["auroc"]["std"] == pytest.approx(np.std([0.75, 1.0], ddof=1))
    assert row["auroc"]["values"] == [0.75, 1.0]
    assert "low" not in row["auroc"]


def test_intervals_of_repeated_samples_widen_because_questions_are_drawn_whole(evaluate):
    single = list(many(60, names=("eu",)))
    copies = [{**record, "tokur": {**record["tokur"], "sample": sample}} for record in single for sample in range(8)]
    apart = [{**record, "id": f"{number}"} for number, record in enumerate(copies)]
    widths = []
    for records in (single, copies, apart):
        _, (row,), _ = evaluate(records, options=["--bootstrap", 200])
        widths.append(row["auroc"]["high"] - row["auroc"]["low"])
    assert widths[1] == pytest.approx(widths[0], rel=0.25)
    assert widths[2] < 0.6 * widths[1]


def test_one_question_has_no_intervals_and_no_p_value(evaluate):
    records = [
        {"id": "q", "correct": correct, "tokur": {"sample": n, "scores": {"eu": eu, "ll": -eu * eu % 3}}}
        for n, (correct, eu) in enumerate([(True, 0.1), (False, 0.2), (True, 0.3), (False, 0.4), (True, 0.5)])
    ]
    code, rows, err = evaluate(records, options=["--versus", "ll"])
    assert code == 0
    assert "tokur evaluate: no intervals: fewer than 2 questions to resample\n" in err
    for row in rows:
        assert row["auroc"]["value"] is not None
        assert "low" not in row["auroc"]
        assert not row.get("difference")
    records[0]["id"] = "another"
    _, rows, err = evaluate(records, options=["--versus", "ll"])
    assert "no intervals" not in err
    assert all("low" in row["acc"] for row in rows)
