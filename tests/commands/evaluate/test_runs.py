"""``tokur evaluate`` of several files, seeds and samples: what is a run, and what a question."""

import re

import numpy as np
import pytest

from tests.commands.evaluate.rows import copied, hand_worked, many, scored, without_id
from tests.helpers import write_lines


def test_several_files_give_mean_and_standard_deviation(evaluate):
    perfect = [scored(number, float(number), correct=number < 2) for number in range(4)]
    _, (row,), _ = evaluate(hand_worked(), perfect)
    assert row["runs"] == 2
    assert row["auroc"]["value"] == pytest.approx(0.875)
    assert row["auroc"]["std"] == pytest.approx(np.std([0.75, 1.0], ddof=1))
    assert row["auroc"]["values"] == [0.75, 1.0]
    assert "low" not in row["auroc"]


def test_several_seeds_in_one_file_are_runs_of_their_own(evaluate):
    records = []
    for seed in (0, 1):
        for record in hand_worked():
            record["tokur"]["run"] = {"seed": seed}
            records.append(record)
    _, (row,), err = evaluate(records)
    assert row["runs"] == 2
    assert row["auroc"]["values"] == [0.75, 0.75]
    assert "seeds 0, 1" in err


def test_runs_of_other_questions_or_settings_are_refused_by_file(evaluate):
    others = [{**record, "id": f"other {number}"} for number, record in enumerate(hand_worked())]
    code, _, err = evaluate(hand_worked(), others)
    assert code == 1
    assert re.search(r"in1\.jsonl: answers no question of \S*in0\.jsonl: ", err)
    one, other = hand_worked(), hand_worked()
    for record, seed, sigma in ((one[0], 0, 0.1), (other[0], 1, 0.3)):
        record["tokur"] |= {"run": {"seed": seed, "sigma": sigma, "version": f"0.{seed}"}, "generation": {"seed": seed}}
    for record in one[1:]:
        record["tokur"]["run"] = one[0]["tokur"]["run"]
    for record in other[1:]:
        record["tokur"]["run"] = other[0]["tokur"]["run"]
    code, _, err = evaluate(one, other)
    assert code == 1
    assert "in1.jsonl:1: has run.sigma 0.3, " in err
    other[0]["tokur"]["run"]["sigma"] = 0.1
    code, (row,), _ = evaluate(one, other)
    assert (code, row["runs"]) == (0, 2)


def test_another_question_with_the_same_id_is_a_bad_record(evaluate):
    records = [{**record, "question": f"{record['id']}+1?"} for record in hand_worked()]
    records += [scored(1, 0.5, correct=True, question="q1+1?"), scored(2, 0.5, correct=True, question="2+2?")]
    del records[1]["question"]  # a record without one may be of any
    code, _, err = evaluate(records)
    assert code == 1
    assert "in0.jsonl:6: has the id of another question (q2: see line 3)" in err
    code, (row,), _ = evaluate(records, options=["--skip-invalid"])
    assert (code, row["labelled"], row["questions"]) == (3, 5, 4)
    records[1]["question"] = {"text": "no prompt"}  # as good as none
    assert evaluate(records[:5])[0] == 0


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


def test_copies_of_records_change_no_p_value_and_no_calibration(evaluate):
    single = list(many(80))
    rows = {}
    for name, records in (
        ("single", single),
        ("copies", list(copied(single, 8))),
        ("without ids", list(without_id(copied(single, 8)))),
        ("interleaved", [record for _ in range(8) for record in single]),
    ):
        _, (eu, _), _ = evaluate(records, options=["--versus", "ll", "--bootstrap", 0])
        rows[name] = eu
        assert (eu["labelled"], eu["questions"]) == (len(records), 80)
    expected = rows.pop("single")
    for row in rows.values():
        assert row["brier"]["value"] == pytest.approx(expected["brier"]["value"])
        assert row["ece"]["value"] == pytest.approx(expected["ece"]["value"])


def test_a_file_given_twice_is_not_two_runs(run_tokur, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", hand_worked())
    code, out, err = run_tokur("evaluate", path, path)
    assert (code, out) == (2, "")
    assert "given twice" in err


def made(records, run=None, generation=None):
    return [{**record, "tokur": {**record["tokur"], "run": run, "generation": generation}} for record in records]


def test_seeds_may_differ_wherever_they_stand(evaluate):
    """Those of the attempts to verify a response, and of the posterior that guided it."""
    runs = [
        made(hand_worked(), {"seed": n, "attempt_seed": n}, {"posterior": {"sigma": 0.1, "seed": n}}) for n in (0, 1)
    ]
    code, (row,), err = evaluate(*runs)
    assert (code, row["runs"]) == (0, 2), err
    runs[1][0]["tokur"]["generation"] = {"posterior": {"sigma": 0.3, "seed": 1}}
    code, _, err = evaluate(*runs)
    assert code == 1
    assert "has generation.posterior {'sigma': 0.3}, " in err


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
