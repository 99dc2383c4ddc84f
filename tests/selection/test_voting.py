import math
import re
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.commands.options.select import KEEP
from tokur_cli.records.errors import UsageError
from tokur_cli.selection import voting
from tokur_cli.selection.voting import MAJORITY, Keep, Rule, choose, parse_keep

GRID = [-3.0, -1.5, -0.25, -0.0, 0.0, 0.125, 0.5, 2.0]  # few values, so that ties are common
TOP_10 = Keep(Fraction(1, 10))


def oracle_weight(how, doubt, confidence, kept):
    best = max(kept)
    if how == "exp":
        return Fraction(math.exp(confidence - best))
    if how == "rank":
        below = sum(other < confidence for other in kept)
        equal = sum(other == confidence for other in kept)
        return below + Fraction(equal + 1, 2)
    size = (lambda value: max(-value, 0.0)) if doubt else (lambda value: max(value, 0.0))
    low, high = (size(best), size(confidence)) if doubt else (size(confidence), size(best))
    return Fraction(1) if low == high else Fraction(low / high)


def oracle_choice(responses, rule):
    """The chosen response by comparing everything with everything; responses are (sample, confidence, label)."""

    def ahead(first, second):
        key = [(-math.inf if r[1] is None else r[1], -r[0]) for r in (first, second)]
        return key[0] > key[1]

    part, least, with_score = rule.keep.part, rule.keep.least, [r for r in responses if r[1] is not None]
    size = next(k for k in range(len(responses) + 1) if Fraction(k) >= part * len(with_score))
    if rule.method == "maj":
        size = len(responses) if part == 1 else max(size, least) if with_score else 0
    else:
        size = min(len(with_score), max(size, least))
    kept = [r for r in responses if sum(ahead(other, r) for other in responses) < size]
    if not kept:
        return None
    if rule.method == "bon":
        answering = [r for r in kept if r[2] is not None] or kept
        return next(r[0] for r in answering if not any(ahead(other, r) for other in answering))
    values = [r[1] for r in kept if r[1] is not None]
    weight = {
        r[0]: Fraction(1) if rule.method == "maj" else oracle_weight(rule.weight, rule.doubt, r[1], values)
        for r in kept
    }

    def beats(one, other):
        if (one is None) != (other is None):
            return other is None
        totals = [float(sum(weight[r[0]] for r in kept if r[2] == label)) for label in (one, other)]
        if totals[0] != totals[1]:
            return totals[0] > totals[1]
        return any(r[2] == one and all(ahead(r, o) for o in kept if o[2] == other) for r in kept)

    labels = {r[2] for r in kept}
    winner = next(one for one in labels if all(beats(one, other) for other in labels - {one}))
    carriers = [r for r in kept if r[2] == winner]
    return next(r[0] for r in carriers if not any(ahead(other, r) for other in carriers))


rules = st.builds(
    Rule,
    method=st.sampled_from(["maj", "wbon", "bon"]),
    keep=st.builds(
        Keep,
        st.one_of(st.just(Fraction(1)), st.fractions(Fraction(1, 100), 1, max_denominator=100)),
        st.sampled_from([1, 2, 5, 16]),
    ),
    weight=st.sampled_from(["score", "exp", "rank"]),
    doubt=st.booleans(),
)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.sampled_from(GRID), st.floats(-50, 50)),
            st.one_of(st.none(), st.integers(0, 3)),
        ),
        min_size=1,
        max_size=24,
    ),
    rules,
)
def test_choices_are_those_of_brute_force(pairs, rule):
    choice = choose([confidence for confidence, _ in pairs], [label for _, label in pairs], rule)
    expected = oracle_choice([(sample, *pair) for sample, pair in enumerate(pairs)], rule)
    assert (None if choice is None else choice.chosen) == expected


@given(
    st.lists(st.tuples(st.sampled_from(GRID), st.one_of(st.none(), st.integers(0, 4))), min_size=1, max_size=24), rules
)
def test_votes_and_weights_of_the_classes_add_up_to_those_of_the_kept(pairs, rule):
    labels = [label for _, label in pairs]
    choice = choose([confidence for confidence, _ in pairs], labels, rule)
    assert sorted(choice.ranking) == list(range(len(pairs)))
    assert list(choice.weights) == choice.ranking[: len(choice.weights)]
    assert sum(one.votes for one in choice.classes) == len(choice.weights)
    assert {one.label for one in choice.classes} == {labels[index] for index in choice.weights}
    for one in choice.classes:
        assert labels[one.best] == one.label
        assert one.weight == math.fsum(w for index, w in choice.weights.items() if labels[index] == one.label)


@pytest.mark.parametrize(
    ("count", "kept"), [(1, 1), (2, 1), (10, 1), (11, 2), (16, 2), (20, 2), (64, 7), (256, 26), (512, 52)]
)
def test_top_ten_percent_of_n_is_rounded_up(count, kept):
    choice = choose([float(c) for c in range(count)], [0] * count, Rule("maj", TOP_10))
    assert list(choice.weights) == list(range(count))[::-1][:kept]


def test_whole_percentages_keep_whole_numbers():
    # in floating point 0.3 · 10 is below 3 and 0.07 · 100 above 7
    for percent, count, kept in ((30, 10, 3), (7, 100, 7), (10, 30, 3), (55, 20, 11)):
        choice = choose([0.0] * count, [0] * count, Rule("maj", parse_keep(f"{percent}%")))
        assert len(choice.weights) == kept


def test_the_papers_rule_ranks_keeps_a_tenth_and_votes():
    # 30 responses, confidences 30 … 1: the top 10 % are the first three, and they vote 1 against 2 although the whole
    # crowd says 3
    labels = [1, 2, 2] + [3] * 27
    confidences = [float(30 - index) for index in range(30)]
    maj = choose(confidences, labels, Rule("maj", TOP_10))
    assert [(one.label, one.votes) for one in maj.classes] == [(2, 2), (1, 1)]
    assert maj.chosen == 1  # the more confident of the two that say 2
    assert choose(confidences, labels, MAJORITY).classes[0].label == 3
    assert choose(confidences, labels, Rule("bon", TOP_10)).chosen == 0
    # weighted: 1 against e^-1 + e^-2 = 0.503
    wbon = choose(confidences, labels, Rule("wbon", TOP_10, "exp"))
    assert [one.label for one in wbon.classes] == [1, 2]
    assert wbon.classes[1].weight == pytest.approx(math.exp(-1) + math.exp(-2))


@given(
    st.lists(st.tuples(st.sampled_from(GRID), st.one_of(st.none(), st.integers(0, 2))), min_size=1, max_size=20),
    st.sampled_from(["score", "exp", "rank"]),
    st.booleans(),
)
def test_two_kept_responses_choose_the_same_weighted_or_not(pairs, weight, doubt):
    """As in the paper's table, where Maj@16 and WBoN@16 of the top 10 % agree to the last digit."""
    confidences, labels = [c for c, _ in pairs], [label for _, label in pairs]
    keep = Keep(Fraction(2, len(pairs)) if len(pairs) > 1 else Fraction(1))
    assert keep.of(len(pairs)) <= 2
    weighted = choose(confidences, labels, Rule("wbon", keep, weight, doubt))
    assert weighted.chosen == choose(confidences, labels, Rule("maj", keep)).chosen


@pytest.mark.parametrize(
    ("confidences", "labels", "chosen"),
    [
        ([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], 3),  # two votes each: the class of the most confident one
        ([5.0, 1.0, 1.0, 5.0], [0, 1, 1, 2], 1),  # two votes beat confidence
        ([1.0, 1.0, 1.0], [2, 1, 0], 0),  # all equal: the lower sample, not the lower class
        ([1.0, 3.0, 3.0], [0, 0, 0], 1),  # of one class the most confident, then the lower sample
        ([9.0, 8.0, 1.0], [None, None, 0], 2),  # no answer never wins while another is there
        ([1.0, 2.0], [None, None], 1),  # but it does alone
        ([None, None, 1.0], [0, 0, 1], 0),  # without a filter, a missing score does not silence a vote
        ([None, 1.0], [0, 1], 1),  # but it ranks last
        ([None, None], [1, 0], 0),
    ],
)
def test_plain_majority_by_hand(confidences, labels, chosen):
    assert choose(confidences, labels, MAJORITY).chosen == chosen


@pytest.mark.parametrize("rule", [Rule("maj", TOP_10), Rule("wbon"), Rule("bon")])
def test_a_missing_score_is_never_kept_where_a_score_is_needed(rule):
    choice = choose([None, -1e300, None], [0, 1, 0], rule)
    assert list(choice.weights) == [1]
    assert choose([None, None], [0, 1], rule) is None


def test_a_tenth_is_counted_among_those_that_have_the_score():
    confidences = [None] * 10 + [float(c) for c in range(10)]
    assert list(choose(confidences, [0] * 20, Rule("maj", TOP_10)).weights) == [19]


def test_the_single_best_passes_over_one_without_an_answer():
    choice = choose([3.0, 2.0, 1.0], [None, 0, 1], Rule("bon"))
    assert (choice.chosen, choice.weights) == (1, {0: 0.0, 1: 1.0, 2: 0.0})
    assert choose([3.0, 2.0, 1.0], [None, None, None], Rule("bon")).chosen == 0


def test_ten_tenths_are_one():
    choice = choose([1.0] + [0.1] * 10, [0] + [1] * 10, Rule("wbon", weight="score"))
    assert [(one.label, one.weight) for one in choice.classes] == [(0, 1.0), (1, 1.0)]


@pytest.mark.parametrize(
    ("text", "share", "least"),
    [
        ("10%", Fraction(1, 10), 1),
        ("100 %", 1, 1),
        ("12.5%", Fraction(1, 8), 1),
        ("0.1% , 20", Fraction(1, 1000), 20),
        (KEEP, Fraction(1, 10), 16),
    ],
)
def test_percentages_are_exact(text, share, least):
    assert parse_keep(text) == Keep(Fraction(share), least)


@pytest.mark.parametrize("text", ["10", "0.1", "0%", "101%", "-5%", "", "ten%", "1e1%", "nan%", "1/3%", "16,10%"])
def test_anything_but_a_percentage_is_refused(text):
    with pytest.raises(UsageError, match=r"such as 1[06]%"):
        parse_keep(text)


@pytest.mark.parametrize("text", ["10%,", "10%,0", "10%,-1", "10%,1.5", "10%,20%", "10%,1,2"])
def test_a_least_number_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="how many are kept at least, such as 10%,16"):
        parse_keep(text)


@pytest.mark.parametrize(
    ("count", "kept"), [(1, 1), (2, 2), (16, 16), (17, 16), (64, 16), (160, 16), (161, 17), (256, 26), (512, 52)]
)
def test_by_default_sixteen_vote_until_a_tenth_is_more(count, kept):
    assert parse_keep(KEEP).of(count) == kept


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.sampled_from(GRID)), st.one_of(st.none(), st.integers(0, 4))),
        min_size=1,
        max_size=16,
    )
)
def test_up_to_sixteen_the_default_is_the_majority_and_of_even_answers_has_the_more_confident(pairs):
    """So it cannot lose to the majority but where answers are even, which without a score chance decides."""
    confidences, labels = [c for c, _ in pairs], [label for _, label in pairs]
    choice = choose(confidences, labels, Rule("maj", parse_keep(KEEP)))
    if all(confidence is None for confidence in confidences):
        assert choice is None  # that the responses were never scored is an error, not a vote
        return
    votes = Counter(label for label in labels if label is not None)
    most = [label for label, count in votes.items() if count == max(votes.values())] or [None]
    best = max(
        (-math.inf if confidence is None else confidence, -place)
        for place, (confidence, label) in enumerate(pairs)
        if label in most
    )
    assert choice.chosen == -best[1]
    if len(most) == 1:
        assert labels[choice.chosen] == labels[choose([None] * len(pairs), labels, MAJORITY).chosen]


def test_the_votes_told_beside_the_default_are_those_of_a_lead_of_60_to_20_percent():
    """How often the first of three answers has more votes than the second, ties half, by all possible counts."""

    def wins(size, first=Fraction(6, 10), second=Fraction(2, 10)):
        rest, found = 1 - first - second, Fraction(0)
        for a in range(size + 1):
            for b in range(size - a + 1):
                ways = math.comb(size, a) * math.comb(size - a, b)
                chance = ways * first**a * second**b * rest ** (size - a - b)
                found += chance * (2 if a > b else 1 if a == b else 0) / 2
        return round(float(100 * found))

    told = re.search(
        r"(\d+) % of votes of one.* (\d+) % of two, (\d+) % of 7 and (\d+) % of 16", voting.__doc__, re.DOTALL
    )
    assert [str(wins(size)) for size in (1, 2, 7, 16)] == list(told.groups())
