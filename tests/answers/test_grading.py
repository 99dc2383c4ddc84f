import pytest

from tokur_cli.answers.equivalence import Equivalence, Outcome
from tokur_cli.answers.extract import extract_answer, wanted_by
from tokur_cli.answers.grading import grade
from tokur_cli.answers.symbolic import OutOfLimits


def answered(response, reference):
    found = extract_answer(response, wanted=wanted_by(reference))
    return None if found is None else found.text, reference


def test_outcomes_stay_apart():
    items = [
        (r"\boxed{18}", "18"),
        (r"\boxed{19}", "18"),
        ("I cannot tell.", "18"),
        (r"\boxed{18}", None),
        (r"\boxed{18}", r"\frac{"),
        ("I pick option B.", "(B)"),
    ]
    with Equivalence() as equivalence:
        outcomes = list(grade((answered(*item) for item in items), equivalence))
    correct, incorrect, none, unparsable = (
        Outcome.CORRECT,
        Outcome.INCORRECT,
        Outcome.NO_ANSWER,
        Outcome.UNPARSABLE_REFERENCE,
    )
    assert outcomes == [correct, incorrect, none, unparsable, unparsable, correct]
    assert [outcome.correct for outcome in outcomes] == [True, False, False, None, None, True]


class TiredWorkers:
    """Workers that give up on everything."""

    def __init__(self, limit):
        self.limit = limit

    def map(self, requests):
        return [OutOfLimits(self.limit) for _ in requests]

    def close(self):
        pass


@pytest.mark.parametrize("limit", ["time", "memory"])
def test_a_comparison_that_ends_without_a_verdict_counts_neither_as_right_nor_as_wrong(limit):
    with Equivalence(TiredWorkers(limit)) as equivalence:
        hopeless, fine = grade([("x(x+3)", "x^2 + 3x"), ("18", "18")], equivalence)
    assert (hopeless, hopeless.correct) == (Outcome.TIMEOUT, None)
    assert fine.correct is True


def test_grading_streams_and_keeps_the_order():
    taken = []

    def endless():
        for number in range(10**9):
            taken.append(number)
            yield str(number), number - number % 2

    with Equivalence() as equivalence:
        grades = grade(endless(), equivalence)
        first = [next(grades).correct for _ in range(6)]
    assert first == [True, False, True, False, True, False]
    assert len(taken) < 5000
