"""What is odd about the input of a selection, by hand."""

from fractions import Fraction

import pytest

from tokur_cli.selection.gathering import Candidate
from tokur_cli.selection.input_warnings import InputWarnings
from tokur_cli.selection.voting import Keep, Rule


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
