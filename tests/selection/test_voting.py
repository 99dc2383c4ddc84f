import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selection.oracle import oracle_choice
from tokur_cli.commands.options.marks import exact_share
from tokur_cli.commands.options.select import KEEP, parse_keep
from tokur_cli.records.errors import UsageError
from tokur_cli.selection.voting import Keep, Rule, choose, majority_accuracy

GRID = [-3.0, -1.5, -0.25, -0.0, 0.0, 0.125, 0.5, 2.0]  # few values, so that ties are common
TOP_10 = Keep(Fraction(1, 10))


rules = st.builds(
    Rule,
    method=st.sampled_from(["maj", "wbon", "bon"]),
    keep=st.builds(
        Keep,
        st.one_of(st.just(Fraction(1)), st.fractions(Fraction(1, 100), 1, max_denominator=100)),
        st.sampled_from([1, 2, 5, 16]),
    ),
    weight=st.sampled_from(["exp", "rank"]),
)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.sampled_from(GRID), st.floats(-50, 50)), st.one_of(st.none(), st.integers(0, 3))
        ),
        min_size=1,
        max_size=24,
    ),
    rules,
)
def test_choose_is_brute_force(pairs, rule):
    choice = choose([confidence for confidence, _ in pairs], [label for _, label in pairs], rule)
    expected = oracle_choice([(sample, *pair) for sample, pair in enumerate(pairs)], rule)
    assert (None if choice is None else choice.chosen) == expected


def test_choose_ranks_keeps_a_tenth_and_votes_as_in_the_paper():
    # 30 responses, confidences 30 … 1: the top 10 % are the first three, and they vote 1 against 2 although the whole
    # crowd says 3
    labels = [1, 2, 2] + [3] * 27
    confidences = [float(30 - index) for index in range(30)]
    maj = choose(confidences, labels, Rule("maj", TOP_10))
    assert [(one.label, one.votes) for one in maj.classes] == [(2, 2), (1, 1)]
    assert maj.chosen == 1  # the more confident of the two that say 2
    assert choose(confidences, labels, Rule("maj")).classes[0].label == 3
    assert choose(confidences, labels, Rule("bon", TOP_10)).chosen == 0
    # weighted: 1 against e^-1 + e^-2 = 0.503
    wbon = choose(confidences, labels, Rule("wbon", TOP_10, "exp"))
    assert [one.label for one in wbon.classes] == [1, 2]
    assert wbon.classes[1].weight == pytest.approx(math.exp(-1) + math.exp(-2))
    assert wbon.share == pytest.approx(1 / (1 + math.exp(-1) + math.exp(-2)))


def test_choose_bon_passes_over_a_response_without_an_answer():
    choice = choose([3.0, 2.0, 1.0], [None, 0, 1], Rule("bon"))
    assert (choice.chosen, choice.weights) == (1, {0: 0.0, 1: 1.0, 2: 0.0})
    assert choose([3.0, 2.0, 1.0], [None, None, None], Rule("bon")).weights == {0: 1.0, 1: 0.0, 2: 0.0}


def test_choose_ranks_equals_in_the_middle_and_keeps_unscored_responses_up_to_the_minimum():
    rule = Rule("wbon", weight="rank")
    assert choose([3.0, 2.0, 2.0, 1.0], [0, 1, 2, 3], rule).weights == {0: 4, 1: 2.5, 2: 2.5, 3: 1}
    for minimum, kept in ((2, [0, 1, 2]), (4, [0, 1, 2, 3])):
        choice = choose([3.0, 2.0, 1.0, None, None], [0, 1, 2, 3, 3], Rule("maj", Keep(Fraction(9, 10), minimum)))
        assert list(choice.weights) == kept


@pytest.mark.parametrize(
    ("text", "share", "minimum"),
    [("10%", "1/10", 1), ("100 %", "1", 1), ("0.125", "1/8", 1), ("0.1% , 20", "1/1000", 20), (KEEP, "1/10", 16)],
)
def test_parse_keep_is_exact(text, share, minimum):
    assert parse_keep(text) == Keep(Fraction(share), minimum)


@pytest.mark.parametrize("text", ["10", "0%", "101%", "-5%", "", "1e1%", "nan", "16,10%", "10%,", "10%,0", "10%,1.5"])
def test_parse_keep_refuses_what_is_no_share(text):
    with pytest.raises(UsageError, match=r"--keep"):
        parse_keep(text)


def test_keep_rounds_up_exactly_and_keeps_sixteen_in_any_case():
    # in floating point 0.3 · 10 is below 3 and 0.07 · 100 above 7
    for text, count, kept in (("30%", 10, 3), ("7%", 100, 7), (KEEP, 7, 7), (KEEP, 160, 16), (KEEP, 161, 17)):
        assert parse_keep(text).of(count) == kept
    assert exact_share("0.8") == exact_share("80%") == Fraction(4, 5)


@pytest.mark.parametrize(
    ("labels", "correct", "expected"),
    [
        ([0, 0, 1, 1, 2], [1, 1, 0, 0, 0], 0.5),  # one of two tied classes is correct
        ([0, 1, 2], [0, 1, 1], 2 / 3),
        ([None, None, 3], [0, 0, 1], 1.0),  # a missing answer has no vote
        ([None, None], [1, 0], 0.5),
    ],
)
def test_majority_accuracy_counts_a_tie_at_its_expectation(labels, correct, expected):
    assert majority_accuracy(labels, correct) == pytest.approx(expected)
