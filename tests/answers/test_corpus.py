"""Labels of real responses: what decides whether the reading of answers is right."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.answers.grading import LabelRule, grade
from tokur_cli.records.record import Record

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parent / "samples"


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def answer_of(row):
    found = LabelRule().answer(Record.parse(row, None, None))
    return None if found is None else found.text


@pytest.fixture(scope="module")
def equivalence():
    with Equivalence() as shared:
        yield shared


def labels(rows, equivalence):
    return [outcome.correct for outcome in grade(((answer_of(row), [row["reference"]]) for row in rows), equivalence)]


def test_labels_of_gsm8k_model_solutions_are_their_publisher_s(equivalence):
    rows = rows_of(TESTS / "data" / "gsm8k_model_solutions.jsonl")
    assert labels(rows, equivalence) == [row["is_correct"] for row in rows]


def test_labels_of_math500_solutions_are_correct(equivalence):
    rows = rows_of(TESTS / "data" / "math500_solutions.jsonl")
    assert all(labels(rows, equivalence))


@pytest.mark.parametrize("name", ["responses", "responses_n16"])
def test_labels_of_samples_are_those_written_down(name, equivalence):
    rows = rows_of(SAMPLES / f"{name}.jsonl")
    expected = json.loads((TESTS / "data" / "answers" / "labels_of_samples.json").read_text())[name]
    assert "".join("1" if correct else "0" for correct in labels(rows, equivalence)) == expected


def read_phrases(phrases, equivalence):
    """Return how each phrase is read: "right", "none" where it could be, or "wrong"."""
    outcomes = []
    for phrase in phrases:
        answer = answer_of(phrase)
        if answer is None or phrase["reference"] is None:
            outcomes.append("right" if answer is phrase["reference"] else "none" if answer is None else "wrong")
            continue
        pairs = [(answer, [reference]) for reference in (phrase["reference"], *phrase["wrong"])]
        same, *others = [outcome.correct for outcome in grade(pairs, equivalence)]
        outcomes.append("right" if same and not any(others) else "wrong")
    return outcomes


def test_everyday_phrases_of_many_languages_are_read(equivalence):
    phrases = rows_of(TESTS / "data" / "answers" / "everyday.jsonl")
    outcomes = read_phrases(phrases, equivalence)
    assert [p["response"] for p, outcome in zip(phrases, outcomes, strict=True) if outcome == "wrong"] == []
    assert outcomes.count("none") == 0


def report():
    """Print how hostile phrases, which nobody writes, are read: of unseen at most 16 should be wrong."""
    with Equivalence() as equivalence:
        for name in ("unseen", "phrases"):
            phrases = rows_of(TESTS / "data" / "answers" / f"{name}.jsonl")
            print(name, dict(Counter(read_phrases(phrases, equivalence))))


if __name__ == "__main__":
    report()
