"""``tokur evaluate --fit``: scikit-learn by brute force as the oracle, from the records to the file and the figures."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.commands.evaluate.rows import RUN
from tests.helpers import parsed, write_lines

BY = ("eu", "ll_sum", "neg_length")


def graded():
    generator = np.random.default_rng(0)
    for number in range(60):
        easy = generator.random()
        for sample in range(3):
            correct = bool(generator.random() < easy)
            scores = {
                "eu": float(generator.gamma(2) * (1 if correct else 2)),
                "ll_sum": float(-20 * generator.gamma(2) * (1 if correct else 1.5)),
                "neg_length": -float(generator.integers(20, 90)),
            }
            yield {
                "id": f"q{number}",
                "correct": correct,
                "tokur": {"schema": 1, "sample": sample, "scores": scores, "run": RUN},
            }


@pytest.fixture
def fit(run_tokur, tmp_path):
    """Fit to records; returns (exit code, output, standard error, the calibration or None)."""

    def run(records, *options, name="calibration.json"):
        path = write_lines(tmp_path / "graded.jsonl", records)
        file = tmp_path / name
        code, out, err = run_tokur("evaluate", path, "--fit", file, "--bootstrap", "20", *options)
        return code, out, err, json.loads(file.read_text()) if file.exists() else None

    return run


def arrays(records, names):
    values = np.array([[record["tokur"]["scores"][name] for name in names] for record in records])
    return values, np.array([float(record["correct"]) for record in records])


def held_out_by_hand(values, label, question, model):
    """Each question's probabilities from a model of the questions of the other folds.

    A question's fold is found by what is documented: questions in a random order, by their mean label, dealt out.
    """
    names = list(dict.fromkeys(question))
    mean = np.array([label[[name == one for one in question]].mean() for name in names])
    shuffled = np.random.default_rng(0).permutation(len(names))
    dealt = sorted(shuffled, key=lambda place: mean[place])
    fold = {names[place]: turn % 5 for turn, place in enumerate(dealt)}
    of_record = np.array([fold[name] for name in question])
    probability = np.empty(len(label))
    for number in range(5):
        inside = of_record == number
        probability[inside] = model(values[~inside], label[~inside], values[inside])
    return probability


def logistic(values, label, asked):
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(values, label)
    return model.predict_proba(asked)[:, 1]


def test_fit_figures_are_those_of_probabilities_for_questions_that_were_left_out(fit):
    records = list(graded())
    code, out, err, calibration = fit(records)
    assert code == 0, err
    rows = {row["score"]: row for row in parsed(out)}
    assert list(rows) == ["p_correct", *BY]
    assert {name: row["method"] for name, row in rows.items()} == {"p_correct": "logistic"} | dict.fromkeys(BY, "platt")
    values, label = arrays(records, BY)
    expected = held_out_by_hand(values, label, [record["id"] for record in records], logistic)
    row = rows["p_correct"]
    assert row["auroc"]["value"] == pytest.approx(roc_auc_score(label, expected), abs=1e-3)
    assert row["brier"]["value"] == pytest.approx(brier_score_loss(label, expected), abs=1e-4)
    assert row["brier"]["low"] < row["brier"]["value"] < row["brier"]["high"]
    assert row["log_loss"]["value"] == pytest.approx(log_loss(label, expected), abs=1e-4)
    assert row["log_loss"]["low"] < row["log_loss"]["value"] < row["log_loss"]["high"]
    for metric in ("auroc", "brier", "log_loss"):
        difference = rows["eu"]["difference"][metric]["value"]
        assert difference == pytest.approx(rows["eu"][metric]["value"] - row[metric]["value"])
    for metric in ("auroc", "brier", "ece", "log_loss"):
        assert calibration["cross_validation"][metric] == row[metric]
    assert "logistic regression on eu, ll_sum, neg_length; its figures are of questions that were left out" in err


def test_fit_the_file_has_scikit_learns_model_of_all_records_and_says_what_it_is_of(fit):
    records = list(graded())
    _, _, _, calibration = fit(records)
    values, label = arrays(records, BY)
    margin = calibration["intercept"] + values @ np.array(calibration["weights"])
    assert 1 / (1 + np.exp(-margin)) == pytest.approx(logistic(values, label, values), abs=1e-4)
    assert calibration["scores"] == list(BY)
    assert calibration["points"] is None
    assert calibration["settings"] == {name: RUN[name] for name in RUN if name not in ("seed", "version")}
    assert (calibration["records"], calibration["questions"], calibration["labels"]) == (180, 60, {"correct": 180})


def test_fit_one_score_is_fitted_by_platt_scaling_or_isotonic_regression(fit):
    records = list(graded())
    _, out, _, calibration = fit(records, "--by", "eu")
    assert [(row["score"], row["method"]) for row in parsed(out)] == [("p_correct", "platt")]
    assert calibration["weights"][0] < 0
    code, out, _, calibration = fit(records, "--by", "eu", "--set", "fit_method=isotonic", name="isotonic.json")
    assert code == 0
    scores, probabilities = np.array(calibration["points"]).T
    assert (np.diff(scores) > 0).all()
    assert (np.diff(probabilities) <= 0).all()  # an uncertainty: more of it is less often right
    assert probabilities[0] - probabilities[-1] > 0.3
    assert ((probabilities > 0) & (probabilities < 1)).all()
    assert parsed(out)[0]["brier"]["value"] < 0.25
