"""What is said of a selection, by hand."""

from fractions import Fraction

import pytest

from tokur_cli.selection.gathering import Candidate
from tokur_cli.selection.summary import InputWarnings, SelectionAccuracy
from tokur_cli.selection.voting import Keep, Rule


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
    accuracy.add([True], [0], 0)
    accuracy.add([True], [0], 0, answers=False)
    assert accuracy.summary() == "coverage 50.00%, accuracy of what is answered 100.00% (2 questions)"
    assert SelectionAccuracy().summary() is None


def responses(*confidences, of="q"):
    return [Candidate("7", confidence, sample=sample, id=of) for sample, confidence in enumerate(confidences)]


@pytest.mark.parametrize(
    ("rule", "outcome"), [(Rule("wbon"), "cannot be kept"), (Rule("maj", Keep(Fraction(1, 10), 16)), "rank last")]
)
def test_input_warnings_count_duplicates_missing_scores_and_other_numbers_of_responses(rule, outcome):
    warnings = InputWarnings("eu", rule)
    warnings.look_at("a", responses(1.0, 2.0), [])
    warnings.look_at("b", responses(1.0, None), responses(1.0))
    warnings.look_at("c", responses(3.0, of=None), responses(1.0, 2.0))
    assert warnings.lines() == [
        "1 record without an id: grouped by prompt",
        "3 duplicates of (id, sample) left out (first b: sample 0): records of several runs need different ids or "
        "samples",
        "2 questions with 2 responses, 1 with another number (1 to 2)",
        f"1 of 5 responses without a finite eu: they {outcome}",
    ]


def test_input_warnings_are_none_of_even_input_and_of_a_majority_that_needs_no_score():
    for rule, confidence in ((Rule("wbon"), 1.0), (Rule("maj"), None)):
        warnings = InputWarnings("eu", rule)
        warnings.look_at("a", responses(confidence), [])
        assert warnings.lines() == []
