import json
from pathlib import Path

from tokur_cli.answers.grading import Grader, Outcome

DATA = Path(__file__).parents[1] / "data" / "gsm8k_model_solutions.jsonl"


def test_gsm8k_model_solutions_are_graded_as_their_publisher_did():
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    with Grader() as grader:
        grades = list(grader.grade((row["response"], row["reference"]) for row in rows))
    assert [grade.correct for grade in grades] == [row["is_correct"] for row in rows]


def test_outcomes_stay_apart_and_are_counted():
    items = [
        (r"\boxed{18}", "18"),
        (r"\boxed{19}", "18"),
        ("I cannot tell.", "18"),
        (r"\boxed{18}", None),
        (r"\boxed{18}", r"\frac{"),
        ("I pick option B.", "(B)"),
    ]
    with Grader() as grader:
        grades = list(grader.grade(items))
    correct, incorrect, none, unparsable = (
        Outcome.CORRECT,
        Outcome.INCORRECT,
        Outcome.NO_ANSWER,
        Outcome.UNPARSABLE_REFERENCE,
    )
    assert [grade.outcome for grade in grades] == [correct, incorrect, none, unparsable, unparsable, correct]
    assert [grade.correct for grade in grades] == [True, False, False, None, None, True]
    assert grader.counts == {correct: 2, incorrect: 1, none: 1, unparsable: 2}


def test_grading_streams_and_keeps_the_order():
    taken = []

    def endless():
        for number in range(10**9):
            taken.append(number)
            yield f"The answer is {number}.", number - number % 2

    with Grader() as grader:
        grades = grader.grade(endless())
        first = [next(grades).correct for _ in range(6)]
    assert first == [True, False, True, False, True, False]
    assert len(taken) < 5000
