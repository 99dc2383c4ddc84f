"""``tokur evaluate`` end to end: hand-worked numbers, scikit-learn as the oracle, every input and output."""

import csv
import io
import os
import pty
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.commands.score.test_score import parsed, write_lines
from tokur_cli.answers.workers import OutOfLimits, WorkerPool

# Four responses whose uncertainties rank right 0.1, wrong 0.2, right 0.3, wrong 0.4: of the four pairs of a right and a
# wrong one three are in order (AUROC 3/4), precision at the right ones is 1/1 and 2/3 (average 5/6), and of the more
# confident half one of two is right.
HAND = ((True, 0.1), (False, 0.2), (True, 0.3), (False, 0.4))


def scored(number, value=None, *, name="eu", **fields):
    tokur = {"schema": 1, "scores": {name: value}} if name else {"schema": 1}
    return {"id": f"q{number}", **fields, "tokur": tokur}


def hand_worked(**fields):
    return [scored(number, value, correct=correct, **fields) for number, (correct, value) in enumerate(HAND)]


def many(count=200, seed=0, names=("eu", "ll"), **fields):
    rng = np.random.default_rng(seed)
    for number in range(count):
        correct = bool(rng.random() < 0.4)
        scores = {name: round(rng.normal((1 if name == "ll" else -1) * correct, 1), 1) for name in names}
        yield {"id": f"q{number}", "correct": correct, **fields, "tokur": {"schema": 1, "scores": scores}}


def answered(number, answer, reference="7", **fields):
    return scored(number, 0.1 * number, response=f"The answer is {answer}.", reference=reference, **fields)


@pytest.fixture
def evaluate(run_tokur, tmp_path):
    """Evaluate lists of records; returns (exit code, JSON lines or text, standard error)."""

    def run(*inputs, options=()):
        paths = []
        for place, records in enumerate(inputs):
            paths.append(write_lines(tmp_path / f"in{place}.jsonl", records))
        code, out, err = run_tokur("evaluate", *paths, *options)
        return code, parsed(out) if out.startswith("{") else out, err

    return run


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


def test_no_bootstrap_gives_no_intervals(evaluate):
    _, rows, _ = evaluate(many(), options=["--bootstrap", 0])
    assert list(rows[0]["auroc"]) == ["value"]


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
    assert "no AUROC, AUPRC: labels are graded" in err


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
        assert f"left out 1 record {reason}\n" in err
    assert "left out 1 record of code, which is run with --allow-code-execution only\n" in err


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
    assert "left out for eu, ll: 1 record without it" in err
    assert "left out the score mystery of 1 record" in err


def test_one_class_only_is_said_and_has_no_auroc(evaluate):
    code, (row,), err = evaluate([scored(number, number, correct=True) for number in range(3)])
    assert code == 0
    assert row["auroc"] == {"value": None, "reason": "all 3 records have the label 1"}
    assert "no AUROC, AUPRC, PRR: all 3 records have the label 1" in err


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


def test_a_run_that_lacks_questions_is_averaged_and_they_are_counted(evaluate):
    code, (row,), err = evaluate(hand_worked(), [*hand_worked()[1:], scored(9, 0.1, correct=True)])
    assert (code, row["runs"]) == (0, 2)
    assert "2 questions are not in all 2 runs, whose figures are averaged" in err


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
    records = hand_worked(question="1+1?")
    records += [scored(1, 0.5, correct=True, question="1+1?"), scored(2, 0.5, correct=True, question="2+2?")]
    del records[1]["question"]  # a record without one may be of any
    code, _, err = evaluate(records)
    assert code == 1
    assert "in0.jsonl:6: has the id of another question (q2: see line 3)" in err
    code, (row,), _ = evaluate(records, options=["--skip-invalid"])
    assert (code, row["labelled"], row["questions"]) == (3, 5, 4)
    records[1]["question"] = {"text": "no prompt"}  # as good as none
    assert evaluate(records[:5])[0] == 0


def test_groups_are_evaluated_apart_in_the_order_of_their_numbers(evaluate):
    records = [*hand_worked(level=10), *hand_worked(level=9), scored(9, 0.5, correct=True)]
    records[0]["tokur"]["scores"]["eu"] = 0.5
    _, rows, err = evaluate(records, options=["--group-by", "level"])
    assert [row.get("group") for row in rows] == [None, "9", "10"]
    assert [row["auroc"]["value"] for row in rows[1:]] == [0.75, 0.25]
    assert "1 records without level" in err


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
    assert 0 < by_score["eu"]["delong_p"] < 1
    assert "difference" not in by_score["ll"]


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


def copied(records, copies):
    """Every record several times, as samples of its question."""
    for record in records:
        for sample in range(copies):
            yield {**record, "tokur": {**record["tokur"], "sample": sample}}


def without_id(records):
    for record in records:
        fields = {name: value for name, value in record.items() if name != "id"}
        yield {"question": f"What is {record['id']}?", **fields}


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
        assert row["delong_p"] == pytest.approx(expected["delong_p"], rel=1e-6)
        assert row["brier"]["value"] == pytest.approx(expected["brier"]["value"])
        assert row["ece"]["value"] == pytest.approx(expected["ece"]["value"])


def test_the_same_ids_in_two_files_are_two_runs_not_samples_of_a_question(evaluate):
    _, (alone, _), _ = evaluate(many(40, seed=1), options=["--bootstrap", 0])
    _, (both, _), _ = evaluate(many(40), many(40, seed=1), options=["--bootstrap", 0])
    assert both["brier"]["values"][1] == alone["brier"]["value"]
    assert (both["labelled"], both["questions"]) == (80, 80)


def test_records_that_do_not_tell_their_question_are_questions_by_themselves(evaluate):
    records = [{"correct": record["correct"], "tokur": record["tokur"]} for record in many(30)]
    _, (eu, ll), _ = evaluate(records, options=["--versus", "ll"])
    _, (known, _), _ = evaluate(many(30), options=["--versus", "ll"])
    assert eu == known
    assert ll["questions"] == 30


def samples():
    """Two questions with four samples: by majority 5 wins and is wrong; the most confident answer is right."""
    for question in ("a", "b"):
        for sample, (answer, uncertainty) in enumerate((("7", 0.1), ("5", 0.5), ("5.0", 0.6), ("7", 0.9))):
            record = scored(0, uncertainty, response=f"The answer is {answer}")
            record |= {"id": question, "reference": "7"}
            record["tokur"]["sample"] = sample if question == "a" else 3 - sample
            yield record


def test_scaling_takes_the_most_confident_and_the_whole_set_has_no_spread(evaluate):
    _, (row, plain), _ = evaluate(samples(), options=["--scaling", "4,1", "--keep", "25%", "--repeats", 5])
    assert plain["score"] is None
    points = {(point["method"], point["n"]): point for point in row["scaling"] + plain["scaling"]}
    assert points["maj", 4] == {"method": "maj", "n": 4, "mean": 1.0, "std": 0.0, "accuracies": [1.0] * 5}
    assert points["wbon", 4]["mean"] == 1.0
    assert points["pass@1", 4]["mean"] == 0.5
    assert points["pass@n", 4]["mean"] == 1.0
    assert 0 <= points["pass@1", 1]["mean"] <= 1
    # 2 : 2 votes; the class with the more confident response wins for a score, the lower sample without one:
    # of question a that is 7, of b, whose samples are numbered backwards, also 7
    assert points["majority", 4]["mean"] == 1.0


def test_a_score_that_few_responses_have_is_missing_at_small_n_and_drawn_at_large_n(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    records = [
        {**scored(0, 0.1, response="7", reference="7"), "tokur": {"sample": sample, "scores": {"ll": -sample}}}
        for sample in range(64)
    ]
    records[0]["tokur"]["scores"]["eu"] = 0.1
    options = ["--scaling", "1,64", "--repeats", 1, "--latex", "--plot", tmp_path / "plots"]
    code, text, _ = evaluate(records, options=options)
    assert code == 0
    assert [line for line in text.split("\n") if line.startswith("eu &")][-2:] == ["eu & -- & 100.00 \\\\"] * 2
    assert (tmp_path / "plots" / "scaling-maj.svg").exists()


def test_numbers_of_responses_are_taken_once_and_in_order(evaluate):
    _, rows, _ = evaluate(samples(), options=["--scaling", "4, 1,4,2,1", "--repeats", 3])
    for row in rows:
        sizes = {}
        for point in row["scaling"]:
            assert len(point["accuracies"]) == 3
            sizes.setdefault(point["method"], []).append(point["n"])
        assert all(found == [1, 2, 4] for found in sizes.values())


def test_scaling_needs_to_know_the_question(evaluate):
    records = [{"correct": True, "response": "7", "tokur": {"scores": {"eu": 1}}}]
    code, _, err = evaluate(records, options=["--scaling", "2"])
    assert code == 1
    assert 'in0.jsonl:1: has no "id", "question", "messages" or "prompt"' in err


def test_scaling_knows_questions_without_ids_by_their_prompts(evaluate):
    options = ["--scaling", "4,2", "--keep", "50%"]
    _, by_id, _ = evaluate(samples(), options=options)
    _, by_prompt, _ = evaluate(without_id(samples()), options=options)
    assert by_prompt == by_id


def test_the_whole_is_written_the_same_to_a_pipe_as_json_and_to_a_file(evaluate, run_tokur, tmp_path):
    _, rows, _ = evaluate(many())
    _, as_json, _ = evaluate(many(), options=["--json"])
    _, out, _ = evaluate(many(), options=["-o", tmp_path / "out.jsonl"])
    assert rows == as_json == parsed((tmp_path / "out.jsonl").read_text())
    assert out == ""


def test_csv_reads_back_as_the_json_rows(evaluate):
    options = ["--group-by", "level", "--versus", "ll", "--bootstrap", 50]
    records = [{**record, "level": number % 2} for number, record in enumerate(many())]
    _, rows, _ = evaluate(records, options=options)
    _, text, _ = evaluate(records, options=[*options, "--csv"])
    table = list(csv.DictReader(io.StringIO(text)))
    assert len(table) == len(rows) == 6
    for row, line in zip(rows, table, strict=True):
        assert line["score"] == row["score"]
        assert line["group"] == row.get("group", "")
        for metric in ("auroc", "acc", "prr", "brier"):
            assert float(line[metric]) == row[metric]["value"]
            assert float(line[f"{metric}_low"]) == row[metric]["low"]
    assert float(table[0]["auroc_difference_p"]) == rows[0]["difference"]["auroc"]["p"]


def test_scaling_stands_in_csv_columns(evaluate):
    _, text, _ = evaluate(samples(), options=["--scaling", "4", "--csv"])
    first, plain = csv.DictReader(io.StringIO(text))
    assert (float(first["maj@4"]), float(first["maj@4_std"]), float(plain["pass@4"])) == (1.0, 0.0, 1.0)


def test_latex_holds_the_numbers_and_marks_the_best_and_the_second(evaluate):
    records = list(many(names=("eu_mean", "ll", "pe")))
    _, rows, _ = evaluate(records)
    _, text, _ = evaluate(records, options=["--latex"])
    first = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    lines = [line.removesuffix(r" \\").split(" & ") for line in first.strip().split("\n")]
    assert [line[0] for line in lines] == ["all records", r"eu\_mean", "ll", "pe"]
    by_value = sorted(rows, key=lambda row: -row["auroc"]["value"])
    for rank, command in enumerate((r"\\textbf{", r"\\underline{", "")):
        cell = next(line[1] for line in lines if line[0].replace("\\", "") == by_value[rank]["score"])
        value, low, high = (f"{100 * by_value[rank]['auroc'][part]:.{places}f}" for part, places in
                            (("value", 2), ("low", 1), ("high", 1)))  # fmt: skip
        assert re.fullmatch(rf"{command}{value}}}?{{\\scriptsize \$\[{low}, {high}\]\$}}", cell)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 2


def test_graded_records_carry_label_and_answer_and_evaluate_alike(evaluate, run_tokur, tmp_path):
    records = [answered(0, 7), answered(1, 8), answered(2, 7, correct=False), answered(3, 7, reference=None)]
    path = tmp_path / "graded.jsonl"
    code, (row,), _ = evaluate(records, options=["--graded", path])
    assert code == 0
    graded = parsed(path.read_text())
    assert [record["correct"] for record in graded] == [True, False, False, None]
    assert [record["tokur"]["answer"] for record in graded] == ["7", "8", "7", "7"]
    for record, given in zip(graded, records, strict=True):
        assert {**given, "correct": record["correct"]} == {**record, "tokur": given["tokur"]}
        assert record["tokur"]["scores"] == given["tokur"]["scores"]
    _, out, _ = run_tokur("evaluate", path)
    again = parsed(out)[0]
    assert {**again, "outcomes": None} == {**row, "outcomes": None}


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


def test_a_file_given_twice_is_not_two_runs(run_tokur, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", hand_worked())
    code, out, err = run_tokur("evaluate", path, path)
    assert (code, out) == (2, "")
    assert "given twice" in err


def test_comparisons_without_a_verdict_leave_their_records_out(evaluate, monkeypatch):
    monkeypatch.setattr(WorkerPool, "map", lambda self, requests: [OutOfLimits("time") for _ in requests])
    _, (row,), err = evaluate([*hand_worked(), answered(9, "x(x+3)", reference="x^2 + 3x")])
    assert (row["labelled"], row["unlabelled"], row["outcomes"]["timeout"]) == (4, 1, 1)
    assert "left out 1 record whose comparison ran out of time or memory\n" in err


def test_records_without_scores_can_be_graded_and_nothing_else(evaluate, tmp_path):
    records = [{"id": "a", "response": "The answer is 7.", "reference": "7"}]
    code, out, err = evaluate(records, options=["--graded", tmp_path / "graded.jsonl"])
    assert (code, out) == (0, "")
    assert "1 correct" in err
    assert parsed((tmp_path / "graded.jsonl").read_text())[0]["correct"] is True
    code, _, err = evaluate(records)
    assert code == 1
    assert "run tokur score first" in err


def test_an_input_is_not_written_over_by_results(evaluate, tmp_path):
    code, _, err = evaluate(hand_worked(), options=["-o", tmp_path / "in0.jsonl"])
    assert code == 2
    assert "would be written over" in err
    assert len(parsed((tmp_path / "in0.jsonl").read_text())) == 4


def test_graded_records_and_results_are_not_mixed(evaluate, tmp_path):
    code, _, err = evaluate(hand_worked(), options=["--graded", "-"])
    assert code == 2
    assert "would mix records and results" in err
    code, records, _ = evaluate(hand_worked(response="7"), options=["--graded", "-", "-o", tmp_path / "results.jsonl"])
    assert [record["tokur"]["answer"] for record in records] == ["7"] * 4
    assert parsed((tmp_path / "results.jsonl").read_text())[0]["auroc"]["value"] == 0.75


def test_scaling_without_any_labelled_question_is_an_error(evaluate):
    records = list(samples())
    records[0]["reference"] = records[4]["reference"] = None
    code, _, err = evaluate(records, options=["--scaling", "2"])
    assert code == 1
    assert "every question has a response without a label" in err


def test_an_input_is_not_written_over_by_its_graded_records(evaluate, tmp_path):
    code, _, err = evaluate(hand_worked(), options=["--graded", tmp_path / "in0.jsonl"])
    assert code == 2
    assert "is also an input" in err


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
    assert path.read_bytes().count(b"\n") == 4
    code, (row,), err = evaluate(records, options=["--skip-invalid"])
    assert code == 3
    assert row["labelled"] == 4
    assert 'in0.jsonl:6: "correct" must be true or false' in err
    assert 'in0.jsonl:7: "tokur.scores.eu" is a string, not a number' in err
    assert "skipped 3 invalid records" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scores", "nonsense"], "unknown score nonsense"),
        (["--versus", "nonsense"], "--versus nonsense: there is no such score"),
        (["--json", "--csv"], "cannot go together"),
        (["--scaling", "0"], "--scaling 0"),
        (["--scaling", "many"], "--scaling many"),
        (["--keep", "0%", "--scaling", "2"], "--keep 0%"),
        (["--keep", "10"], "--keep 10"),
    ],
)
def test_usage_errors_say_what_to_give_instead(evaluate, options, message):
    code, _, err = evaluate(hand_worked(), options=options)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--versus", "ll"], "--versus ll: no record has this score"),
        (["--scores", "ll"], "no record has ll"),
        (["--group-by", "level"], "no record has this field"),
        (["--label-field", "verdict"], '"verdict" is missing'),
    ],
)
def test_what_no_record_has_is_an_error(evaluate, options, message):
    code, _, err = evaluate(hand_worked(), options=options)
    assert code == 1
    assert message in err


def test_a_group_field_with_too_many_values_is_refused(evaluate):
    code, _, err = evaluate(many(150), options=["--group-by", "id"])
    assert code == 1
    assert "150 values" in err


def test_plots_are_written_as_png_and_svg(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    records = [
        {**record, "level": number % 3, "id": f"q{number // 4}", "response": "The answer is 7."}
        for number, record in enumerate(many(120, names=("tu", "au", "eu", "ll")))
    ]
    folder = tmp_path / "plots"
    options = ["--plot", folder, "--group-by", "level", "--scaling", "2,4", "--bootstrap", 0]
    code, _, err = evaluate(records, options=options)
    assert (code, err) == (0, "")
    names = ("roc", "risk-coverage", "distributions", "eu-au", "groups", "scaling-maj", "scaling-wbon")
    assert {path.name for path in folder.iterdir()} == {f"{name}.{end}" for name in names for end in ("png", "svg")}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.glob("*.png"))
    assert "AUROC" in (folder / "roc.svg").read_text()


@pytest.mark.slow
def test_plots_are_drawn_without_a_word_where_the_home_cannot_be_written(tmp_path):
    pytest.importorskip("matplotlib")
    path = write_lines(tmp_path / "in.jsonl", many(60))
    command = [sys.executable, "-m", "tokur_cli", "evaluate", path, "--plot", tmp_path / "plots", "--bootstrap", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"} | {
        "HOME": "/dev/null/home", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""
    }  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "plots" / "roc.svg").exists()


def test_plots_of_one_class_and_of_qualities_are_drawn_too(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    one_class = [scored(number, number, correct=True) for number in range(12)]
    assert evaluate(one_class, options=["--plot", tmp_path / "one"])[0] == 0
    qualities = [scored(number, number, quality=number / 20) for number in range(20)]
    assert evaluate(qualities, options=["--plot", tmp_path / "graded"])[0] == 0
    assert not (tmp_path / "graded" / "roc.png").exists()


def test_without_matplotlib_plot_says_what_to_install(evaluate, tmp_path, monkeypatch):
    monkeypatch.setattr("tokur_cli.views.plots.find_spec", lambda name: None)
    code, _, err = evaluate(hand_worked(), options=["--plot", tmp_path / "plots"])
    assert code == 1
    assert "pip install 'tokur[plot]'" in err


@pytest.mark.slow
def test_a_terminal_gets_tables_that_fit_it(tmp_path):
    path = write_lines(tmp_path / "in.jsonl", many(names=("eu", "self_certainty_sum", "ll")))
    for columns in (60, 80, 120):
        text = on_terminal(["evaluate", path, "--versus", "ll", "--bootstrap", 50], columns)
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        lines = [line.rstrip("\r") for line in plain.split("\n") if "tokur evaluate" not in line]
        assert max(map(len, lines)) <= columns
        assert "200 records, 200 with a label; accuracy" in plain
        assert "self_certainty_sum" in plain
        assert "Score − ll (percentage points) with 95 % intervals, paired" in plain
        assert "where an interval holds 0" in plain
        assert "\x1b[1m" in text
        assert "\x1b[4m" in text


def test_a_difference_is_shown_with_its_sign_and_its_interval(evaluate, tmp_path):
    records = list(copied(many(60), 4))
    options = ["--versus", "ll", "--scores", "eu,ll"]
    _, (eu, _), _ = evaluate(records, options=options)
    text = on_terminal(["evaluate", write_lines(tmp_path / "in.jsonl", records), *options], 120)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    found = eu["difference"]["auroc"]
    figures = [f"{100 * found[name]:+.{decimals}f}" for name, decimals in (("value", 2), ("low", 1), ("high", 1))]
    row = next(line for line in plain.split("Score − ll")[1].splitlines() if line.startswith("eu "))
    assert "{} [{}, {}]".format(*figures) in row
    assert f"{eu['delong_p']:.3f}" in row
    assert "240 records, 240 with a label; 60 questions; accuracy" in plain


def on_terminal(arguments, columns):
    """What the command writes to a terminal of so many columns."""
    main, other = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tokur_cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=other, stderr=subprocess.DEVNULL, env=environment)
    os.close(other)
    parts = []
    try:
        while part := os.read(main, 65536):
            parts.append(part)
    except OSError:  # how Linux says that the terminal was hung up
        pass
    os.close(main)
    assert process.wait(timeout=60) == 0
    return b"".join(parts).decode()


def test_a_closed_pipe_ends_quietly(tmp_path):
    path = write_lines(tmp_path / "in.jsonl", many(names=("eu", "ll")))
    command = [sys.executable, "-m", "tokur_cli", "evaluate", str(path), "--bootstrap", "0"]
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (process.returncode, process.stderr) == (0, b"")


def test_evaluation_starts_without_torch_or_transformers_and_scikit_learn(tmp_path):
    code = (
        "import sys, tokur_cli.commands.evaluate.command, tokur_cli.commands.evaluate.plots\n"
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
    assert "2 responses count as wrong whose reference is words and which do not mark their answer" in err
    assert "count as wrong" not in evaluate(records[2:])[2]
