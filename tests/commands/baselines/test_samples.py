"""Scores over the samples of a question."""

import math
import random

import pytest

from tests.helpers import jaccard, parsed, sample_lines, write_lines
from tokur_cli.scores.catalogue import CATALOGUE
from tokur_cli.scores.sets import degree, eccentricity, sentence_sar

SCORES = "ll,ll_sum,inside,sar,u_ecc,u_deg"
OPTIONS = ["--over", "samples", "--dtype", "float32", "--similarity", "jaccard"]


def rows(counts, seed=0):
    """Questions with as many samples as told."""
    rng = random.Random(seed)
    for number, count in enumerate(counts):
        for sample in range(count):
            words = " ".join(rng.choice(["so", "it", "is", "then"]) for _ in range(rng.randint(1, 4)))
            yield {"id": f"q{number}", "question": f"How many of {number}?", "response": f"{words} {rng.choice('34')}",
                   "tokur": {"sample": sample}}  # fmt: skip


@pytest.fixture
def score(run_tokur, tiny_folder):
    def run(path, *options):
        return run_tokur("score", path, "-m", tiny_folder, "--scores", SCORES, *OPTIONS, *options)

    return run


def test_over_samples_the_scores_are_those_of_the_formulas_over_a_questions_samples(score, tmp_path):
    counts = (4, 1, 5, 2)
    code, out, err = score(write_lines(tmp_path / "in.jsonl", rows(counts)))
    assert (code, err) == (0, "")
    scored = parsed(out)
    start = 0
    for count in counts:
        samples = scored[start : start + count]
        start += count
        for place, sample in enumerate(samples):
            scores = sample["tokur"]["scores"]
            if count == 1:
                assert {scores[name] for name in SCORES.split(",")[2:]} == {None}
                continue
            expected = by_formula(samples, place)
            assert {name: scores[name] for name in expected} == pytest.approx(expected, rel=1e-5)
        assert len({sample["tokur"]["scores"]["inside"] for sample in samples}) == 1
    run = scored[0]["tokur"]["run"]
    assert run["over"] == "samples"
    assert "attempts" not in run


def by_formula(samples, place):
    texts = [sample["response"] for sample in samples]
    alike = [[jaccard(one, other) for other in texts] for one in texts]
    return {
        "sar": sentence_sar([sample["tokur"]["scores"]["ll_sum"] for sample in samples], alike),
        "u_ecc": -eccentricity(alike)[1][place],
        "u_deg": 1 - degree(alike)[1][place],
    }


@pytest.mark.parametrize("bad", [{"id": "q1", "question": "How many?"}, b"{\n"])
def test_over_samples_before_a_bad_record_no_question_is_written_with_a_part_of_its_samples(score, tmp_path, bad):
    given = list(rows((2, 4, 2)))
    path = write_lines(tmp_path / "in.jsonl", [*given[:4], bad, *given[4:]])
    code, out, err = score(path)
    assert code == 1
    assert "in.jsonl:5:" in err
    assert [row["id"] for row in parsed(out)] == ["q0", "q0"]
    code, out, _ = score(path, "--skip-invalid")
    assert code == 3
    assert [row["id"] for row in parsed(out)] == [row["id"] for row in given]
    mended = write_lines(tmp_path / "mended.jsonl", given)
    _, whole, _ = score(mended)
    assert out == whole


@pytest.mark.slow
@pytest.mark.real_model
def test_over_samples_the_real_model_has_every_score(run_tokur, all_threads, tmp_path):
    """With real embeddings and the language model as judge; verdicts of its attempts are words that it said."""
    path = write_lines(tmp_path / "in.jsonl", sample_lines("responses.jsonl", 1))
    options = ["--entailment", "judge", "--attempts", 3, "--set", "attempt_tokens=8"]
    code, out, err = run_tokur("score", path, "--scores", "all", *options)
    assert (code, err) == (0, "")
    (scored,) = parsed(out)
    scores = scored["tokur"]["scores"]
    assert list(scores) == [name for name in CATALOGUE if name != "p_correct"]  # which takes a calibration
    assert all(math.isfinite(value) for value in scores.values())
    assert 0 < scores["p_true"] < 1
