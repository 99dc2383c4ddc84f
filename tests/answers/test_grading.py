import pytest

from tokur_cli.answers.equivalence import Equivalence, Outcome
from tokur_cli.answers.extract import extract_answer, wanted_by
from tokur_cli.answers.grading import LabelRule, grade, label_of
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record


def answered(response, reference):
    found = extract_answer(response, wanted=wanted_by(reference))
    return None if found is None else found.text, [reference] if reference else []


def test_grade_keeps_outcomes_apart():
    items = {
        (r"\boxed{18}", "18"): Outcome.CORRECT,
        (r"\boxed{19}", "18"): Outcome.INCORRECT,
        ("I cannot tell.", "18"): Outcome.NO_ANSWER,
        (r"\boxed{18}", None): Outcome.UNPARSABLE_REFERENCE,
        (r"\boxed{18}", r"\frac{"): Outcome.UNPARSABLE_REFERENCE,
        ("I pick option B.", "(B)"): Outcome.CORRECT,
    }
    with Equivalence() as equivalence:
        outcomes = list(grade((answered(*item) for item in items), equivalence))
        assert list(grade([("5", ["4", "5"]), ("6", ["4"])], equivalence)) == [Outcome.CORRECT, Outcome.INCORRECT]
    assert outcomes == [*items.values()]
    assert [outcome.correct for outcome in outcomes] == [True, False, False, None, None, True]


def test_grade_counts_a_comparison_without_a_verdict_neither_way(monkeypatch):
    monkeypatch.setattr(Equivalence, "_reply", lambda self, request: None)
    hopeless, fine = grade([("x(x+3)", ["x^2 + 3x"]), ("18", ["18"])], Equivalence())
    assert (hopeless, hopeless.correct, fine.correct) == (Outcome.TIMEOUT, None, True)


@pytest.mark.parametrize(
    ("record", "field", "label"),
    [
        ({"correct": True, "quality": 0.5}, None, (1.0, "correct")),
        ({"correct": None}, None, (None, "correct")),
        ({"quality": 1, "is_correct": 0}, None, (0.0, "is_correct")),
        ({"response": "A: 5", "reference": "5"}, None, None),
        ({"exact_match": "True", "correct": False}, "exact_match", (1.0, "exact_match")),
        ({"scores.f1": 0.6, "scores": {"f1": 0.4}}, "scores.f1", (0.6, "scores.f1")),
    ],
)
def test_label_of_takes_the_label_that_the_record_brings(record, field, label):
    assert label_of(Record.parse(record, None, None), field) == label


def test_label_of_names_the_field_that_holds_none():
    with pytest.raises(RecordError, match='"correct" must be true, false or a number from 0 to 1, not 5'):
        label_of(Record.parse({"correct": 5}, None, None))
    with pytest.raises(RecordError, match=r'"judge\.score" is missing'):
        label_of(Record.parse({"judge": 3}, None, None), "judge.score")


def test_label_rule_refuses_a_pattern_that_takes_too_long(monkeypatch):
    monkeypatch.setattr("tokur_cli.answers.grading._PATTERN_SECONDS", 0.01)
    with pytest.raises(RecordError, match="simplify it"):
        LabelRule(pattern="(a|aa)+$").label(Record.parse({"response": "a" * 40 + "b"}, None, None))


def test_label_rule_knows_a_reference_that_is_none_and_one_in_words():
    none, words = (Outcome.PLACEHOLDER, None, False), (Outcome.NO_REFERENCE, "comparison")
    for reference, known in (("proof", none), ("notfound", none), ("Eve", (*words, True)), ("7", (*words, False))):
        labelled = LabelRule().label(Record.parse({"response": "So it holds now.", "reference": reference}, None, None))
        assert (labelled.outcome, labelled.awaits, labelled.is_unmarked) == known
