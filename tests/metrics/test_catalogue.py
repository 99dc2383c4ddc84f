"""The tables of metrics and scores: what one entry in either brings."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.commands.evaluate.rows import many
from tests.helpers import parsed, write_lines
from tokur_cli.metrics.catalogue import METRICS, RANKING, Metric, leading
from tokur_cli.metrics.ranking import acc_of, ranked
from tokur_cli.scores.catalogue import CATALOGUE, compute_scores


@pytest.mark.parametrize("name", ["auroc", "prr"])
def test_metric_of_a_score_without_information_is_what_chance_gives(name):
    assert METRICS[name].of(ranked(np.zeros(5), np.array([1.0, 0, 1, 0, 0])))[0] == METRICS[name].chance


def test_leading_metric_allows_the_labels():
    assert [leading(is_binary=is_binary).name for is_binary in (True, False)] == ["auroc", "prr"]


def test_metric_of_one_entry_has_figures_intervals_comparisons_and_a_column(monkeypatch, run_tokur, tmp_path):
    """The accuracy of the most confident fifth."""
    meaning = "accuracy of the most confident fifth"
    metric = Metric("fifth", "ACC@20", meaning, RANKING, "ranking", lambda sums: acc_of(sums, 0.2), compared=True)
    monkeypatch.setitem(METRICS, "fifth", metric)
    records = list(many())
    path = write_lines(tmp_path / "scored.jsonl", records)
    code, out, err = run_tokur("evaluate", path, "--versus", "ll")
    assert code == 0, err
    rows = {row["score"]: row for row in parsed(out)}
    confidence = [-record["tokur"]["scores"]["eu"] for record in records]
    label = np.array([record["correct"] for record in records])
    threshold = np.sort(confidence)[-40]
    surely, tied = np.array(confidence) > threshold, np.array(confidence) == threshold
    expected = (label[surely].sum() + (40 - surely.sum()) * label[tied].mean()) / 40
    assert rows["eu"]["fifth"]["value"] == pytest.approx(expected)
    assert rows["eu"]["fifth"]["low"] < expected < rows["eu"]["fifth"]["high"]
    assert rows["eu"]["difference"]["fifth"]["p"] <= 1
    _, out, _ = run_tokur("evaluate", path, "--versus", "ll", "--as", "latex", "--bootstrap", 20)
    assert out.count("ACC@20") == 2


def test_score_of_one_entry_is_computed_and_evaluated(monkeypatch, run_tokur, tmp_path):
    score = replace(CATALOGUE["ll_min"], name="ll_max", compute=lambda tokens: float(tokens["logprob"].max()))
    monkeypatch.setitem(CATALOGUE, "ll_max", score)
    records = list(many(60, names=("ll_max",)))
    assert compute_scores([score], {"logprob": np.array([-2.0, -0.5])}) == {"ll_max": -0.5}
    code, out, err = run_tokur("evaluate", write_lines(tmp_path / "scored.jsonl", records), "--scores", "ll_max")
    assert code == 0, err
    (row,) = parsed(out)
    label, value = zip(*[(one["correct"], one["tokur"]["scores"]["ll_max"]) for one in records], strict=True)
    assert row["auroc"]["value"] == pytest.approx(roc_auc_score(label, value))
