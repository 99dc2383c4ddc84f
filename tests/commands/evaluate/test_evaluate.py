"""``tokur evaluate`` end to end: hand-worked numbers, scikit-learn as the oracle, labels, and what is refused."""

import re
import shutil

import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.commands.evaluate.rows import answered, hand_worked, many, scored


def test_metrics_of_four_responses_are_those_worked_out_by_hand(evaluate):
    code, (row,), err = evaluate(hand_worked())
    assert code == 0
    assert row["score"] == "eu"
    assert (row["records"], row["missing"], row["labelled"], row["unlabelled"]) == (4, 0, 4, 0)
    assert row["accuracy"]["value"] == 0.5
    assert row["auroc"]["value"] == 0.75
    assert row["auprc"]["value"] == pytest.approx(5 / 6)
    assert row["acc"]["value"] == 0.5
    assert row["aurc"]["value"] == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert row["outcomes"] == {"correct": 2, "incorrect": 2}
    assert row["brier"] == {"value": None, "reason": "fewer than 10 questions to calibrate on"}
    assert "fewer than 10 questions" in err


def test_metrics_agree_with_scikit_learn_in_the_direction_of_the_catalogue(evaluate):
    records = list(many())
    _, rows, _ = evaluate(records, options=["--bootstrap", 50])
    label = [record["correct"] for record in records]
    assert [row["score"] for row in rows] == ["eu", "ll"]
    for row, sign in zip(rows, (-1, 1), strict=True):
        confidence = [sign * record["tokur"]["scores"][row["score"]] for record in records]
        assert row["auroc"]["value"] == pytest.approx(roc_auc_score(label, confidence))
        assert row["auprc"]["value"] == pytest.approx(average_precision_score(label, confidence))
        assert row["auroc"]["low"] < row["auroc"]["value"] < row["auroc"]["high"]


def test_a_label_field_wins_over_correct_over_quality_over_grading(evaluate):
    everything = {"response": "The answer is 1.", "reference": "1"}
    graded = [answered(0, 7), answered(1, 8)]
    cases = [
        (graded, [], {"correct": 1, "incorrect": 1}, 0.5),
        ([{**record, "quality": 0.25} for record in graded], [], {"quality": 2}, 0.25),
        ([{**record, "quality": 0.25, "correct": False} for record in graded], [], {"incorrect": 2}, 0.0),
        (
            [{**record, "correct": False, "judge": {"verdict": 1}} for record in graded],
            ["--label-field", "judge.verdict"],
            {"correct": 2},
            1.0,
        ),
    ]
    for records, options, outcomes, accuracy in cases:
        _, (row,), _ = evaluate([{**everything, **record} for record in records], options=options)
        assert (row["outcomes"], row["accuracy"]["value"]) == (outcomes, accuracy)


def test_versus_compares_on_the_same_records_and_finds_no_difference_from_a_copy(evaluate):
    records = list(many(names=("eu", "ll", "pe")))
    for record in records:
        record["tokur"]["scores"]["pe"] = -record["tokur"]["scores"]["ll"]
    _, rows, _ = evaluate(records, options=["--versus", "ll", "--scores", "pe,eu", "--bootstrap", 100])
    by_score = {row["score"]: row for row in rows}
    assert list(by_score) == ["eu", "ll", "pe"]
    assert by_score["pe"]["difference"]["auroc"]["value"] == 0.0
    assert by_score["pe"]["difference"]["auroc"]["p"] == 1.0
    expected = by_score["eu"]["auroc"]["value"] - by_score["ll"]["auroc"]["value"]
    assert by_score["eu"]["difference"]["auroc"]["value"] == pytest.approx(expected)
    assert "difference" not in by_score["ll"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_code_is_run_only_with_permission(evaluate, monkeypatch):
    row = {"prompt": "def f(x):\n", "test": "def check(f):\n    assert f(2) == 4\n", "entry_point": "f"}
    records = [scored(0, 0.1, response="    return 2 * x", **row), scored(1, 0.2, response="    return x", **row)]
    code, _, err = evaluate(records)
    assert code == 1
    assert "2 records of code, which is run with --allow-code-execution only" in err
    for option, how in (("--allow", r"in bubblewrap [\d.]+"), ("--unsafe", "without isolation")):
        code, (found,), err = evaluate(records * 40, options=[f"{option}-code-execution"])  # more than a window
        assert found["outcomes"] == {"correct": 40, "incorrect": 40}
        assert found["auroc"]["value"] == 1.0
        assert len(re.findall(f"HumanEval tests run {how}\n", err)) == 1
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, err = evaluate(records, options=["--allow-code-execution"])
    assert (code, out) == (1, "")
    assert "code is not run: install bubblewrap (apt install bubblewrap, dnf install bubblewrap); --unsafe" in err
