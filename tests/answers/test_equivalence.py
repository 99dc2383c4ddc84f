import subprocess
import sys
import time
from contextlib import suppress
from itertools import permutations

import psutil
import pytest

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence, Outcome


@pytest.fixture(scope="module")
def equivalence():
    with Equivalence(seconds=20) as shared:
        yield shared


@pytest.fixture
def no_workers(monkeypatch):
    def refuse(self, request):
        raise AssertionError("a worker was asked")

    monkeypatch.setattr(Equivalence, "_reply", refuse)
    return Equivalence()


SAME = [
    *(("18", text) for text in ("18.0", "$18", "eighteen", r"\text{18 seconds}", "x = 18", "18 m", "18.00 meters")),
    *(("50%", text) for text in ("0.5", "50", "1/2")),
    *(("$5 million", text) for text in ("500,000,000 cents", "5,000,000", "5 million", "5M")),
    *(("1/3", text) for text in ("0.333333", r"\frac13", r"\\frac13")),
    *(("2/3", text) for text in ("0.666667", "0.666666")),
    *((r"\emptyset", text) for text in ("No solution", r"\{\}", r"\text{no real solutions}")),
    *((r"\mathbb{R}", text) for text in (r"\text{all real numbers}", r"(-\infty, \infty)", "all real values of x")),
    *(("C", text) for text in ("(c)", r"\text{(C)}")),
    *(("24", "2 dozen"), ("1 hour", "60 minutes"), ("18 m", "1800 cm"), ("52_8", "52"), ("1.22", "1{,}22")),
    *((r"0.999999\overline{9}", "1"), ("even", "Even"), ("10:30", "10:30"), ("2 m^2", "20,000 square cm")),
    (r"\left(3,\frac{\pi}{2}\right)", r"( 3 , \dfrac{\pi}{2} )"),
]
DIFFERENT = [
    *(("18", text) for text in ("18.5", "C", "eighty")),
    *(("50%", text) for text in ("0.5%", "51", "50 million")),
    *(("5", text) for text in ("5 million", "-5")),
    *(("1/3", text) for text in ("0.33333", "-0.333333", "10:30")),
    *(("5 cm", text) for text in ("5 kg", "5 m", r"5\text{ cm}^2")),
    *(("2/3", "0.666668"), ("x = 5", "y = 5"), ("52_8", "52_9"), ("2.5", "$2.5M")),
    *(("122", "1{,}22"), ("0.0000002", "0.0000001"), (r"120^\circ", r"120\text{ radians}"), ("(C)", "D")),
    *((r"\emptyset", "0"), ("2,500,000", "2.5 M")),
    *((r"\mathbb{R}", "all integers"), ("3:30 am", "3:30 pm"), ("2016", "2024-03-05"), ("even", "x^2+1")),
]


@pytest.mark.parametrize(("pairs", "outcome"), [(SAME, Outcome.CORRECT), (DIFFERENT, Outcome.INCORRECT)])
def test_compare_decides_text_and_numbers_without_a_worker(no_workers, pairs, outcome):
    for reference, answer in pairs:
        assert no_workers.compare([(reference, answer), (answer, reference)]) == [outcome, outcome], (reference, answer)


SAME_EXPRESSIONS = [
    *((r"\sqrt{3}", r"\sqrt 3"), ("10/9", r"\frac{20}{18} \cdot 1"), ("[0,1)", "[0, 1)"), ("(1,3)", r"\{1,3\}")),
    *(("-2,1", "1, -2"), (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"), ("5 or 7", "7, 5"), ("A, C", "C, A")),
    *((r"\tan^2(y)+1", r"\sec^2(y)"), (r"\frac{x+2}{7}", r"\frac{x}{7}+\frac{2}{7}"), ("x >= 5", r"x \geq 5")),
    *(("x < 1", "-x > -1"), ("k=1", "1 + 0"), ("34x+45y-20z+100=0", "-34x-45y+20z-100=0"), ("i^2", "-1")),
    *(("-2 \\le x \\le 7", r"x \in [-2,7]"), ("(p,q)=(3,2)", "(3,2)"), ("6-5i", "6 - 5 i"), ("3+2i", "z = 2 i + 3")),
    *((r"\{i, -i\}", r"\{-i, i\}"), ("x+iy", "x + i y"), ("a+bi", "b i + a"), (r"\pm i", "i, -i"), ("i", r"\sqrt{-1}")),
    *((r"4\sqrt3\text{ cm}", r"\sqrt{48}\text{ centimeters}"), (r"\sqrt{2}", "1.414214"), ("2^{-1}", "0.5")),
    *((r"(2,\infty)", r"(\frac{4}{2},+\infty)"), (r"-\infty", r"x = -\infty"), ("127/3", "127/3 ≈ 42.33")),
    (r"\begin{pmatrix}1 & 2 \\3 & 4\end{pmatrix}", r"\left[\begin{array}{cc}1 & 2 \\ 3 & 4\end{array}\right]"),
]
DIFFERENT_EXPRESSIONS = [
    *(("[0,9)", "[0,1)"), ("(0,9)", "[0,9)"), ("(3,1)", r"\{1,3\}"), ("1, 2", r"\{1,2,3\}"), ("x+2n+1", "x+1")),
    *(("2", r"\frac{1+\sqrt{5}}{2}"), ("4", r"4\sqrt{2}"), ("x < 1", "x > -1"), ("32349", "32, 349"), ("A, C", "A, B")),
    *((r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}"), ("6-5i", "6 + 5 i"), ("i < 5", "i < 6")),
    *(("18.20", "18, 20"), ("1+1=2", "2+2=4"), (r"\sqrt{2}/10^9", "0.0000000015")),
    (r"\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix}", r"\begin{pmatrix}1 & 2 \\ 3 & 5\end{pmatrix}"),
    # values that are small or close, which math-verify itself takes for equal
    *((r"\frac{1}{60!}", r"\frac{1}{61!}"), (r"\frac{90!}{88!}", r"\frac{90!}{89!}"), (r"1+e^{-80}", "1")),
    *((r"\frac{x}{50!}", r"\frac{2x}{50!}"), (r"\{2^{-70}, 1\}", r"\{2^{-71}, 1\}"), (r"e^{-60}", "0")),
]


@pytest.mark.parametrize(("reference", "answer"), SAME_EXPRESSIONS)
def test_compare_finds_expressions_equal_both_ways(equivalence, reference, answer):
    assert equivalence.compare([(reference, answer), (answer, reference)]) == [Outcome.CORRECT] * 2


@pytest.mark.parametrize(("reference", "answer"), DIFFERENT_EXPRESSIONS)
def test_compare_finds_expressions_different_both_ways(equivalence, reference, answer):
    assert equivalence.compare([(reference, answer), (answer, reference)]) == [Outcome.INCORRECT] * 2
    assert len(set(answer_classes([reference, answer], equivalence))) == 2


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        *(
            ("9.8", "$9.8$ m/s²", True),
            ("10,080", "f(x) = 10,080", True),
            ("12", "= 12 apples", True),
            ("5", "5 x^2", False),
        ),
        *(("7", "a + b = 7", True), ("12", "AB = 12", True), ("142", "4a + 3b + 12c = 142", True)),
        *(("0", "5x - 7y + 4 = 0", False), ("2x + 3y = 12", "12", False), ("8", "2x = 8", False)),
        *(("8", "至少 8", False), ("eighteen", r"3\sqrt{36}", True), ("AT&T", "42", False)),
        *(("[3, 5]", "3, 5", True), ("[3, 5]", "3, 6", False)),
        # a letter beside a value, and names without articles
        *((r"\frac{3}{4}", r"\textbf{(B)}\ \frac{3}{4}", True), ("E", r"\mathrm{(E)}~120", True)),
        *((r"\textbf{(C)}\ 17", "(D) 17", False), ("A. Lovelace", "A. Turing", False), ("St. Louis", "st louis", True)),
        *(("the Beatles", "Beatles", True), ("Łódź", "Lodz", True), ("Apollo 11", "Apollo 13", False)),
    ],
)
def test_compare_takes_an_answer_for_a_reference(equivalence, reference, answer, equal):
    assert equivalence.compare([(reference, answer)]) == [Outcome.CORRECT if equal else Outcome.INCORRECT]


def test_compare_tells_a_reference_apart_that_nothing_can_read(equivalence):
    outcomes = equivalence.compare([(r"\frac{", "12"), (r"\frac{", r"\frac{")])
    assert outcomes == [Outcome.UNPARSABLE_REFERENCE, Outcome.CORRECT]


@pytest.mark.parametrize(
    ("answer", "seconds", "outcome"),
    [
        ("1000000000!", 2, Outcome.TIMEOUT),
        ("9**9**9**9", 20, Outcome.INCORRECT),  # seen to be different without its value
    ],
)
def test_compare_ends_hopeless_expressions_in_time_and_goes_on(answer, seconds, outcome):
    with Equivalence(seconds=seconds) as patient:
        started = time.monotonic()
        hopeless, fine = patient.compare([("x+2", answer), ("x+2", "2+x")])
        assert time.monotonic() - started < 60
    assert hopeless is outcome
    assert fine is Outcome.CORRECT


def test_compare_replaces_a_worker_that_eats_memory():
    with Equivalence(seconds=60, memory_bytes=160 << 20) as small:
        outcomes = small.compare([("5", "2^{2^{31}}"), ("x+2", "2+x")])
    assert outcomes == [Outcome.TIMEOUT, Outcome.CORRECT]


def test_compare_counts_no_memory_of_the_process_that_starts_a_worker():
    ballast = bytearray(b"x" * (400 << 20))
    with Equivalence(memory_bytes=400 << 20) as small:
        assert small.compare([("[0,9)", "[0,1)")]) == [Outcome.INCORRECT]
    del ballast


def test_workers_do_not_outlive_a_killed_parent():
    script = (
        "from tokur_cli.answers.equivalence import Equivalence\n"
        "equivalence = Equivalence(seconds=1)\n"
        "equivalence.compare([('x', 'x+1')])\n"
        "print(next(iter(equivalence._workers)).pid, flush=True)\n"
        "equivalence.compare([('x', '9^{9^{9^9}}')])\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        worker = psutil.Process(int(parent.stdout.readline()))
        time.sleep(0.3)
        parent.kill()
    deadline = time.monotonic() + 15
    with suppress(psutil.NoSuchProcess):
        while worker.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize(
    "groups",
    [
        [["1/2", "0.5", r"\frac{1}{2}", "50%", "$0.50"], ["1"]],
        [["50%", "50", "50.0"], ["51"]],
        [["0.333333", "1/3"], ["0.3333"]],
        [["1 hour", "60 minutes", "60"], ["3600"]],
        [["four", "4", "4 m"], ["5 cm"], ["5 m"]],
        [[r"\emptyset", "no solution"], ["0"], ["even", "Even"], ["B", "b", "(B)"], ["yes", "はい"]],
        [["5,000,000", "$5 million", "500,000,000 cents"], ["500,000"], ["5", "x = 5"]],
        [[r"\textbf{(C)}\ 17", "C", "17"], ["(D) 21", "21"], ["A"], ["18"]],
    ],
)
def test_answer_classes_of_numbers_and_words_need_no_worker(no_workers, groups):
    _assert_classes(groups, no_workers)


@pytest.mark.parametrize(
    "groups",
    [
        [["5", "2+3", r"\sqrt{25}", "2+3=5", "x = 10/2 = 5"], ["127/3", "127/3 ≈ 42.33"]],
        [[r"\sqrt{2}/2", r"\frac{1}{\sqrt{2}}"], [r"-\sqrt{2}/2"], [r"10^{-9}\sqrt{2}"], ["1+x", "x+1"]],
        [["2^{100}"], ["2^{100}+1"], ["1267650600228229401496703205376.5"]],
        [["x<2", "2>x"], ["x<3"], ["2i", "2 i", "(1+i)^2"], ["-1", "i^2"]],
        [[r"4\sqrt3\text{ cm}", r"4\sqrt3"], ["1", r"(\sqrt2-1)(\sqrt2+1)"]],
        [["(1,2)", "1,2", r"\{1,2\}"], ["(2,1)"], ["[1,2]"]],
        [["-2,1", "1,-2"], [r"\text{none of these, sorry}"], ["2,5", "2.5", "x = 2,5"], ["7,5", "5,7"]],
    ],
)
def test_answer_classes_of_expressions_go_by_equivalence(equivalence, groups):
    _assert_classes(groups, equivalence)


def _assert_classes(groups, equivalence):
    answers = [None, *(answer for group in groups for answer in group)]
    expected = {frozenset(group) for group in groups}
    orders = list(permutations(answers)) if len(answers) < 8 else [answers, answers[::-1], sorted(answers, key=str)]
    for order in orders[:: 1 + len(orders) // 12]:
        found = answer_classes(order, equivalence)
        by_class = {}
        for answer, name in zip(order, found, strict=True):
            by_class.setdefault(name, set()).add(answer)
        assert by_class.pop(None) == {None}
        assert {frozenset(group) for group in by_class.values()} == expected
        assert all(name in group for name, group in by_class.items())
