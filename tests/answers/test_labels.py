import pytest

from tokur_cli.answers.equivalence import Outcome
from tokur_cli.answers.grading import Label, LabelRule, label_of
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record


@pytest.mark.parametrize(
    ("record", "field", "label"),
    [
        ({"correct": True, "quality": 0.5}, None, Label(1.0, "correct")),
        ({"correct": False}, None, Label(0.0, "correct")),
        ({"correct": None}, None, Label(None, "correct")),
        ({"quality": 0.25}, None, Label(0.25, "quality")),
        ({"quality": 1}, None, Label(1.0, "quality")),
        ({"response": "A: 5", "reference": "5"}, None, None),
        ({"exact_match": 1.0, "correct": False}, "exact_match", Label(1.0, "exact_match")),
        ({"scores": {"f1": 0.4}}, "scores.f1", Label(0.4, "scores.f1")),
        ({"scores.f1": 0.6, "scores": {"f1": 0.4}}, "scores.f1", Label(0.6, "scores.f1")),
    ],
)
def test_a_label_that_the_record_brings_wins(record, field, label):
    assert label_of(record, field) == label


@pytest.mark.parametrize(
    ("record", "field", "message"),
    [
        ({"correct": 1}, None, '"correct" must be true or false, not 1'),
        ({"correct": "yes"}, None, "--label-field"),
        ({"quality": 1.5}, None, "from 0 to 1, not 1.5"),
        ({"quality": float("nan")}, None, "from 0 to 1"),
        ({"quality": 10**400}, None, "from 0 to 1"),
        ({"quality": "x" * 99}, None, r"\.\.\."),
        ({}, "judge.score", '"judge.score" is missing'),
        ({"judge": 3}, "judge.score", "is missing"),
        ({"judge": [1]}, "judge", "from 0 to 1"),
    ],
)
def test_what_is_no_label_is_an_error_that_names_the_field(record, field, message):
    with pytest.raises(RecordError, match=message):
        label_of(record, field)


@pytest.mark.parametrize("reference", ["proof", "notfound"])
def test_label_rule_has_no_label_for_a_reference_that_is_none(reference):
    record = Record.of({"response": "Clear, so the claim holds.", "reference": reference}, None, None)
    assert LabelRule().label(record).outcome == Outcome.PLACEHOLDER
    assert LabelRule().label(record).awaits is None
