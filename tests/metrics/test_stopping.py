"""Votes that end when they are settled: beta distributions and all orders of a few responses as the oracle."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import beta

from tokur_cli.metrics import stopping as module
from tokur_cli.metrics.stopping import FEWEST, Rule, fewest_settled, posterior, probability_that_it_leads


def stopping(*columns, **options):
    """By plain votes, by level."""
    *columns, levels = columns
    found = module.stopping(*columns, [Rule(False, level) for level in levels], **options)
    return {rule.level: of for rule, of in found.items()}


@pytest.mark.parametrize(("votes", "others"), [(4, 0), (3, 1), (10, 9), (40, 2), (0, 0)])
def test_the_probability_is_that_of_a_beta_distribution(votes, others):
    expected = beta.sf(0.5, votes + 1, others + 1)
    assert probability_that_it_leads(votes, others) == pytest.approx(expected)
    assert probability_that_it_leads(others, votes) == pytest.approx(1 - expected)


def test_equal_answers_are_settled_as_soon_as_may_be():
    """1 − 0.5^(n + 1) is 0.969 for n = 4, 0.984 for 5 and 0.992 for 6."""
    found = stopping([0] * 8, [0] * 8, [1.0] * 8, [10.0] * 8, 8, [0.6, 0.95, 0.98, 0.99])
    assert {level: round(8 * of.samples.value) for level, of in found.items()} == {0.6: 4, 0.95: 4, 0.98: 5, 0.99: 6}
    assert all(of.samples.value == of.tokens.value and of.settled.value == 1 for of in found.values())


def by_hand(order, classes, right, lengths, level):
    """The rule in words, for one order."""

    def choice(drawn):
        votes = Counter(classes[place] for place in drawn if classes[place] >= 0)
        if not votes:
            return right[drawn[0]]
        best = max(votes.values())
        return next(right[place] for place in drawn if votes.get(classes[place]) == best)

    for count in range(FEWEST, len(order) + 1):
        votes = [n for _, n in Counter(classes[place] for place in order[:count] if classes[place] >= 0).most_common(2)]
        first, second = [*votes, 0, 0][:2]
        if first and beta.sf(0.5, first + 1, second + 1) >= level:
            drawn, settled = order[:count], True
            break
    else:
        drawn, settled = order, False
    part = sum(lengths[place] for place in drawn)
    return [choice(drawn), choice(drawn) - choice(order), part, len(drawn) / len(order), settled]


@pytest.mark.parametrize(
    "classes", [[0, 0, 1, 0, -1, 0], [0, 1, 1, 2, 2, 2], [-1, -1, -1, -1, -1, -1], [0, 0, 0, 1, 1, 1]]
)
def test_figures_are_the_means_over_all_orders(classes):
    right, lengths = [float(one == 1) for one in classes], [1.0, 2.0, 3.0, 4.0, 5.0, 60.0]
    for level in (0.8, 0.95):
        orders = list(itertools.permutations(range(6)))
        expected = np.mean([by_hand(order, classes, right, lengths, level) for order in orders], axis=0)
        expected[2] /= sum(lengths)
        of = stopping([7] * 6, classes, right, lengths, 6, [level], repeats=3000)[level]
        found = [getattr(of, name).value for name in ("accuracy", "difference", "tokens", "samples", "settled")]
        assert found == pytest.approx(list(expected), abs=0.03)


def simulated(questions=50, samples=12, seed=0):
    generator = np.random.default_rng(seed)
    question = np.repeat(np.arange(questions), samples)
    sure = np.repeat(generator.random(questions), samples)
    classes = np.where(generator.random(len(question)) < sure, 0, generator.integers(1, 4, len(question)))
    return question, classes, (classes == 0).astype(float), generator.integers(5, 90, len(question)).astype(float)


def test_more_surely_takes_more_samples_and_differs_less():
    found = list(stopping(*simulated(), 12, [0.6, 0.8, 0.95, 0.999]).values())
    parts = [of.samples.value for of in found]
    assert parts == sorted(parts)
    assert FEWEST / 12 <= parts[0] < parts[-1] <= 1
    assert abs(found[-1].difference.value) <= 0.002
    for of in found:
        assert of.difference.low <= of.difference.value <= of.difference.high
        assert of.tokens.low < of.tokens.value < of.tokens.high


def test_no_more_than_n_responses_count_and_the_seed_tells_which():
    columns = simulated()
    whole, some = (stopping(*columns, size, [0.9], resamples=0)[0.9] for size in (12, 5))
    assert some.accuracy.value < whole.accuracy.value + 0.1
    assert some.samples.value >= FEWEST / 5
    assert some.accuracy.low is None
    assert stopping(*columns, 5, [0.9], seed=1)[0.9] == stopping(*columns, 5, [0.9], seed=1)[0.9]
    assert stopping(*columns, 5, [0.9], seed=1)[0.9] != stopping(*columns, 5, [0.9], seed=2)[0.9]


def test_questions_without_labels_are_left_out_and_unknown_lengths_give_no_tokens():
    question, classes, right, lengths = simulated()
    unknown = np.where(np.arange(len(right)) == 3, np.nan, right)
    inside = question > 0
    kept = stopping(question[inside], classes[inside], right[inside], lengths[inside], 12, [0.9], resamples=0)
    assert stopping(question, classes, unknown, lengths, 12, [0.9], resamples=0) == kept
    lengths[40] = np.nan
    of = stopping(question, classes, right, lengths, 12, [0.9])[0.9]
    assert of.tokens.value is None
    assert of.samples.value is not None


def by_beta(classes):
    first, second = [*(number for _, number in Counter(one for one in classes if one >= 0).most_common(2)), 0, 0][:2]
    return beta.sf(0.5, first + 1, second + 1)


@pytest.mark.parametrize(("votes", "level"), [((), 0.95), ((0, 0), 0.99), ((0, 1, 0), 0.95), ((0, 1, -1, 1, 2), 0.9)])
def test_no_fewer_responses_settle_a_vote_than_are_asked_for(votes, level):
    """All ways in which up to nine responses may go on, and the shortest that settles."""
    for count in range(len(votes), len(votes) + 10):
        ways = itertools.product((0, 1), repeat=count - len(votes))
        if count >= FEWEST and any(by_beta([*votes, *way]) >= level for way in ways):
            break
    assert fewest_settled(votes, level, 64) == count


def test_a_settled_vote_says_with_which_response_it_was():
    assert fewest_settled([0] * 9, 0.95, 9) == 4
    assert fewest_settled([0] * 9, 0.99, 9) == 6
    assert fewest_settled([0, 1, 0, 0, 0, 0, 0], 0.95, 7) == 7


def test_the_posterior_is_that_of_a_sum_over_all_candidates():
    """Bayes' rule, candidate by candidate, of answers that were given and one that was not."""
    generator = np.random.default_rng(1)
    for _ in range(50):
        classes = generator.integers(-1, 4, 7)
        probability = generator.random(7)
        found = posterior(classes, probability)
        for count in range(1, 8):
            given = sorted({int(one) for one in classes[:count] if one >= 0})
            others = max(1, len(given))
            likelihood = {}
            for candidate in (*given, "another"):
                likelihood[candidate] = 1.0
                for one, p in zip(classes[:count], probability[:count], strict=True):
                    if one >= 0:
                        likelihood[candidate] *= p if one == candidate else (1 - p) / others
            total = sum(likelihood.values())
            assert [found[count - 1, one] for one in given] == pytest.approx([likelihood[one] / total for one in given])
            assert found[count - 1].sum() == pytest.approx(1 - likelihood["another"] / total)


def test_probabilities_choose_what_votes_do_not():
    """One sure response outweighs three that are not; without any probability nothing is settled or chosen by them."""
    classes, right = [1, 0, 0, 0, 0, 0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    plain, weighted = rules = [Rule(False, 0.9), Rule(True, 0.9)]
    columns = [0] * 6, classes, right, [1.0] * 6, 6, rules
    found = module.stopping(*columns, probability=[0.999, *[0.3] * 5], repeats=200)
    assert found[plain].accuracy.value == 0
    assert found[weighted].accuracy.value > 0.6
    assert found[weighted].difference.value == found[weighted].accuracy.value
    found = module.stopping(*columns, probability=[np.nan] * 6)
    assert (found[weighted].settled.value, found[weighted].samples.value) == (0, 1)


def test_calibrated_probabilities_settle_votes_that_are_right_so_often():
    """Questions of ten answers; a response says how probably it is right, and is right so often."""
    generator = np.random.default_rng(5)
    questions, samples = 1500, 16
    probability = generator.beta(1.2, 1.2, (questions, samples))
    is_right = generator.random((questions, samples)) < probability
    classes = np.where(is_right, 0, generator.integers(1, 10, (questions, samples)))
    rule = Rule(True, 0.9)
    of = module.stopping(
        np.repeat(np.arange(questions), samples), classes.ravel(), (classes == 0).ravel().astype(float),
        np.ones(questions * samples), samples, [rule, Rule(False, 0.9)], probability=probability.ravel(), repeats=2,
    )  # fmt: skip
    assert of[rule].accuracy.low > 0.9
    assert of[rule].samples.value < of[Rule(False, 0.9)].samples.value


def ended_by_hand(order, classes, right, confidences, rule):
    """DeepConf's rule in words, for one order."""

    def windows(place):
        of = confidences[place]
        width = min(rule.window, len(of))
        return [sum(of[start : start + width]) / width for start in range(len(of) - width + 1)]

    first = sorted(min(windows(place)) for place in order[: rule.first])
    threshold = np.percentile(first, 100 - 100 * rule.part)
    drawn, weight = 0, Counter()
    for place in order:
        below = [start for start, mean in enumerate(windows(place)) if mean < threshold]
        is_ended = below and place not in order[: rule.first]
        drawn += min(below[0] + rule.window, len(confidences[place])) if is_ended else len(confidences[place])
        if not below and classes[place] >= 0:
            weight[classes[place]] += min(windows(place))
    best = max(weight.values(), default=0)
    chosen = next((right[place] for place in order if weight.get(classes[place]) == best), right[order[0]])
    return [chosen, drawn / sum(map(len, confidences))]


@pytest.mark.parametrize(("part", "first", "window"), [(0.9, 3, 2), (0.1, 3, 2), (0.5, 1, 4), (0.9, 5, 9)])
def test_unsure_responses_end_with_the_first_window_below_what_the_first_ones_reach(part, first, window):
    generator = np.random.default_rng(2)
    confidences = [2 + generator.random(length) for length in (3, 9, 5, 7, 4)]
    classes, right = [0, 1, 1, -1, 0], [1.0, 0.0, 0.0, 0.0, 1.0]
    rule = module.EndingEarly(part, first, window)
    orders = list(itertools.permutations(range(5)))
    expected = np.mean([ended_by_hand(order, classes, right, confidences, rule) for order in orders], axis=0)
    lowest = []
    for of in confidences:
        width = min(window, len(of))
        lowest.append(np.minimum.accumulate(np.convolve(of, np.full(width, 1 / width), "valid")))
    lengths = [float(len(of)) for of in confidences]
    of = module.stopping([3] * 5, classes, right, lengths, 5, [rule], lowest=lowest, repeats=3000)[rule]
    assert [of.accuracy.value, of.tokens.value] == pytest.approx(list(expected), abs=0.03)
    assert (of.samples.value, of.settled.value) == (1, None)
