"""``tokur evaluate`` end to end: hand-worked numbers, scikit-learn as the oracle, labels, and what is refused."""

import math
import re
import shutil
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.commands.evaluate.rows import many, scored
from tests.helpers import parsed, write_lines


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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_evaluate_code_is_run_only_with_permission(evaluate, monkeypatch):
    row = {"prompt": "def f(x):\n", "test": "def check(f):\n    assert f(2) == 4\n", "entry_point": "f"}
    records = [scored(0, 0.1, response="    return 2 * x", **row), scored(1, 0.2, response="    return x", **row)]
    code, _, err = evaluate(records)
    assert code == 1
    assert "2 records of code, which is run with --allow-code-execution only" in err
    for option, how in (("--allow", "in bubblewrap"), ("--unsafe", "without isolation")):
        code, (found,), err = evaluate(records * 40, options=[f"{option}-code-execution"])  # more than a window
        assert found["outcomes"] == {"correct": 40, "incorrect": 40}
        assert found["auroc"]["value"] == 1.0
        assert len(re.findall(f"HumanEval tests run {how}\n", err)) == 1
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, err = evaluate(records, options=["--allow-code-execution"])
    assert (code, out) == (1, "")
    assert "code is not run: install bubblewrap (apt install bubblewrap, dnf install bubblewrap); --unsafe" in err


def test_evaluate_runs_no_code_behind_a_bad_record_that_ends_it(evaluate, tmp_path):
    ran = tmp_path / "ran"
    row = {"prompt": "def f():\n", "test": "def check(f):\n    f()\n", "entry_point": "f"}
    code_row = scored(1, 0.2, response=f"    open({str(ran)!r}, 'w').close()", **row)
    rows = [scored(0, 0.1, correct="perhaps"), code_row]
    code, _, err = evaluate(rows, options=["--unsafe-code-execution"])
    assert (code, ran.exists()) == (1, False), err
    evaluate(rows, options=["--unsafe-code-execution", "--skip-invalid"])
    assert ran.exists()


def test_evaluate_several_files_give_mean_and_standard_deviation(evaluate):
    mixed, perfect = (
        [scored(number, float(number), correct=correct) for number, correct in enumerate(labels)]
        for labels in ((True, False, True, False), (True, True, False, False))
    )
    _, (row,), _ = evaluate(mixed, perfect)
    assert row["runs"] == 2
    assert row["auroc"]["value"] == pytest.approx(0.875)
    assert row["auroc"]["std"] == pytest.approx(np.std([0.75, 1.0], ddof=1))
    assert row["auroc"]["values"] == [0.75, 1.0]
    assert "low" not in row["auroc"]


def test_evaluate_one_question_has_no_intervals_and_no_p_value(evaluate):
    records = [
        {"id": "q", "correct": correct, "tokur": {"sample": n, "scores": {"eu": eu, "ll": -eu * eu % 3}}}
        for n, (correct, eu) in enumerate([(True, 0.1), (False, 0.2), (True, 0.3), (False, 0.4), (True, 0.5)])
    ]
    _, rows, err = evaluate(records, options=["--versus", "ll"])
    assert "tokur evaluate: no intervals: fewer than 2 questions to resample\n" in err
    gaps = [gap for row in rows for gap in row.get("difference", {}).values()]
    assert all(figure.keys() == {"value"} for figure in [*gaps, *(row["auroc"] for row in rows)])
    records[0]["id"] = "another"
    _, rows, err = evaluate(records, options=["--versus", "ll"])
    assert ("no intervals" in err, all("low" in row["acc"] for row in rows)) == (False, True)


def voted():
    """Samples whose answers are 7, which is right, the more often the easier the question is."""
    generator = np.random.default_rng(0)
    for number in range(60):
        easy = generator.random()
        for sample in range(5):
            answer = "7" if generator.random() < easy else str(generator.integers(1, 4))
            doubt = float(generator.gamma(2) * (2 - easy))
            record = scored(0, doubt, response=f"The answer is {answer}.", reference="7")
            record["tokur"] |= {"sample": sample}
            record["tokur"]["scores"] |= {"neg_length": -10.0 - sample, "ll_sum": -doubt * generator.random()}
            yield {**record, "id": f"q{number}", "level": number % 2}


def votes_by_hand(records, name):
    """Whether each question's vote is right, its share, and the mean of a score."""
    votes, means = {}, {}
    for record in records:
        votes.setdefault(record["id"], []).append(record["response"])
        means.setdefault(record["id"], []).append(record["tokur"]["scores"][name])
    leading = {key: Counter(said).most_common(1)[0] for key, said in votes.items()}  # of equals the first
    right = [said == "The answer is 7." for said, _ in leading.values()]
    share = [count / len(votes[key]) for key, (_, count) in leading.items()]
    return right, share, [float(np.mean(values)) for values in means.values()]


def test_evaluate_the_mean_of_the_samples_stands_beside_the_share_of_the_vote(evaluate):
    records = list(voted())
    right, share, doubt = votes_by_hand(records, "eu")
    code, rows, err = evaluate(records[::-1], options=["--level", "question", "--scores", "eu,ll_sum"])
    assert code == 0, err
    assert [row["score"] for row in rows] == ["share", "eu", "ll_sum"]
    found = {row["score"]: row for row in rows}
    assert found["eu"]["labelled"] == found["eu"]["questions"] == 60
    assert found["eu"]["accuracy"]["value"] == pytest.approx(np.mean(right))
    assert found["share"]["auroc"]["value"] == pytest.approx(roc_auc_score(right, share))
    assert found["eu"]["auroc"]["value"] == pytest.approx(roc_auc_score(right, -np.array(doubt)))
    against = found["eu"]["verdicts"]["share"]
    assert against["difference"]["auroc"]["value"] == pytest.approx(
        found["eu"]["auroc"]["value"] - found["share"]["auroc"]["value"]
    )
    assert found["eu"]["outcomes"] == {"correct": sum(right), "incorrect": 60 - sum(right)}


def test_evaluate_scaling_is_the_vote_of_select(evaluate, run_tokur, tmp_path):
    """Unscored responses rank last and vote; a tie goes to the more confident, and without a score to nobody."""
    rows = [
        (question, sample, answer, score)
        for question in range(4)
        for sample, (answer, score) in enumerate(
            [(7, 0.5), (5, None), (5, None)] if question % 2 else [(7, 0.5), (5, 0.1)]
        )
    ]
    records = [
        {"id": f"q{q}", "question": f"{q}?", "reference": "5", "response": f"The answer is {answer}.",
         "tokur": {"sample": sample, "scores": {"eu": score}}}
        for q, sample, answer, score in rows
    ]  # fmt: skip
    options = ["--scaling", "3", "--keep", "10%,16", "--scores", "eu", "--repeats", 1, "--stop-at", "0.9"]
    _, (row, plain), _ = evaluate(records, options=options)
    points = {point["method"]: point["mean"] for point in row["scaling"] + plain["scaling"]}
    assert (points["maj"], points["majority"]) == (1.0, 0.75)
    assert plain["stopping"][0]["accuracy"]["value"] == 0.75
    _, _, err = run_tokur("select", tmp_path / "in0.jsonl", "--by", "eu")
    assert "accuracy 100.00%, majority 75.00%" in err


def test_evaluate_plots_are_written_as_png_and_svg(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    records = [
        {**record, "level": number % 3, "id": f"q{number // 4}", "response": "The answer is 7."}
        for number, record in enumerate(many(120, names=("tu", "au", "eu", "ll", "neg_length")))
    ]
    for record in records:
        record["tokur"]["scores"]["p_correct"] = 1 / (1 + math.exp(record["tokur"]["scores"]["eu"]))
    folder = tmp_path / "plots"
    options = ["--plot", folder, "--group-by", "level", "--scaling", "2,4", "--bootstrap", 0]
    code, _, err = evaluate(records, options=options)
    assert (code, err) == (0, "")
    names = ["roc", "risk-coverage", "distributions", "eu-au", "eu-au-balanced", "groups"]
    names += ["scaling-maj", "scaling-wbon", "reliability"]
    assert {path.name for path in folder.iterdir()} == {f"{name}.{end}" for name in names for end in ("png", "svg")}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.glob("*.png"))
    assert "AUROC" in (folder / "roc.svg").read_text()


def test_evaluate_plots_draw_no_score_that_unlabelled_records_alone_have(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    records = list(many(40, names=("eu",)))
    records[0]["correct"], records[0]["tokur"]["scores"] = None, {"ll": -1.0}
    for options, expected in ((["--scores", "eu,ll"], 0), (["--versus", "ll"], 0), (["--scores", "ll"], 1)):
        code, _, err = evaluate(records, options=[*options, "--plot", tmp_path / "plots", "--bootstrap", 0])
        assert (code, "--plot: no labelled record has a score" in err) == (expected, bool(expected))
