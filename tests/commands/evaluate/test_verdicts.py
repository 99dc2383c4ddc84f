"""Which scores ``tokur evaluate`` shows by default, and what it says of each in words."""

import numpy as np

from tests.commands.evaluate.rows import many


def told_apart(count=60):
    """Records whose ``eu`` is far better than ``ll_sum``, which is like the length; ``tu`` is far worse."""
    rng = np.random.default_rng(6)
    for record in many(count, names=("eu",)):
        sign = 1 if record["correct"] else -1
        likelihood = rng.normal(sign * 0.5)
        record["tokur"]["scores"] = {
            "tu": sign + rng.normal(),
            "eu": rng.normal(-3 * sign),
            "ll_sum": likelihood,
            "neg_length": -round(100 - 10 * likelihood + 4 * rng.normal()),
        }
        yield record


def test_each_score_is_judged_against_the_likelihood_and_the_length(evaluate):
    _, rows, _ = evaluate(told_apart())
    verdicts = {row["score"]: {name: of["verdict"] for name, of in row["verdicts"].items()} for row in rows}
    assert verdicts == {
        "tu": {"ll_sum": "worse than", "neg_length": "worse than"},
        "eu": {"ll_sum": "better than", "neg_length": "better than"},
        "ll_sum": {"neg_length": "no clear difference from"},
        "neg_length": {"ll_sum": "no clear difference from"},
    }
    for baseline in ("ll_sum", "neg_length"):  # they are those of the comparison that is made when it is asked for
        _, compared, _ = evaluate(told_apart(), options=["--versus", baseline])
        for row, other in zip(rows, compared, strict=True):
            if other["score"] != baseline:
                difference = other["difference"]["auroc"]
                assert row["verdicts"][baseline]["difference"] == {"auroc": difference}
                held = (difference["low"] > 0) - (difference["high"] < 0)
                words = {1: "better than", -1: "worse than", 0: "no clear difference from"}[held]
                assert other["verdicts"][baseline]["verdict"] == words
