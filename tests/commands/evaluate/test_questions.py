"""``tokur evaluate --level question``: counting votes by hand and scikit-learn as the oracle."""

from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.commands.evaluate.rows import scored


def voted(questions=60, samples=5, seed=0):
    """Samples whose answers are 7, which is right, the more often the easier the question is."""
    generator = np.random.default_rng(seed)
    for number in range(questions):
        easy = generator.random()
        for sample in range(samples):
            answer = "7" if generator.random() < easy else str(generator.integers(1, 4))
            doubt = float(generator.gamma(2) * (2 - easy))
            record = scored(0, doubt, response=f"The answer is {answer}.", reference="7")
            record["tokur"] |= {"sample": sample}
            record["tokur"]["scores"] |= {"neg_length": -10.0 - sample, "ll_sum": -doubt * generator.random()}
            yield {**record, "id": f"q{number}", "level": number % 2}


def by_hand(records, name):
    """Whether each question's vote is right, its share, and the mean of a score."""
    votes, means = {}, {}
    for record in records:
        votes.setdefault(record["id"], []).append(record["response"])
        means.setdefault(record["id"], []).append(record["tokur"]["scores"][name])
    leading = {key: Counter(said).most_common(1)[0] for key, said in votes.items()}  # of equals the first
    right = [said == "The answer is 7." for said, _ in leading.values()]
    share = [count / len(votes[key]) for key, (_, count) in leading.items()]
    return right, share, [float(np.mean(values)) for values in means.values()]


def test_the_mean_of_the_samples_stands_beside_the_share_of_the_vote(evaluate):
    records = list(voted())
    right, share, doubt = by_hand(records, "eu")
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
