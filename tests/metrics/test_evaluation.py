import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tokur_cli.metrics import evaluation, ranking
from tokur_cli.metrics.estimate import Estimate, over_runs
from tokur_cli.metrics.evaluation import evaluate_scores
from tokur_cli.metrics.ranking import acc_of, auroc, length_strata, prr_of, ranked


def _records(generator, count, shift, share=0.5):
    label = (generator.random(count) < share).astype(float)
    return generator.normal(size=count) + shift * label, label


def _metrics(confidence, label, resamples, seed=0):
    return evaluate_scores({"s": confidence}, label, bootstrap=resamples, seed=seed).scores["s"].metrics


@pytest.mark.slow
def test_intervals_cover_the_truth_at_their_nominal_rate():
    generator = np.random.default_rng(0)
    shift, simulations = 1.0, 150
    truth = {"auroc": 0.5 * (1 + math.erf(shift / 2))}
    confidence, label = _records(generator, 200_000, shift)
    truth["acc"] = acc_of(ranked(confidence, label))[0]
    covered = dict.fromkeys(truth, 0)
    for simulation in range(simulations):
        found = _metrics(*_records(generator, 150, shift), 200, simulation)
        for metric, value in truth.items():
            covered[metric] += found[metric].low <= value <= found[metric].high
    error = 3 * math.sqrt(0.95 * 0.05 / simulations)
    for metric, count in covered.items():
        assert abs(count / simulations - 0.95) < error, metric


def test_intervals_are_those_of_each_metric_computed_of_each_resample(monkeypatch):
    monkeypatch.setattr(ranking, "_CHUNK_NUMBERS", 120)  # three resamples at a time
    generator = np.random.default_rng(3)
    confidence, label = _records(generator, 40, 1.0)
    confidence = confidence.round(1)
    again = np.random.default_rng(5)
    picks = [again.integers(0, 40, 40, dtype=np.int32) for _ in range(20)]
    found = _metrics(confidence, label, 20, 5)
    for metric, compute in (("auroc", auroc), ("acc", lambda *of: acc_of(ranked(*of))[0])):
        drawn = np.array([compute(confidence[pick], label[pick]) for pick in picks])
        expected = np.quantile(drawn, [0.025, 0.975]).tolist()
        assert [found[metric].low, found[metric].high] == pytest.approx(expected)


@pytest.mark.parametrize(("groups", "tolerance"), [(evaluation.MOST_GROUPS, 0.02), (16, 0.1)])
def test_merging_neighbours_hardly_changes_intervals(groups, tolerance, monkeypatch):
    confidence, label = _records(np.random.default_rng(4), 4000, 1.0, share=0.3)
    monkeypatch.setattr(evaluation, "MOST_GROUPS", groups)
    merged = _metrics(confidence, label, 300)
    monkeypatch.setattr(evaluation, "MOST_GROUPS", 10**9)
    exact = _metrics(confidence, label, 300)
    for metric in ("auroc", "auprc", "acc", "aurc", "prr"):
        width = exact[metric].high - exact[metric].low
        assert merged[metric].value == exact[metric].value
        assert merged[metric].low == pytest.approx(exact[metric].low, abs=tolerance * width), metric
        assert merged[metric].high == pytest.approx(exact[metric].high, abs=tolerance * width), metric


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1, 2, 3], 2 / 4),  # with the observed set as one more resample, at best 1 of 4 is on the other side
        ([-1, 1, 2, 3], 4 / 5),
        ([0, 1, 2, 3, 4, 5], 4 / 7),  # 0 is on both sides
        ([1, 2, 3, math.nan, math.nan], 2 / 4),
        ([0, 0, 0], 1),
        (range(1, 1000), 2 / 1000),
    ],
)
def test_p_values_by_hand(differences, p):
    values = np.array(differences, dtype=float)
    found = [Estimate.resampled(np.append(0.0, sign * values), is_difference=True).p for sign in (1, -1)]
    assert found == pytest.approx([p, p])


def test_equal_values_have_no_deviation_whatever_the_rounding():
    assert Estimate.mean([value / 10 for value in (1, 1.0, np.float64(1))]).std == 0.0
    assert Estimate.mean([0.1]) == Estimate(0.1, values=(0.1,))


@pytest.mark.parametrize("rare", [0.0, 1.0])
def test_few_questions_of_one_label_decide_nothing(rare):
    for few, is_undecided in ((4, True), (5, False)):
        label = [rare] * few + [1 - rare] * 20
        found = evaluate_scores({"s": range(len(label))}, label, bootstrap=20)
        assert (found.undecided is not None) == is_undecided


def test_what_is_missing_is_left_out_and_counted():
    label = [1, 0, 1, 0, math.nan, 1, 0]
    full = [6, 1, 5, 2, 9, 4, 3]
    holes = [6, math.nan, 5, math.inf, 9, math.nan, 3]
    found = evaluate_scores({"full": full, "holes": holes}, label, bootstrap=50)
    assert (found.records, found.unlabelled, found.accuracy.value) == (6, 1, 0.5)
    first, second = found.scores.values()
    assert (first.records, second.records) == (6, 3)
    assert first.metrics["auroc"].value == auroc([6, 1, 5, 2, 4, 3], [1, 0, 1, 0, 1, 0])
    assert second.metrics["auroc"].value == auroc([6, 5, 3], [1, 1, 0])
    best = prr_of(ranked([6, 5, 3], [1, 1, 0]))[0]  # among those that have the score
    assert second.metrics["prr"].value == pytest.approx(best)


def test_what_is_not_defined_is_none_with_a_reason():
    right = evaluate_scores({"s": [1.0, 2.0, 3.0]}, [1, 1, 1], bootstrap=20).scores["s"].metrics
    assert right["auroc"] == Estimate(None, reason="every record has the label 1")
    assert right["auprc"].value is None
    assert right["prr"].value is None
    assert right["acc"].value == 1.0
    assert right["brier"].reason == "fewer than 10 questions to calibrate on"
    graded = evaluate_scores({"s": [1.0, 2.0, 3.0]}, [0.2, 0.9, 0.4], bootstrap=20).scores["s"].metrics
    assert graded["auroc"].reason == "labels are graded, not correct or incorrect"
    assert graded["acc"].value == pytest.approx(0.65)
    assert graded["prr"].low is not None
    empty = evaluate_scores({"s": [math.nan, math.nan]}, [0, 1]).scores["s"]
    assert empty.records == 0
    assert empty.metrics["acc"].reason == "no record has this score"
    nothing = evaluate_scores({"s": []}, [])
    assert nothing.records == 0
    assert nothing.accuracy == Estimate(None)


def test_ten_questions_are_enough_to_calibrate_on_and_nine_are_not():
    confidence, label = np.arange(40.0), np.tile([0.0, 1.0], 20)
    holes = np.where(np.arange(40) % 10 == 3, math.nan, confidence)  # of ten questions one has no score
    few = "fewer than 10 questions to calibrate on"
    for values, questions, reason in ((confidence, 10, None), (confidence, 9, few), (holes, 10, few)):
        found = evaluate_scores({"s": values}, label, bootstrap=0, cluster=np.arange(40) % questions).scores["s"]
        for metric in ("brier", "ece"):
            assert found.metrics[metric].reason == reason
            assert (found.metrics[metric].value is None) == (reason is not None)
    separable = evaluate_scores({"s": confidence}, confidence > 19, bootstrap=0).scores["s"]
    assert separable.metrics["brier"].value == pytest.approx(0, abs=0.02)


def test_a_score_is_compared_with_the_baseline_on_the_records_that_have_both():
    generator = np.random.default_rng(7)
    good, label = _records(generator, 300, 2.0)
    poor = generator.normal(size=300)
    good[:50] = math.nan
    found = evaluate_scores({"good": good, "poor": poor}, label, bootstrap=200, baselines=("poor", "good"))
    better, baseline = found.scores.values()
    assert (list(better.differences), list(baseline.differences)) == (["poor"], ["good"])
    gap = better.differences["poor"]["auroc"]
    assert baseline.differences["good"]["auroc"].value == pytest.approx(-gap.value)
    assert gap.value == pytest.approx(auroc(good[50:], label[50:]) - auroc(poor[50:], label[50:]))
    assert gap.low < gap.value < gap.high
    assert (gap.verdict, baseline.differences["good"]["auroc"].verdict) == ("better than", "worse than")
    assert gap.p < 0.05
    assert better.differences["poor"]["aurc"].value < 0


def test_scores_that_no_record_has_both_of_are_not_compared():
    nan = math.nan
    found = evaluate_scores(
        {"a": [4, 3, nan, nan], "b": [nan, nan, 2, 1]}, [1, 0, 1, 0], bootstrap=10, baselines=("b",)
    )
    assert found.scores["a"].metrics["auroc"].value == 1.0
    assert found.scores["a"].differences == {"b": {}}


def test_runs_are_counted_together_and_their_figures_averaged():
    generator = np.random.default_rng(10)
    good = evaluate_scores({"s": [3, 2, 1], "t": [1, 2, 3]}, [1, 0, math.nan], bootstrap=50, baselines=("t",))
    confidence, label = _records(generator, 40, 1.0)
    other = evaluate_scores({"s": confidence, "t": -confidence}, label, bootstrap=50, baselines=("t",))
    both = over_runs([good, other])
    assert (both.records, both.questions, both.unlabelled, both.runs, both.is_binary) == (42, 42, 1, 2, True)
    assert both.accuracy.value == pytest.approx((0.5 + label.mean()) / 2)
    aurocs = [run.scores["s"].metrics["auroc"].value for run in (good, other)]
    assert both.scores["s"].metrics["auroc"].values == tuple(aurocs) == (1.0, auroc(confidence, label))
    assert both.scores["s"].differences["t"]["auroc"].value == pytest.approx(2 * np.mean(aurocs) - 1)
    assert both.scores["s"].records == 42
    assert over_runs([good]) is good
    without = evaluate_scores({"s": confidence, "t": label * math.nan}, label, bootstrap=50, baselines=("t",))
    gap = other.scores["s"].differences["t"]["auroc"]
    assert None not in (gap.low, gap.p)
    for runs in ([other, without], [without, other]):  # no interval of one run stands among means over several
        assert over_runs(runs).scores["s"].differences["t"]["auroc"] == Estimate(gap.value, values=(gap.value,))


records = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan]),  # confidence
        st.sampled_from([0.0, 1.0, math.nan]),  # label
        st.one_of(st.integers(1, 12).map(float), st.just(math.nan)),  # length
    ),
    min_size=1,
    max_size=40,
)


def fifth(length, lengths):
    """The fifth that a length is in: how many of the four bounds lie below it.

    A bound is the lowest length that at least one, two, three or four fifths of all do not exceed.
    """
    bounds = [
        min(bound for bound in lengths if 5 * sum(other <= bound for other in lengths) >= part * len(lengths))
        for part in range(1, 5)
    ]
    return sum(length > bound for bound in bounds)


def counted(confidence, label, stratum):
    """The share of the pairs of a right and a wrong record of one stratum in which the right one is more confident."""
    won = pairs = 0.0
    for c, y, s in zip(confidence, label, stratum, strict=True):
        for other_c, other_y, other_s in zip(confidence, label, stratum, strict=True):
            if y == 1 and other_y == 0 and s == other_s and s is not None:
                pairs += 1
                won += 1.0 if c > other_c else 0.5 if c == other_c else 0.0
    return won / pairs if pairs else None


@given(records)
def test_it_is_the_share_of_the_pairs_within_fifths_of_the_length(rows):
    confidence, label, length = zip(*rows, strict=True)
    found = evaluate_scores({"s": confidence}, label, bootstrap=0, length=length).scores["s"]
    lengths = [t for _, y, t in rows if not math.isnan(y) and not math.isnan(t)]
    held = [row for row in rows if not math.isnan(row[0]) and not math.isnan(row[1])]
    strata = [None if math.isnan(t) else fifth(t, lengths) for _, _, t in held]
    expected = counted([c for c, _, _ in held], [y for _, y, _ in held], strata)
    estimate = found.metrics["auroc_at_length"]
    assert estimate.value == (None if expected is None else pytest.approx(expected))
    assert (estimate.reason is None) == (expected is not None)


def test_records_of_one_length_are_in_one_stratum_and_the_strata_are_of_about_equal_size():
    generator = np.random.default_rng(0)
    length = generator.integers(1, 400, 1000).astype(float)
    stratum = length_strata(length)
    assert all(len(set(stratum[length == value])) == 1 for value in set(length))
    assert np.bincount(stratum) == pytest.approx(np.full(5, 200), abs=10)
    assert length_strata(np.array([math.nan, 3.0, math.inf])).tolist() == [-1, 0, -1]
    assert length_strata(np.full(9, 7.0)).tolist() == [0] * 9


@pytest.mark.parametrize(
    ("label", "length", "reason"),
    [
        ([1, 0, 1], [math.nan] * 3, "no record tells its length (neg_length)"),
        ([1, 1, 1], [3, 4, 5], "every record has the label 1"),
        ([0.5, 0, 1], [3, 4, 5], "labels are graded, not correct or incorrect"),
        ([1, 0, 0], [3, 40, 50], "no two records of similar length are correct and incorrect"),
    ],
)
def test_where_it_is_not_defined_it_says_why(label, length, reason):
    found = evaluate_scores({"s": [1.0, 2.0, 3.0]}, label, bootstrap=20, length=length).scores["s"]
    assert (found.metrics["auroc_at_length"].value, found.metrics["auroc_at_length"].reason) == (None, reason)
    assert "auroc_at_length" not in evaluate_scores({"s": [1.0, 2.0, 3.0]}, label).scores["s"].metrics


SPAN = st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan]), st.sampled_from([0.0, 1.0, math.nan]))


def hit(spans, most):
    """The share of all orders of the spans, least confident first, that have the first wrong one among the K first."""
    wrong = next(place for place, (_, label) in enumerate(spans) if label == 0)
    if math.isnan(spans[wrong][0]):
        return 0.0
    held = [place for place, (confidence, _) in enumerate(spans) if not math.isnan(confidence)]
    orders = [
        order
        for order in itertools.permutations(held)
        if all(spans[a][0] <= spans[b][0] for a, b in itertools.pairwise(order))
    ]
    return sum(wrong in order[:most] for order in orders) / len(orders)


@given(st.lists(st.lists(SPAN, min_size=1, max_size=5), min_size=1, max_size=4))
def test_hits_are_those_of_all_orders_and_within_is_the_auroc_of_each_response(responses):
    confidence, label, response = zip(
        *[(*span, place) for place, spans in enumerate(responses) for span in spans], strict=True
    )
    found = evaluate_scores({"eu": confidence}, label, bootstrap=0, cluster=response, response=response)
    metrics = found.scores["eu"].metrics
    ranked = [spans for spans in responses if len(spans) > 1 and any(known == 0 for _, known in spans)]
    for metric, most in (("hit1", 1), ("hit3", 3)):
        expected = pytest.approx(np.mean([hit(spans, most) for spans in ranked])) if ranked else None
        assert metrics[metric].value == expected
    areas = []
    for spans in responses:
        held = [(value, known) for value, known in spans if not math.isnan(value) and not math.isnan(known)]
        if len({known for _, known in held}) == 2:
            areas.append(roc_auc_score([known for _, known in held], [value for value, _ in held]))
    assert metrics["within"].value == (pytest.approx(np.mean(areas)) if areas else None)
