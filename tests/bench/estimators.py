"""How noisy estimates of a response's epistemic uncertainty are, and how well they rank.

    python -m tests.bench.estimators [--responses 172] [--seeds 4] [--draws 2,8]

Printed for each estimator and M: the median over responses of the relative standard deviation over seeds, the rank
correlation between seeds, and the AUROC of the sum over tokens (mean and standard deviation over seeds).
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from tests.bench.common import rows_of
from tokur_cli import Tokur

ESTIMATORS = ("eu", "eu_kl", "eu_fisher")


def labels_of(rows):
    """Whether each response is correct, as ``tokur evaluate --graded`` says."""
    with tempfile.TemporaryDirectory() as folder:
        given, graded = Path(folder, "rows.jsonl"), Path(folder, "graded.jsonl")
        given.write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [sys.executable, "-m", "tokur_cli", "evaluate", given, "--graded", graded]
        subprocess.run(command, check=True, capture_output=True)
        return np.array([json.loads(line)["correct"] for line in graded.read_text().splitlines()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=172)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--draws", default="2,8")
    options = parser.parse_args()
    rows = rows_of("responses.jsonl", options.responses)
    labels = labels_of(rows)
    for draws in map(int, options.draws.split(",")):
        scored = [
            list(Tokur("smollm2-135m-instruct", draws=draws, seed=seed, scores=",".join(ESTIMATORS)).score(rows))
            for seed in range(options.seeds)
        ]
        for name in ESTIMATORS:
            sums = np.array([[record["tokur"]["scores"][name] for record in run] for run in scored])  # (seeds, N)
            spread = np.median(sums.std(0, ddof=1) / sums.mean(0))
            ranks = np.mean([spearmanr(a, b).statistic for a, b in itertools.combinations(sums, 2)])
            aurocs = [100 * roc_auc_score(labels, -run) for run in sums]
            print(
                f"{name:9} M = {draws:2}  relative sd {spread:.3f}  rank correlation {ranks:.3f}  "
                f"AUROC {np.mean(aurocs):.1f} ± {np.std(aurocs):.1f}"
            )


if __name__ == "__main__":
    main()
