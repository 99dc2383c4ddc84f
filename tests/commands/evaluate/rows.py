"""Rows to evaluate."""

import itertools

import numpy as np


def scored(number, value=None, *, name="eu", **fields):
    tokur = {"schema": 1, "scores": {name: value}} if name else {"schema": 1}
    return {"id": f"q{number}", **fields, "tokur": tokur}


def many(count=200, seed=0, names=("eu", "ll"), **fields):
    rng = np.random.default_rng(seed)
    for number in range(count):
        correct = bool(rng.random() < 0.4)
        scores = {name: round(rng.normal((1 if name == "ll" else -1) * correct, 1), 1) for name in names}
        yield {"id": f"q{number}", "correct": correct, **fields, "tokur": {"schema": 1, "scores": scores}}


STEPS = ("First, 2 + 2 = 4. ", "So 4 x 3 = 13. ", "The answer is 13.")


def of_steps(number, steps, answer="13", **fields):
    """A scored response of three steps, one token each; ``eu`` is their sum."""
    ends = list(itertools.accumulate(len(step) for step in STEPS))
    offsets = [[start, end] for start, end in zip([0, *ends], ends, strict=False)]
    tokens = {"offsets": offsets, "eu": list(steps), "logprob": [-value for value in steps]}
    scores = {"eu": sum(steps), "ll": -sum(steps) / 3, "neg_length": -3}
    text = "".join(STEPS).replace("answer is 13", f"answer is {answer}")
    return {"id": f"q{number}", "response": text, **fields, "tokur": {"tokens": tokens, "scores": scores}}


RUN = {
    "model": "m", "revision": None, "dtype": "float32", "rank": 8, "sigma": 0.1, "draws": 2, "sampling": "stepwise",
    "estimator": "paper", "targets": "q_proj,k_proj", "layers": None, "seed": 0, "version": "0.1.0",
}  # fmt: skip
