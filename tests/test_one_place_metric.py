"""A metric is one place: an entry in a copy of the package, and every form of what evaluate writes has it."""

import csv
import json
import re
import subprocess
import sys

import numpy as np

from tests.copied_package import copied_package

ENTRY = """
    RankingMetric(
        "tenth", "ACC tenth", "accuracy of the most confident tenth", (RANKING,), compared="responses",
        of=lambda sums: top_accuracy_of(sums, 0.1),
    ),
"""
RUN = """
from tokur_cli.app import app
for form in ("jsonl", "csv", "table", "latex"):
    options = ["--versus", "ll_sum", "--bootstrap", "60", "--seed", "3", f"--{form}", "-o", form]
    app(["evaluate", "scored.jsonl", *options], standalone_mode=False)
app(["evaluate", "--help"], standalone_mode=False)
"""
QUESTIONS, SAMPLES = 9, 5


def tenth(confidence, label):
    return label[np.argsort(-confidence, kind="stable")[: -(-len(label) // 10)]].mean()


def recomputed(eu, ll, label):
    """The metric of both scores in the records and in each resample of questions, without the package."""
    both = [(tenth(-eu.ravel(), label.ravel()), tenth(ll.ravel(), label.ravel()))]
    generator = np.random.default_rng(3)
    for _ in range(60):
        drawn = generator.integers(0, QUESTIONS, QUESTIONS, dtype=np.int32)
        both.append((tenth(-eu[drawn].ravel(), label[drawn].ravel()), tenth(ll[drawn].ravel(), label[drawn].ravel())))
    return np.array(both)


def test_a_metric_is_one_place(tmp_path):
    after = "_ALL: tuple[Metric, ...] = ("
    environment = copied_package(tmp_path, "metrics/catalogue.py", after, after + ENTRY)
    generator = np.random.default_rng(1)
    label = (generator.random((QUESTIONS, SAMPLES)) < 0.4).astype(float)
    eu, ll = generator.normal(size=(2, QUESTIONS, SAMPLES)).round(6)
    eu -= 0.5 * label
    with (tmp_path / "scored.jsonl").open("w") as file:
        for place in np.ndindex(label.shape):
            record = {
                "id": f"q{place[0]}",
                "question": f"{place[0]} + 1?",
                "response": "1",
                "correct": bool(label[place]),
            }
            scores = {"eu": eu[place], "ll_sum": ll[place]}
            file.write(json.dumps(record | {"tokur": {"schema": 1, "sample": place[1], "scores": scores}}) + "\n")
    environment["COLUMNS"] = "200"
    run = [sys.executable, "-c", RUN]
    done = subprocess.run(run, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert "ACC tenth: accuracy of the most confident tenth." in " ".join(done.stdout.split())

    own, baseline = recomputed(eu, ll, label).T
    low, high = np.quantile(own[1:], (0.025, 0.975))
    apart = own - baseline
    assert apart[0]
    row, _ = map(json.loads, (tmp_path / "jsonl").read_text().splitlines())
    assert np.allclose([row["tenth"][part] for part in ("value", "low", "high")], [own[0], low, high])
    difference = row["difference"]["tenth"]
    ends = np.quantile(apart[1:], (0.025, 0.975))
    assert np.allclose([difference[part] for part in ("value", "low", "high")], [apart[0], *ends])
    assert 0 < difference["p"] <= 1

    with (tmp_path / "csv").open() as file:
        flat = next(csv.DictReader(file))
    assert np.allclose([float(flat[name]) for name in ("tenth", "tenth_low", "tenth_high")], [own[0], low, high])
    assert np.isclose(float(flat["tenth_difference"]), apart[0])

    shown = [f"{100 * own[0]:.2f}", f"[{100 * low:.1f}, {100 * high:.1f}]"]
    for form in ("table", "latex"):
        text = (tmp_path / form).read_text()
        assert re.search(r"ACC tenth (↑|\$\\uparrow\$)", text)
        assert re.search(r"(Δ|\$\\Delta\$)ACC tenth", text)
        assert f"{100 * apart[0]:+.2f}" in text
        line = next(line for line in text.splitlines() if line.startswith("eu "))
        assert all(figure in line for figure in shown)
