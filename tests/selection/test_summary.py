"""What is said of a selection, by hand."""

from fractions import Fraction

import pytest

from tokur_cli.selection.gathering import Candidate
from tokur_cli.selection.summary import InputWarnings, SelectionAccuracy
from tokur_cli.selection.voting import Keep, Rule, choose


def test_summary_has_choice_majority_and_oracle_and_leaves_out_what_has_no_labels():
    accuracy = SelectionAccuracy()
    accuracy.add([True, False, False], [0, 1, 1], 0)
    accuracy.add([False, False, True, True], [0, 0, 1, 1], None)  # two tied classes
    accuracy.add([True, None], [0, 1], 0)
    assert accuracy.summary() == (
        "accuracy 50.00%, majority 25.00%, Pass@1 41.67%, Pass@N 100.00% (2 questions, 1 without labels left out)"
    )


def test_summary_of_choices_that_may_abstain_has_their_coverage():
    accuracy = SelectionAccuracy(abstains=True)
    accuracy.add([True], [0], 0, answers=False)
    assert accuracy.summary() == "coverage 0.00%, accuracy of what is answered unknown (1 question)"
    for right in (True, False, False):
        accuracy.add([right], [0], 0)
    assert accuracy.summary() == "coverage 75.00%, accuracy of what is answered 33.33% (4 questions)"
    assert SelectionAccuracy().summary() is None


def test_summary_of_responses_without_answers_has_no_majority():
    accuracy = SelectionAccuracy()
    accuracy.add([True, False], [None, None], 0)
    assert accuracy.summary() == "accuracy 100.00%, Pass@1 50.00%, Pass@2 100.00% (1 question)"


def responses(*confidences, of="q"):
    return [Candidate("7", one, False, False, None, None, sample, of) for sample, one in enumerate(confidences)]


def looked_at(rule, *questions):
    """Of responses and duplicates of each question."""
    warnings = InputWarnings("eu", needs_score=rule.needs_score)
    for name, (given, duplicates) in zip("abcd", questions, strict=False):
        choice = choose([one.confidence for one in given], [one.answer for one in given], rule)
        warnings.look_at(name, given, duplicates, choice)
    return list(warnings.lines())


@pytest.mark.parametrize(
    ("rule", "outcomes"),
    [
        (Rule("wbon"), {"cannot be kept": 3}),
        (Rule("maj", Keep(Fraction(1, 10), 16)), {"rank last": 1, "cannot be kept": 2}),  # those beside no scored one
        (Rule("maj", Keep(Fraction(1, 10))), {"cannot be kept": 3}),
        (Rule("maj"), {"rank last": 3}),
    ],
)
def test_input_warnings_count_duplicates_responses_without_the_score_and_other_numbers_of_them(rule, outcomes):
    odd = (
        (responses(3.0, of=None), responses(1, 2)),
        (responses(1.0, None), []),
        (responses(None, None), responses(1.0)),
        (responses(1.0), []),
    )
    assert looked_at(rule, *odd) == [
        "1 record without an id: grouped by prompt",
        "3 duplicates of (id, sample) left out (first a: sample 0): records of several runs need different ids or "
        "samples",
        "2 questions with 2 responses, 2 with another number (1 to 2)",
        *(f"{count} of 6 responses without a finite eu: they {outcome}" for outcome, count in outcomes.items()),
    ]


def test_input_warnings_are_none_of_even_input_and_of_a_majority_that_needs_no_score():
    for rule, confidence in ((Rule("wbon"), 1.0), (Rule("maj"), None)):
        assert looked_at(rule, (responses(confidence), [])) == []
    uneven = [(responses(*confidences), []) for confidences in ([1], [1], [1, 2])]
    assert looked_at(Rule("wbon"), *uneven) == ["2 questions with 1 response, 1 with another number (1 to 2)"]
