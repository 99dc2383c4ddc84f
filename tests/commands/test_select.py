import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import parsed, write_lines
from tokur_cli.answers.equivalence import Equivalence

REFERENCE = "18"


def response(question, sample, answer, eu_mean):
    return {
        "id": question,
        "question": f"Question {question}?",
        "reference": REFERENCE,
        "response": "I cannot tell." if answer is None else f"So the answer is {answer}.",
        "tokur": {"schema": 1, "sample": sample, "scores": {"eu_mean": eu_mean}},
    }


def question(name, answers):
    """Responses with these answers, the first the most confident."""
    return [response(name, sample, answer, 0.1 + sample) for sample, answer in enumerate(answers)]


@pytest.fixture
def select(run_tokur, tmp_path):
    """Run ``tokur select`` on records; returns (exit code, parsed output, lines of standard error)."""

    def run(lines, *options):
        path = write_lines(tmp_path / "scored.jsonl", lines)
        code, out, err = run_tokur("select", path, *options)
        return code, parsed(out), err.replace("tokur select: ", "").splitlines()

    return run


rows = st.lists(
    st.tuples(
        st.sampled_from(["q1", "q2", "q3"]),
        st.integers(0, 6),
        st.one_of(st.none(), st.sampled_from(["1", "1.0", "2", "50%", "50", "1/2", "C"])),
        st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.5])),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda row: row[:2],
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.randoms(), st.sampled_from(["maj", "wbon", "bon"]), st.sampled_from(["10%", "60%", "100%"]))
def test_select_the_order_of_the_input_changes_nothing(select, rows, rng, method, keep):
    lines = [response(name, sample, answer, score) for name, sample, answer, score in rows]
    outcomes = []
    for _ in range(2):
        rng.shuffle(lines)
        code, selected, err = select(lines, "--method", method, "--keep", keep, "--skip-invalid")
        outcomes.append((code, sorted(selected, key=lambda one: one["id"]), [line for line in err if "Pass@" in line]))
    assert outcomes[0] == outcomes[1]


def test_select_answers_that_could_not_be_compared_are_neither_right_nor_wrong(select, monkeypatch):
    monkeypatch.setattr(Equivalence, "_reply", lambda self, request: None)
    lines = [{**line, "reference": "x^2 + 3x"} for line in question("q1", ["x(x+3)", "x(x+3)"])]
    code, selected, err = select([*lines, *question("q2", ["18"])], "--keep", "100%")
    assert code == 0
    assert [one["tokur"]["answer"] for one in selected] == ["x(x+3)", "18"]
    assert err[-1].startswith("accuracy 100.00% (1 question, 1 without labels left out)")
