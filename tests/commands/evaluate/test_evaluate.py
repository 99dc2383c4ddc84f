"""``tokur evaluate`` end to end: hand-worked numbers, scikit-learn as the oracle, labels, and what is refused."""

import re
import shutil
import subprocess
import sys

import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.commands.evaluate.rows import answered, hand_worked, many, scored
from tests.helpers import parsed


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


def test_quality_has_a_mean_of_the_confident_half_but_no_auroc_and_says_why(evaluate):
    records = [scored(number, number, quality=quality) for number, quality in enumerate((0.9, 0.7, 0.5, 0.1))]
    _, (row,), err = evaluate(records)
    assert row["acc"]["value"] == pytest.approx(0.8)
    assert row["auroc"] == {"value": None, "reason": "labels are graded, not right or wrong"}
    assert "no AUROC, AUPRC, AUROC@length: labels are graded" in err


def test_records_without_a_label_are_left_out_and_counted_by_reason(evaluate):
    records = [
        *hand_worked(),
        scored(10, 0.5, response="7"),
        scored(11, 0.5, correct=None),
        scored(12, 0.5, response="7", reference=""),
        scored(13, 0.5, response="pass", prompt="def f():\n", test="def check(f): pass", entry_point="f"),
        scored(14, 0.5, response="", reference="7"),
    ]
    _, (row,), err = evaluate(records)
    assert (row["labelled"], row["unlabelled"]) == (5, 4)
    assert row["outcomes"] == {
        "correct": 2,
        "incorrect": 2,
        "no_answer": 1,
        "no_reference": 1,
        "null_label": 1,
        "unparsable_reference": 1,
        "code_not_run": 1,
    }
    for reason in ("without a label or a reference", "whose label is null", "with a reference that cannot be read"):
        assert f"skipped 1 record {reason}\n" in err
    assert "skipped 1 record of code, which is run with --allow-code-execution only\n" in err


def test_missing_and_null_scores_are_left_out_for_that_score_alone_and_said(evaluate):
    records = hand_worked()
    for record, value in zip(records, (-1.0, None, -2.0, -3.0), strict=True):
        record["tokur"]["scores"]["ll"] = value
    records[3]["tokur"]["scores"].pop("eu")
    records[0]["tokur"]["scores"]["mystery"] = 3
    _, (eu, ll), err = evaluate(records)
    assert (eu["records"], eu["missing"], ll["records"], ll["missing"]) == (3, 1, 3, 1)
    assert ll["auroc"]["value"] == 1.0
    assert eu["auroc"]["value"] == 0.5
    assert "skipped for eu, ll: 1 record without it" in err
    assert "skipped the score mystery of 1 record" in err


def test_groups_are_evaluated_apart_in_the_order_of_their_numbers(evaluate):
    records = [*hand_worked(level=10), *hand_worked(level=9), scored(9, 0.5, correct=True)]
    records[0]["tokur"]["scores"]["eu"] = 0.5
    _, rows, err = evaluate(records, options=["--group-by", "level"])
    assert [row.get("group") for row in rows] == [None, "9", "10"]
    assert [row["auroc"]["value"] for row in rows[1:]] == [0.75, 0.25]
    assert "1 record without level" in err


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


def test_a_label_field_is_graded_as_it_says_and_what_the_records_say_of_themselves_stays(evaluate, tmp_path):
    path = tmp_path / "graded.jsonl"
    judged = [(1, {}), (0, {}), (0.25, {}), (1.0, {"correct": False}), (0.5, {"quality": 0.9})]
    records = [scored(n, n / 10, response="7", judge={"says": label}, **own) for n, (label, own) in enumerate(judged)]
    _, (row,), _ = evaluate(records, options=["--label-field", "judge.says", "--graded", path])
    assert row["outcomes"] == {"correct": 2, "incorrect": 1, "quality": 2}
    assert row["accuracy"]["value"] == pytest.approx((1 + 0 + 0.25 + 1 + 0.5) / 5)
    labels = [
        {name: record[name] for name in ("correct", "quality") if name in record} for record in parsed(path.read_text())
    ]
    assert labels == [{"correct": True}, {"correct": False}, {"quality": 0.25}, {"correct": False}, {"quality": 0.9}]


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


def test_bad_records_end_the_run_with_their_line_or_are_skipped_and_counted(evaluate, tmp_path):
    records = [*hand_worked(response="7"), b"broken\n", scored(5, 1, correct="yes"), scored(6, "high", correct=True)]
    path = tmp_path / "graded.jsonl"
    code, out, err = evaluate(records, options=["--graded", path])
    assert (code, out) == (1, "")
    assert "in0.jsonl:5: is not valid JSON" in err
    assert not path.exists()
    code, (row,), err = evaluate(records, options=["--skip-invalid"])
    assert code == 3
    assert row["labelled"] == 4
    assert 'in0.jsonl:6: "correct" must be true or false' in err
    assert 'in0.jsonl:7: "tokur.scores.eu" is a string, not a number' in err
    assert "skipped 3 invalid records" in err


def test_evaluation_starts_without_torch_or_transformers_and_scikit_learn(tmp_path):
    code = (
        "import sys, tokur_cli.commands.evaluate.command, tokur_cli.commands.evaluate.report.plots\n"
        "heavy = {'torch', 'transformers', 'accelerate', 'sklearn', 'matplotlib', 'rich.table'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_words_that_no_response_marks_as_its_answer_are_told(evaluate):
    said = [
        ("Paris", "The capital of France is Paris."),
        ("Marie Curie", "It was Marie Curie in 1903."),
        ("Rome", "The answer is Milan."),  # wrong beyond doubt
        ("Oslo", "The answer is Oslo."),
        ("7", "There are none."),  # no words
        ("B", "I don't know."),  # a choice
        ("\\frac{1}{2}", "It is a half."),
    ]
    records = [
        scored(number, 0.1 * number, reference=reference, response=response)
        for number, (reference, response) in enumerate(said)
    ]
    code, _, err = evaluate(records)
    assert code == 0
    assert "2 responses count as incorrect whose reference is words and which do not mark their answer" in err
    assert "whose reference is words" not in evaluate(records[2:])[2]
