"""``score --certificate``: which responses it marks as withheld, beside what ``select --certificate`` decides."""

import json

import pytest

from tests.commands.score.test_score import parsed, records, write_lines
from tests.commands.test_start import run as run_without_torch
from tokur_cli.scores.certificate import lot_of


@pytest.fixture
def responses():
    """Responses that hold an answer, so that ``select`` withholds none for want of one."""
    return [
        {**one, "question": one["id"] + one["question"], "response": one["response"] + "\n7"} for one in records(60)
    ]


@pytest.fixture
def new():
    rows = list(records(40, seed=7))
    return [
        {**one, "id": f"n{one['id']}", "question": "New? " + one["question"], "response": one["response"] + "\n7"}
        for one in rows
    ]


@pytest.fixture
def certify(run_tokur, tiny_folder, responses, tmp_path):
    """Score the labelled responses and certify them; returns the certificate's file."""

    def run(*score, by="eu", risk="35%", change=lambda scored: scored):
        _, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", responses), "-m", tiny_folder, *score)
        scored = parsed(out)
        for number, one in enumerate(sorted(scored, key=lambda one: one["tokur"]["scores"]["eu"])):
            one["correct"] = (number < 36) != (number % 12 == 0)
        labelled = write_lines(tmp_path / "labelled.jsonl", change(scored))
        file = tmp_path / "certificate.json"
        code, _, err = run_tokur("evaluate", labelled, "--certify", risk, "--by", by, "-o", file)
        assert code == 0, err
        return file

    return run


@pytest.fixture
def score(run_tokur, tiny_folder, tmp_path):
    def run(rows, *options):
        code, out, err = run_tokur("score", write_lines(tmp_path / "new.jsonl", rows), "-m", tiny_folder, *options)
        return code, parsed(out), err

    return run


def without(record, *names):
    return {**record, "tokur": {name: value for name, value in record["tokur"].items() if name not in names}}


def test_it_withholds_what_select_withholds_and_changes_nothing_else(run_tokur, tmp_path, certify, score, new):
    file = certify()
    threshold = json.loads(file.read_text())["threshold"]
    code, marked, err = score(new, "--certificate", file)
    assert code == 0, err
    plain = score(new)[1]
    assert [without(one, "withheld", "certificate") for one in marked] == plain
    withheld = [one["tokur"]["withheld"] for one in marked]
    assert withheld == [one["tokur"]["scores"]["eu"] >= threshold for one in plain]
    assert 0 < sum(withheld) < len(withheld)
    scored = write_lines(tmp_path / "plain.jsonl", plain)
    code, out, err = run_tokur("select", scored, "--certificate", file, "--records")
    assert code == 0, err
    assert withheld == [not one["tokur"]["select"]["chosen"] for one in parsed(out)]


def test_ties_at_the_threshold_go_by_the_lot_of_select(run_tokur, tmp_path, certify, score, new):
    """All have one score, and a part of them is certified: those right ones that have the largest lots."""

    def tied(scored):
        for one in scored:
            one["tokur"]["scores"]["neg_length"] = -2.0
            one["correct"] = lot_of(f"id {one['id']}") > 0.4
        return scored

    file = certify(by="neg_length", change=tied)
    assert json.loads(file.read_text())["threshold"] == -2.0
    rows = [{**one, "response": "77"} for one in new]
    code, marked, err = score(rows, "--certificate", file)
    assert code == 0, err
    assert {one["tokur"]["scores"]["neg_length"] for one in marked} == {-2.0}
    plain = write_lines(tmp_path / "plain.jsonl", [without(one, "withheld", "certificate") for one in marked])
    chosen = parsed(run_tokur("select", plain, "--certificate", file, "--records")[1])
    withheld = [one["tokur"]["withheld"] for one in marked]
    assert withheld == [not one["tokur"]["select"]["chosen"] for one in chosen]
    assert 0 < sum(withheld) < len(withheld)


def test_what_speaks_against_the_assumption_is_said_as_by_select(run_tokur, tmp_path, certify, score, responses):
    file = certify()
    code, marked, err = score(responses, "--certificate", file)
    assert code == 0
    assert "tokur score: 60 of the 60 questions are among those that the certificate was made of" in err
    longer = [
        {**one, "id": f"l{one['id']}", "question": one["id"], "response": 9 * one["response"]} for one in responses
    ]
    _, marked, err = score(longer, "--certificate", file)
    assert "tokur score: eu is distributed otherwise than among the labelled responses (Kolmogorov–Smirnov 0." in err
    by_select = run_tokur("select", write_lines(tmp_path / "m.jsonl", marked), "--certificate", file)[2]
    assert err.replace("tokur score", "tokur select").strip() in by_select


def test_several_responses_to_a_question_are_told(certify, score, new):
    code, marked, err = score([*new, {**new[0], "response": "7"}], "--certificate", certify())
    assert code == 0
    assert "1 question has several responses, each marked by itself" in err
    assert all(type(one["tokur"]["withheld"]) is bool for one in marked)


@pytest.mark.parametrize(("by", "options"), [("p_true", []), ("eu@digits", ["--tokens", "digits=\\d"])])
def test_any_score_may_be_gone_by(run_tokur, tmp_path, certify, score, new, by, options):
    scores = ["--scores", f"default,{by}", *options]
    file = certify(*scores, by=by, risk="45%")
    code, marked, err = score(new, *scores, "--certificate", file)
    assert code == 0, err
    plain = write_lines(tmp_path / "plain.jsonl", [without(one, "withheld", "certificate") for one in marked])
    chosen = parsed(run_tokur("select", plain, "--certificate", file, "--records")[1])
    withheld = [one["tokur"]["withheld"] for one in marked]
    assert withheld == [not one["tokur"]["select"]["chosen"] for one in chosen]
    assert 0 < sum(withheld) < len(withheld)


def test_a_probability_is_gone_by_too(run_tokur, tiny_folder, tmp_path, certify, score, new):
    certify()
    fit = tmp_path / "fit.json"
    code, _, err = run_tokur("evaluate", tmp_path / "labelled.jsonl", "--fit", fit, "--bootstrap", 0)
    assert code == 0, err
    file = certify("--calibration", fit, by="p_correct")
    code, marked, err = score(new, "--calibration", fit, "--certificate", file)
    assert code == 0, err
    certificate = json.loads(file.read_text())
    if certificate["threshold"] is not None:
        above = [one["tokur"]["scores"]["p_correct"] > certificate["threshold"] for one in marked]
        assert above == [not one["tokur"]["withheld"] for one in marked]
    code, out, err = score(new, "--certificate", file)
    assert (code, out) == (2, [])
    assert "goes by p_correct, which is not computed here: add --calibration FILE" in err
    fitted = json.loads(fit.read_text())
    fit.write_text(json.dumps({**fitted, "intercept": fitted["intercept"] + 1}))
    code, _, err = score(new, "--calibration", fit, "--certificate", file)
    assert (code, f"with calibration {certificate['settings']['calibration']}, this run has" in err) == (2, True)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"score": "eu_kl"}, [], "goes by eu_kl, which is not computed here: add --scores default,eu_kl"),
        (
            {"score": "eu@digits", "settings": {"@digits": "\\d"}},
            [],
            "which is not computed here: add --scores default,eu@digits --tokens 'digits=\\d'",
        ),
        ({}, ["--scores", "ll"], "goes by eu, which is not computed here: add --scores default,eu"),
        (
            {
                "selection": {
                    "by": "eu", "keep": 1, "keep_at_least": None, "method": "maj", "weight": None, "samples": 4,
                }
            },
            [],
            "were chosen among several: leave it out here, and pipe into tokur select --certificate",
        ),
        ({}, ["--draws", "5"], "were made with draws 2, this run has 5"),
        ({}, ["--sigma", "0.02"], "this run has 0.02"),
        ({"threshold": "high"}, [], '"threshold" is "high", not a finite number, or null'),
        ({}, ["--from-logprobs"], "--certificate is for scoring with a model"),
    ],
)  # fmt: skip
def test_what_cannot_be_gone_by_is_refused_before_a_model_is_loaded(certify, new, tmp_path, change, options, message):
    file = certify()
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    path = write_lines(tmp_path / "new.jsonl", new)
    code, out, err, _ = run_without_torch(["score", path, "--certificate", file, *options])
    assert (code, out) == (1 if "threshold" in change else 2, b"")
    assert message in err


def test_another_model_is_refused_before_anything_is_scored(certify, score, new):
    file = certify()
    certificate = json.loads(file.read_text())
    certificate["settings"]["model"] = "another/model"
    file.write_text(json.dumps(certificate))
    code, out, err = score(new, "--certificate", file, "--skip-invalid")
    assert (code, out) == (2, [])
    assert "is of responses that were made with model another/model, this run has" in err


def test_a_response_that_was_made_otherwise_is_a_bad_record(certify, score, responses, new):
    def generated(rows, temperature):
        return [{**one, "tokur": {"schema": 1, "generation": {"temperature": temperature}}} for one in rows]

    responses[:] = generated(responses, 0.0)
    file = certify()
    rows = [*generated(new[:3], 0.0), *generated(new[3:4], 0.8), *generated(new[4:8], 0.0), *new[8:10]]
    code, marked, err = score(rows, "--certificate", file)
    assert (code, len(marked)) == (1, 3)
    assert "new.jsonl:4: was made with generation.temperature 0.8, the responses of --certificate" in err
    code, marked, _ = score(rows, "--certificate", file, "--skip-invalid")
    assert (code, len(marked)) == (3, 9)


def test_a_run_is_continued_with_the_same_certificate_alone(run_tokur, tiny_folder, tmp_path, certify, new):
    file, out = certify(), tmp_path / "out.jsonl"
    command = ["score", write_lines(tmp_path / "new.jsonl", new), "-m", tiny_folder, "-o", out]
    assert run_tokur(*command, "--certificate", file)[0] == 0
    whole = out.read_bytes()
    out.write_bytes(whole[: len(whole) // 2])
    code, _, err = run_tokur(*command, "--resume")
    assert (code, 'was written with certificate "' in err) == (1, True)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**json.loads(file.read_text()), "lot": 0.5}))
    assert run_tokur(*command, "--certificate", other, "--resume")[0] == 1
    code, _, err = run_tokur(*command, "--certificate", file, "--resume")
    assert (code, out.read_bytes()) == (0, whole), err


def test_scoring_again_and_selecting_forget_the_mark(run_tokur, tiny_folder, tmp_path, certify, score, new):
    marked = score(new, "--certificate", certify())[1]
    for one in score(marked)[1], parsed(run_tokur("select", write_lines(tmp_path / "m.jsonl", marked))[1]):
        assert not {"withheld", "certificate"} & set().union(*(record["tokur"] for record in one))


def test_answers_are_marked_as_they_are_generated(run_tokur, tiny_folder, tmp_path, certify, responses):
    questions = write_lines(tmp_path / "q.jsonl", [{"id": f"g{n}", "question": f"What is {n}?"} for n in range(6)])
    generate = ["generate", questions, "-m", tiny_folder, "--max-new-tokens", 8]
    file = certify()
    code, out, err = run_tokur(*generate, "--score", "--certificate", file)
    assert code == 0, err
    threshold = json.loads(file.read_text())["threshold"]
    for one in parsed(out):
        assert one["tokur"]["withheld"] == (one["tokur"]["scores"]["eu"] >= threshold)
    code, _, err = run_tokur(*generate, "--score", "--certificate", file, "-n", 4, "--temperature", 1)
    assert (code, "is of one response to a question: leave -n out" in err) == (2, True)
    code, _, err = run_tokur(*generate, "--certificate", file)
    assert (code, "--certificate says how responses are scored: give --score too" in err) == (2, True)
