"""A calibration applied: scikit-learn's probabilities by a formula, files that are refused, other settings too."""

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from tests.commands.evaluate import rows
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.record import differences
from tokur_cli.scores.calibration import Calibration, read_calibration, relevant_settings, scores_to_compute
from tokur_cli.scores.catalogue import BEYOND_TOKENS, CATALOGUE

RUN = {**rows.RUN, "attempts": 10}
LOGISTIC = Calibration(
    "logistic", ("eu", "ll_sum"), (-0.5, 0.1), 1.5, None, relevant_settings(RUN, ["eu", "ll_sum"]),
    30, 25, {"reference": 28, "correct": 2}, {"folds": 5},
)  # fmt: skip
ISOTONIC = Calibration(
    "isotonic", ("ll",), None, None, ((-2.0, 0.1), (-1.0, 0.5), (0.5, 0.9)),
    relevant_settings(RUN, ["ll"]), 30, 25, {"quality": 30}, {"folds": 5},
)  # fmt: skip


def test_a_logistic_calibration_gives_scikit_learns_probabilities():
    generator = np.random.default_rng(0)
    values, label = generator.normal(size=(50, 2)), np.tile([0, 1], 25)
    model = LogisticRegression().fit(values, label)
    own = Calibration(
        "logistic", ("eu", "ll"), tuple(model.coef_[0].tolist()), float(model.intercept_[0]), None, {}, 50, 50, {}, {}
    )
    assert [own.probability(row) for row in values.tolist()] == pytest.approx(model.predict_proba(values)[:, 1])


def test_an_isotonic_calibration_gives_scikit_learns_probabilities_and_is_level_beyond_its_ends():
    generator = np.random.default_rng(1)
    values = generator.normal(size=40)
    label = (generator.random(40) < 1 / (1 + np.exp(-values))).astype(float)
    model = IsotonicRegression(out_of_bounds="clip").fit(values, label)
    points = tuple(zip(model.X_thresholds_.tolist(), model.y_thresholds_.tolist(), strict=True))
    own = Calibration("isotonic", ("ll",), None, None, points, {}, 40, 40, {}, {})
    asked = np.concatenate((values, np.linspace(-5, 5, 101)))
    assert [own.probability([value]) for value in asked.tolist()] == pytest.approx(model.predict(asked))


@pytest.mark.parametrize("values", [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0)])
def test_there_is_no_probability_where_a_score_is_missing(values):
    assert math.isnan(LOGISTIC.probability(values))


@pytest.mark.parametrize("calibration", [LOGISTIC, ISOTONIC])
def test_a_file_is_read_as_it_was_written(calibration, tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text(calibration.as_json(), encoding="utf-8")
    assert read_calibration(str(path)) == calibration
    assert read_calibration(str(path)).digest == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(calibration, cross_validation={"brier": math.nan}).as_json()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("scores", ["eu", "no", "nor"], "it takes no, which this tokur does not compute"),
        ("scores", ["eu", "p_correct"], "it takes p_correct, which this tokur does not compute"),
        ("scores", ["eu"], "it needs a weight a score and an intercept, or the points of a single score"),
        ("weights", None, "it needs a weight a score"),
        ("schema", 2, "has schema 2; this tokur reads up to 1: update tokur"),
    ],
)
def test_calibration_file_with_a_wrong_field_is_refused(field, value, said, tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({**json.loads(LOGISTIC.as_json()), field: value}))
    with pytest.raises(TokurError, match=said):
        read_calibration(str(path))


@pytest.mark.parametrize("name", ["model", "revision", "dtype", "rank", "sigma", "draws", "sampling", "estimator"])
def test_scores_of_other_settings_are_refused_by_name(name):
    other = {**RUN, name: "other"}
    LOGISTIC.check(RUN, "c.json")
    with pytest.raises(UsageError) as refused:
        LOGISTIC.check(other, "c.json")
    shown = "none" if RUN[name] is None else str(RUN[name])
    assert f"c.json: was fitted on scores with {name} {shown}, these are made with other" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "usual"), [("backend", "vllm", "transformers"), ("quantize", "4bit", "none")]
)
def test_what_runs_say_only_where_it_is_otherwise_is_compared_both_ways(name, value, usual):
    """The other way round, too, where a calibration says it and the run does not."""
    other = {**RUN, name: value}
    assert relevant_settings(other, ["ll"])[name] == value
    with pytest.raises(UsageError, match=f"with {name} {usual}, these are made with {value}"):
        LOGISTIC.check(other, "c.json")
    fitted = replace(LOGISTIC, settings={**LOGISTIC.settings, name: value})
    fitted.check(other, "c.json")
    with pytest.raises(UsageError, match=f"with {name} {value}, these are made with {usual}"):
        fitted.check(RUN, "c.json")
    assert not [*differences({**RUN, "backend": "transformers"}, RUN)]


def test_only_settings_that_its_scores_depend_on_are_told():
    assert relevant_settings(RUN, ["ll", "neg_length"]) == {"model": "m", "revision": None, "dtype": "float32"}
    assert relevant_settings(RUN, ["eu"]).keys() == RUN.keys() - {"seed", "version", "attempts"}
    assert relevant_settings(RUN, ["ll", "inside"])["attempts"] == 10
    ISOTONIC.check({**RUN, "estimator": "fisher", "seed": 1, "version": "9"}, "c.json")


def test_p_correct_is_computed_from_the_features_of_its_scores_alone():
    (score,) = scores_to_compute("p_correct", LOGISTIC)
    assert set(score.needs) == {"eu", "logprob"}
    features = {"eu": np.array([0.25, 0.5]), "logprob": np.array([-1.0, -2.0])}
    assert score.compute(features) == pytest.approx(1 / (1 + math.exp(-(1.5 - 0.5 * 0.75 - 0.1 * 3))))
    assert score.default
    assert not CATALOGUE["p_correct"].default
    assert "p_correct" in BEYOND_TOKENS


def test_all_scores_are_all_that_can_be_computed():
    every = [name for name in CATALOGUE if name != "p_correct"]
    assert [score.name for score in scores_to_compute("all", None)] == every
    assert [score.name for score in scores_to_compute("all", LOGISTIC)] == [*every, "p_correct"]
    assert [score.name for score in scores_to_compute("ll", LOGISTIC)] == ["ll", "p_correct"]
    with pytest.raises(UsageError, match="--scores p_correct needs --calibration FILE"):
        scores_to_compute("ll, P_correct", None)
