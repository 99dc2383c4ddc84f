"""Rows to evaluate."""

import numpy as np


def scored(number, value=None, *, name="eu", **fields):
    tokur = {"schema": 1, "scores": {name: value}} if name else {"schema": 1}
    return {"id": f"q{number}", **fields, "tokur": tokur}


def many(count=200, names=("eu", "ll"), **fields):
    rng = np.random.default_rng(0)
    for number in range(count):
        correct = bool(rng.random() < 0.4)
        scores = {name: round(rng.normal((1 if name == "ll" else -1) * correct, 1), 1) for name in names}
        yield {"id": f"q{number}", "correct": correct, **fields, "tokur": {"schema": 1, "scores": scores}}


RUN = {
    "model": "m", "revision": None, "dtype": "float32", "rank": 8, "sigma": 0.1, "draws": 2, "sampling": "stepwise",
    "estimator": "paper", "targets": "q_proj,k_proj", "layers": None, "seed": 0, "version": "0.1.0",
}  # fmt: skip
