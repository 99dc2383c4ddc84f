"""``--calibration``: a real model's scores, fitted and applied, beside scikit-learn on the same numbers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.helpers import parsed, records, write_lines


@pytest.fixture(scope="module")
def responses():
    return [{**record, "correct": len(record["response"]) % 3 == 0} for record in records(40)]


@pytest.fixture
def calibration(run_tokur, tiny_folder, responses, tmp_path):
    """The records scored, and what was fitted to them."""
    _, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", responses), "-m", tiny_folder)
    path = write_lines(tmp_path / "scored.jsonl", parsed(out))
    code, _, err = run_tokur("evaluate", path, "--fit", tmp_path / "fit.json", "--bootstrap", 0)
    assert code == 0, err
    return parsed(out), tmp_path / "fit.json"


def test_p_correct_is_scikit_learns_probability(run_tokur, tiny_folder, calibration, tmp_path):
    scored, file = calibration
    code, out, err = run_tokur("score", tmp_path / "in.jsonl", "-m", tiny_folder, "--calibration", file)
    assert code == 0, err
    again = parsed(out)
    values = np.array([[one["tokur"]["scores"][name] for name in ("eu", "ll_sum", "neg_length")] for one in scored])
    label = [one["correct"] for one in scored]
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(values, label)
    found = [one["tokur"]["scores"]["p_correct"] for one in again]
    assert found == pytest.approx(model.predict_proba(values)[:, 1], abs=1e-4)
    for one, before in zip(again, scored, strict=True):
        run = one["tokur"]["run"]
        assert len(run.pop("calibration")) == 16
        assert run == before["tokur"]["run"]
        assert list(one["tokur"]["scores"]) == [*before["tokur"]["scores"], "p_correct"]
