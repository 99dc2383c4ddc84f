import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from itertools import permutations

import pytest

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence, Outcome
from tokur_cli.answers.symbolic import OutOfLimits, WorkerPool


@pytest.fixture(scope="module")
def equivalence():
    with Equivalence(WorkerPool(1, seconds=20)) as shared:
        yield shared


@pytest.fixture
def no_workers(monkeypatch):
    def refuse(self, requests):
        raise AssertionError("a worker was asked")

    monkeypatch.setattr(WorkerPool, "map", refuse)
    return Equivalence()


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        ("18", "18.0", True),
        ("18", "18.5", False),
        ("18", "$18", True),
        ("18", "eighteen", True),
        ("4", "four", True),
        ("4", "four apples", True),
        ("21", "twenty-one", True),
        ("120", "One hundred and twenty", True),
        ("5,000,000", "five million", True),
        ("120 minutes", "two hours", True),
        ("4", "forty", False),
        ("2", "two thirds", False),
        ("1000", "one thousand two hundred", False),
        ("1", "one two", False),
        ("18", "C", False),
        # percent: the sign means 1/100, and may be left away
        ("50%", "0.5", True),
        ("0.5", "50%", True),
        ("50%", "50", True),
        ("50", "50%", True),
        ("0.5", "50", False),
        ("50%", "0.5%", False),
        ("5%", "5 million", False),
        ("$5 million", "5 cents", False),
        ("$5 million", "500 cents", False),
        ("$5 million", "500,000,000 cents", True),
        ("5 million", "5,000,000", True),
        ("5,000,000", "$5 million", True),
        ("5", "5 million", False),
        ("2.5", "2.5 billion", False),
        ("2.5", "$2.5M", False),
        ("24", "2 dozen", True),
        ("2", "2 dozen", False),
        ("3.5 hours", "3 hours and 30 minutes", True),
        ("210 minutes", "3 hours and 30 minutes", True),
        ("127/3", "127/3 ≈ 42.33", True),
        ("42.33", "127/3 ≈ 42.33", True),
        ("42", "127/3 ≈ 42.33", False),
        ("B", "b", True),
        ("2024-03-05", "5 March 2024", True),
        ("2016", "2024-03-05", False),
        ("1/3", "10:30", False),
        ("3:30 am", "3:30 pm", False),
        # units: converted when both are known, not compared when one is not there
        ("1 hour", "60 minutes", True),
        ("5 hours", "5 minutes", False),
        ("5 cm", "5 kg", False),
        ("5 cm", "5", True),
        ("$5", "500 cents", True),
        (r"5\text{ cm}^2", "5 cm", False),
        ("x = 5", "5", True),
        ("x = 5", "y = 5", False),
        ("52_8", "52", True),
        ("52_8", "52_9", False),
        # decimals that stand for something longer
        ("1/3", "0.333333", True),
        ("2/3", "0.666667", True),
        ("2/3", "0.666666", True),
        ("2/3", "0.666668", False),
        # six decimals and six significant digits are enough, five are not
        ("1/3", "0.33333", False),
        ("4/3", "1.33333", False),
        ("4/3", "1.333333", True),
        ("0.1000003", "0.100000", True),
        ("0.0999993", "0.099999", False),
        (r"0.999999\overline{9}", "1", True),
        (r"0.999999\overline{9}", "0.9999996", False),  # it is 1 itself, not something cut off
        ("0.1234567", "0.123457", True),
        ("0.0000002", "0.0000001", False),
        ("-1/3", "-0.333333", True),
        ("-1/3", "0.333333", False),
        ("1.22", "1{,}22", True),
        ("122", "1{,}22", False),
        ("18 m", "18 cm", False),
        ("18m", "18cm", False),
        ("18 m", "18.00 meters", True),
        ("18 m", "1800 cm", True),
        ("5 g", "5 kg", False),
        ("3 s", "3 h", False),
        (r"5\text{ in.}", r"5\text{ ft}", False),
        (r"120^\circ", r"120\text{ radians}", False),
        (r"\left(120^\circ\right)", r"120^\circ", True),
        (r"\text{16 seconds}", "16", True),
        (r"4\sqrt3\text{ cm}", r"4\sqrt3\text{ m}", False),
        (r"4\sqrt3\text{ cm}^2", r"4\sqrt3\text{ cm}", False),
        (r"2\sqrt2\text{ hours}", r"2\sqrt{2} minutes", False),
        (r"\angle ABC", r"\angle CBA", True),
        (r"\angle ABC", "angle ABC", True),
        (r"\angle ABC", r"\angle ACB", False),
        (r"\emptyset", "No solution", True),
        (r"\varnothing", r"\{\}", True),
        (r"x \in \emptyset", r"\text{no real solutions}", True),
        (r"\emptyset", "0", False),
        (r"\emptyset", r"\{0\}", False),
        (r"\mathbb{R}", r"\text{all real numbers}", True),
        (r"(-\infty, \infty)", "all real numbers", True),
        (r"x \in \mathbb{R}", "all real values of x", True),
        (r"\mathbb{R}", "all integers", False),
        (r"\mathbb{R}", "R", False),
        ("even", "Even", True),
        (r"\text{odd}", "even", False),
        ("C", "(c)", True),
        ("(C)", "D", False),
        (r"\left(3,\frac{\pi}{2}\right)", r"( 3 , \dfrac{\pi}{2} )", True),
        ("12:00", "12:00", True),
        ("even", "x^2+1", False),
    ],
)
def test_text_and_numbers_are_decided_without_a_worker(no_workers, reference, answer, equal):
    expected = Outcome.CORRECT if equal else Outcome.INCORRECT
    assert no_workers.compare([(reference, answer), (answer, reference)]) == [expected, expected]


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        (r"\sqrt{3}", r"\sqrt 3", True),
        ("10/9", r"\frac{20}{18} \cdot 1", True),
        ("[0,1)", "[0, 1)", True),
        ("[0,9)", "[0,1)", False),
        ("(0,9)", "[0,9)", False),
        ("(3,1)", r"\{1,3\}", False),
        ("(1,3)", r"\{1,3\}", True),
        ("-2,1", "1, -2", True),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}", True),
        ("1, 2", r"\{1,2,3\}", False),
        (r"2 \sin b \cos a", r"2\cos a\sin b", True),
        (r"\tan^2(y)+1", r"\sec^2(y)", True),
        (r"\frac{x+2}{7}", r"\frac{x}{7}+\frac{2}{7}", True),
        ("x+2n+1", "x+1", False),
        ("2", r"\frac{1+\sqrt{5}}{2}", False),
        ("4", r"4\sqrt{2}", False),
        (r"\frac{9}{4}\pi", r"\frac94\pi", True),
        ("x >= 5", r"x \geq 5", True),
        ("x < 1", "-x > -1", True),
        ("x < 1", "x > -1", False),
        ("k=1", "1 + 0", True),
        ("34x+45y-20z+100=0", "-34x-45y+20z-100=0", True),
        ("-2 \\le x \\le 7", r"x \in [-2,7]", True),
        (r"x \in [-2,7]", "-2 \\le x \\le 7", True),
        (
            r"\begin{pmatrix}1 & 2 \\3 & 4\end{pmatrix}",
            r"\left[\begin{array}{cc}1 & 2 \\ 3 & 4\end{array}\right]",
            True,
        ),
        (r"\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix}", r"\begin{pmatrix}1 & 2 \\ 3 & 5\end{pmatrix}", False),
        ("32349", "32, 349", False),
        (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}", False),
        ("(p,q)=(3,2)", "(3,2)", True),
        ("6-5i", "-5i+6", True),
        ("6-5i", "6 - 5 i", True),
        ("6-5i", "6 + 5 i", False),
        ("9i", "9 i", True),
        ("9i", "9", False),
        ("i^2", "-1", True),
        ("(1+i)^2", "2i", True),
        (r"\{i, -i\}", r"\{-i, i\}", True),
        ("3+2i", "z = 2 i + 3", True),
        ("i < 5", "i < 6", False),
        (r"\sin 30^\circ", r"\frac{1}{2}", True),
        (r"\tan 45^\circ", "1", True),
        (r"1 - \cos(60^\circ)", "1/2", True),
        (r"\sin^2 60^\circ", "3/4", True),
        (r"\sin 30", r"\frac{1}{2}", False),
        (r"\sin 30^\circ", r"\sin 60^\circ", False),
        (r"\text{A and C}", "A, C", True),
        (r"\text{A, B, and D}", "D, B, A", True),
        (r"\text{A and C}", "A, B", False),
        ("18.20", "18,20", False),
        (r"\angle ABC + \angle ACB", r"\angle ABC + \angle BAC", False),
        (r"2\angle ABC", r"2\angle ACB", False),
        ("(1,2)", r"\{2,1\}", False),
        ("2,1", "(1,2)", False),
        (r"4\sqrt3\text{ cm}", r"4\sqrt{3}", True),
        (r"4\sqrt3\text{ cm}", r"\sqrt{48}\text{ centimeters}", True),
        ("5 or 7", "7, 5", True),
        ("1+1=2", "2+2=4", False),
    ],
)
def test_expressions_are_compared_symbolically_and_alike_both_ways(equivalence, reference, answer, equal):
    expected = Outcome.CORRECT if equal else Outcome.INCORRECT
    assert equivalence.compare([(reference, answer), (answer, reference)]) == [expected, expected]


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        ("7", "a + b = 7", True),
        ("1/3", "P(A) = 1/3", True),
        ("12", "AB = 12", True),
        ("0", "5x - 7y + 11z + 4 = 0", False),
        ("142", "4a + 3b + 12c = 142", True),
        ("6+9i", "(1+2i)6-3i=6+12i-3i=6+9 i", True),
        ("2x + 3y = 12", "12", False),
        ("8", "2x = 8", False),
        ("49", "x^2 = 49", False),
        ("9", "8 или 9", False),
        ("8", "至少 8", False),
    ],
)
def test_an_equation_answers_for_a_value_only_where_it_names_one(equivalence, reference, answer, equal):
    assert equivalence.compare([(reference, answer)]) == [Outcome.CORRECT if equal else Outcome.INCORRECT]


def test_a_reference_that_nothing_can_read_is_told_apart(equivalence):
    assert equivalence.compare([(r"\frac{", "12"), (r"\frac{", r"\frac{")]) == [
        Outcome.UNPARSABLE_REFERENCE,
        Outcome.CORRECT,
    ]


@pytest.mark.parametrize(
    ("answer", "seconds", "outcome"),
    [
        pytest.param(r"9^{9^{9^9}}", 2, Outcome.TIMEOUT, marks=pytest.mark.slow),
        ("1000000000!", 2, Outcome.TIMEOUT),
        # what looks as bad, but is seen to be different without its value
        ("9**9**9**9", 20, Outcome.INCORRECT),
        (r"2^{2^{2^{100}}}", 20, Outcome.INCORRECT),
        (r"\frac{" * 200, 20, Outcome.INCORRECT),
    ],
)
def test_hopeless_expressions_end_in_time_and_the_next_one_is_compared(answer, seconds, outcome):
    with Equivalence(WorkerPool(1, seconds=seconds)) as patient:
        started = time.monotonic()
        hopeless, fine = patient.compare([("x+2", answer), ("x+2", "2+x")])
        assert time.monotonic() - started < 20
    assert hopeless is outcome
    assert fine is Outcome.CORRECT


def test_a_worker_that_eats_memory_is_stopped_and_replaced():
    with closing(WorkerPool(1, seconds=60, memory_bytes=160 << 20)) as pool:
        hungry = {"gold": "5", "answer": "2^{2^{31}}"}
        replies = pool.map([hungry, {"gold": "x", "answer": "x"}])
    assert replies == [OutOfLimits("memory"), True]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads /proc")
def test_workers_do_not_outlive_a_killed_parent():
    script = (
        "from contextlib import closing\n"
        "from tokur_cli.answers.symbolic import WorkerPool\n"
        "with closing(WorkerPool(1, seconds=1)) as pool:\n"
        "    pool.map([{'gold': 'x', 'answer': 'y'}])\n"
        "    print(next(iter(pool._workers)).pid, flush=True)\n"
        "    pool.map([{'gold': 'x', 'answer': '9^{9^{9^9}}'}])\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "."}
    )
    child = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 15
    while _is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(child)


def _is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "groups",
    [
        [["1/2", "0.5", r"\frac{1}{2}", "50%", "$0.50"], ["1"]],
        [["50%", "50", "50.0"], ["51"]],
        [["0.333333", "1/3"], ["0.3333"]],
        [["1 hour", "60 minutes", "60"], ["3600"]],
        [["even", "Even"], ["odd"], ["C", "(C)"]],
        [["1{,}22", "1.22"], ["122"]],
        [["four", "4", "4 m"], ["5 cm"], ["5 m"]],
        [[r"\emptyset", "no solution"], ["0"], [r"\mathbb{R}", "all real numbers"]],
        [["3", "$3", "3 apples", "x = 3"], ["4"]],
        [["5,000,000", "$5 million", "500,000,000 cents"], ["500,000"], ["5"]],
        [["B", "b", "(B)"], ["C"]],
        [["yes", "Yes!", "はい"], ["no", "non"], ["7"]],
        [["127/3", "127/3 ≈ 42.33"], ["42"]],
    ],
)
def test_numbers_and_words_vote_together_without_a_worker(no_workers, groups):
    _assert_classes(groups, no_workers)


@pytest.mark.parametrize(
    "groups",
    [
        [["5", "2+3", r"\sqrt{25}", "2+3=5", "x = 10/2 = 5"], ["6"]],
        [[r"\sqrt{2}/2", r"\frac{1}{\sqrt{2}}"], ["1+x", "x+1"], ["1+y"]],
        [[r"\sqrt{2}/2"], [r"\sqrt{3}/3", r"\frac{1}{\sqrt{3}}"], [r"-\sqrt{2}/2"], [r"10^{-9}\sqrt{2}"]],
        [["2^{100}"], ["2^{100}+1"], ["1267650600228229401496703205376.5"]],
        [["x<2", "2>x"], ["x<3"]],
        [["2i", "2 i", "(1+i)^2"], ["-1", "i^2"], ["1/2", r"\sin 30^\circ"]],
        [[r"4\sqrt3\text{ cm}", r"\sqrt{48} cm"], [r"4\sqrt3\text{ m}"]],
        [[r"4\sqrt3\text{ cm}", r"4\sqrt3"], ["1", r"(\sqrt2-1)(\sqrt2+1)"]],
        [["(1,2)", "1,2", r"\{1,2\}"], ["(2,1)"], ["[1,2]"]],
        [["-2,1", "1,-2"], [r"\text{none of these, sorry}"]],
    ],
)
def test_expressions_vote_in_classes_of_mathematical_equivalence(equivalence, groups):
    _assert_classes(groups, equivalence)


def _assert_classes(groups, equivalence):
    answers = [None, *(answer for group in groups for answer in group)]
    expected = {frozenset(group) for group in groups}
    for order in list(permutations(answers))[:: 1 + len(list(permutations(answers))) // 12]:
        found = answer_classes(order, equivalence)
        assert found.labels[order.index(None)] is None
        by_class = {}
        for answer, label in zip(order, found.labels, strict=True):
            if label is not None:
                by_class.setdefault(label, set()).add(answer)
        assert {frozenset(group) for group in by_class.values()} == expected
        assert all(found.representatives[label] in group for label, group in by_class.items())
        assert list(found.representatives) == sorted(found.representatives)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\frac{1}{60!}", r"\frac{1}{61!}"),
        (r"3^{-40}", r"3^{-41}"),
        (r"\frac{90!}{88!}", r"\frac{90!}{89!}"),
        (r"\pi \cdot 10^{-30}", r"2\pi \cdot 10^{-30}"),
        (r"1+e^{-80}", "1"),
        (r"\frac{x}{50!}", r"\frac{2x}{50!}"),
        (r"\{2^{-70}, 1\}", r"\{2^{-71}, 1\}"),
        (r"e^{-60}", "0"),
    ],
)
def test_compare_tells_values_apart_that_are_small_or_close(first, second, equivalence):
    pairs = [(first, second), (second, first), (first, first), (second, second)]
    assert [outcome.value for outcome in equivalence.compare(pairs)] == ["incorrect", "incorrect", "correct", "correct"]
    assert len(set(answer_classes([first, second], equivalence).labels)) == 2


def test_compare_keeps_equal_values_and_decimals(equivalence):
    same = [
        (r"\sqrt{2}\cdot\sqrt{3}", r"\sqrt{6}"),
        (r"\frac{25!}{5!\,20!}", "53130"),
        (r"\sqrt{2}", "1.414214"),
        ("2^{-1}", "0.5"),
    ]
    assert [outcome.value for outcome in equivalence.compare(same)] == ["correct"] * len(same)


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        (r"\frac{3}{4}", r"\textbf{(B)}\ \frac{3}{4}", True),
        (r"\mathrm{(E)}\ 120", "120", True),
        ("E", r"\mathrm{(E)}~120", True),
        (r"\textbf{(C)}\ 17", "(D) 17", False),
        ("18", r"\textbf{(C)}\ 17", False),
        (r"6\sqrt{2}", r"\text{(A) }\sqrt{72}", True),
        ("B", "b. 4", True),
        ("A. Lovelace", "A. Turing", False),
        ("the Beatles", "Beatles", True),
        ("St. Louis", "st louis", True),
        ("Sao Paulo", "São Paulo", True),
        ("Apollo 11", "The Apollo 11", True),
        ("Łódź", "Lodz", True),
        ("Apollo 11", "Apollo 13", False),
    ],
)
def test_compare_reads_letters_beside_values_and_names_without_articles(reference, answer, equal, equivalence):
    assert [outcome.value == "correct" for outcome in equivalence.compare([(reference, answer)])] == [equal]


def test_answer_classes_hold_a_letter_and_its_value_together(equivalence):
    labels = answer_classes([r"\textbf{(C)}\ 17", "C", "17", "(D) 21", "21", "A", "18"], equivalence).labels
    assert labels[0] == labels[1] == labels[2]
    assert labels[3] == labels[4]
    assert len(set(labels)) == 4
