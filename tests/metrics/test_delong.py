"""DeLong's test where questions have several responses: the paper's formulas in loops, the bootstrap, simulations."""

import math
import tracemalloc

import numpy as np
import pytest

from tokur_cli.metrics.bootstrap import ScoredSet, resampled
from tokur_cli.metrics.delong import delong
from tokur_cli.metrics.evaluation import Plan, evaluate_scores


def useless(generator, questions, samples):
    """Two scores that say nothing of the labels; all three are alike within a question."""
    question = np.repeat(np.arange(questions), samples)
    chance = 1 / (1 + np.exp(-2 * generator.normal(size=questions)))
    label = (generator.random(len(question)) < chance[question]).astype(float)
    first, second = (
        generator.normal(size=questions)[question] + generator.normal(size=len(question)) for _ in range(2)
    )
    return first, second, label, question


def obuchowski(scores, label, cluster):
    """The variance of the difference of two AUROCs as Obuchowski 1997 writes it, pair by pair and score by score."""
    right, wrong = np.flatnonzero(label == 1), np.flatnonzero(label == 0)
    groups = sorted(set(cluster.tolist()))

    def wins(score, above, below):
        return 1.0 if score[above] > score[below] else 0.5 if score[above] == score[below] else 0.0

    area, of_right, of_wrong = [], [], []  # θ̂_r, V10_r(X_i.) − m_i θ̂_r and V01_r(Y_i.) − n_i θ̂_r by cluster
    for score in scores:
        v10 = {i: sum(wins(score, i, k) for k in wrong) / len(wrong) for i in right}
        v01 = {k: sum(wins(score, i, k) for i in right) / len(right) for k in wrong}
        theta = sum(v10.values()) / len(right)
        area.append(theta)
        of_right.append([sum(v10[i] - theta for i in right if cluster[i] == group) for group in groups])
        of_wrong.append([sum(v01[k] - theta for k in wrong if cluster[k] == group) for group in groups])

    def product(one, other, count):
        return count / (count - 1) * sum(a * b for a, b in zip(one, other, strict=True))

    with_right, with_wrong = len(set(cluster[right].tolist())), len(set(cluster[wrong].tolist()))
    m, n = len(right), len(wrong)

    def covariance(r, s):
        s10 = product(of_right[r], of_right[s], with_right) / m
        s01 = product(of_wrong[r], of_wrong[s], with_wrong) / n
        s11 = product(of_right[r], of_wrong[s], len(groups)) + product(of_right[s], of_wrong[r], len(groups))
        return s10 / m + s01 / n + s11 / (m * n)

    return area[0] - area[1], covariance(0, 0) + covariance(1, 1) - 2 * covariance(0, 1)


def test_samples_of_a_question_count_as_the_paper_on_clustered_data_says():
    generator = np.random.default_rng(0)
    for count in (12, 30, 60):
        cluster = generator.integers(0, count // 3, count) * 7 - 4  # uneven sizes, gaps in the numbers
        label = generator.integers(0, 2, count).astype(float)
        scores = generator.integers(0, 5, (2, count)).astype(float)  # ties
        found = delong(*scores, label, cluster)
        difference, variance = obuchowski(scores, label, cluster)
        assert found.difference == pytest.approx(difference)
        assert found.standard_error == pytest.approx(math.sqrt(variance))
        assert found.p == pytest.approx(math.erfc(abs(difference) / math.sqrt(2 * variance)))


def test_one_response_a_question_is_plain_delong():
    generator = np.random.default_rng(1)
    first, second, label, _ = useless(generator, 80, 1)
    numbers = generator.permutation(1000)[:80]
    assert delong(first, second, label, numbers) == pytest.approx(delong(first, second, label), rel=1e-12)


def test_copies_of_records_do_not_change_the_p_value():
    generator = np.random.default_rng(2)
    label = (generator.random(172) < 0.3).astype(float)
    first, second = generator.normal(size=(2, 172)) + label
    single = delong(first, second, label)
    question = np.repeat(np.arange(172), 8)
    copied = delong(*(np.repeat(values, 8) for values in (first, second, label)), question)
    assert copied == pytest.approx(single, rel=1e-9)


def test_two_useless_scores_are_significant_at_the_nominal_rate_where_questions_have_samples():
    generator = np.random.default_rng(3)
    simulations = 400
    drawn = [useless(generator, 60, 16) for _ in range(simulations)]
    found = [delong(*one) for one in drawn]
    rejected = np.mean([one.p < 0.05 for one in found])
    assert abs(rejected - 0.05) < 3 * math.sqrt(0.05 * 0.95 / simulations)
    # the simulation can tell: as if all records were independent, it is significant far too often
    assert np.mean([delong(*one[:3]).p < 0.05 for one in drawn]) > 0.2
    # and the standard error is that of the difference: a variance from 400 has a relative error of √(2/400) = 7 %
    true = np.var([one.difference for one in found], ddof=1)
    assert np.mean([one.standard_error**2 for one in found]) == pytest.approx(true, rel=0.21)


def test_the_standard_error_is_that_of_resampled_questions():
    first, second, label, question = useless(np.random.default_rng(4), 200, 8)
    scores = {"first": ScoredSet(first + label), "second": ScoredSet(second)}
    drawn = resampled(scores, label, resamples=2000, cluster=question)
    differences = drawn["first"]["auroc"] - drawn["second"]["auroc"]
    found = delong(first + label, second, label, question)
    assert found.standard_error == pytest.approx(differences.std(ddof=1), rel=0.06)


def test_memory_grows_with_the_records_not_with_their_pairs():
    first, second, label, question = useless(np.random.default_rng(5), 6_250, 16)
    tracemalloc.start()
    delong(first, second, label, question)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * len(label)  # bytes; a number for each pair would be 20 GB


def test_no_p_value_where_there_is_nothing_to_compare():
    label, question = [1.0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 2, 2]
    scores = {"a": [3.0, 1, 2, 0, 1, 2], "b": [1.0, 3, 0, 2, 0, 0]}
    # the right records are of one question: how they vary over questions is not known
    assert evaluate_scores(scores, label, Plan(versus="b", bootstrap=0), cluster=question).scores["a"].delong_p is None
    assert evaluate_scores(scores, label, Plan(versus="b", bootstrap=0)).scores["a"].delong_p is not None
    # the same difference in every question: it does not vary, but sums of thirds leave a rounding error
    label, question = np.tile([1.0, 1, 1, 0, 0, 0, 0], 11), np.repeat(np.arange(11), 7)
    copied = delong(np.tile([3.0, 2, 2, 1, 1, 0, 0], 11), np.tile([0.0, 0, 3, 2, 3, 2, 2], 11), label, question)
    assert copied.difference == pytest.approx(17 / 24)
    assert math.isnan(copied.p)
