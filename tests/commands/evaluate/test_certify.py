"""``tokur evaluate --certify`` and ``tokur select --certificate``, from the records to the answers withheld."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from tests.commands.evaluate.test_fit import RUN
from tests.helpers import parsed, write_lines

FORMATS = Path(__file__).parent.parent.parent / "data" / "formats"
GENERATION = {"model": "m", "temperature": 0.0, "seed": 0, "version": "0.1.0"}


def labelled(count=300, seed=0, *, by="eu", samples=1, run=RUN, generation=GENERATION, **fields):
    """Questions whose responses are wrong the more often, the larger their uncertainty."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        for sample in range(samples):
            doubt = generator.random()
            right = bool(generator.random() > 0.35 * doubt**2)
            yield {
                "id": f"s{seed}-q{number}",
                "reference": "7",
                "response": f"The answer is {7 if right else 8}.",
                **fields,
                "tokur": {
                    "schema": 1,
                    "sample": sample,
                    "scores": {by: doubt, "eu_mean": doubt / 10},
                    "run": run,
                    "generation": generation,
                },
            }


@pytest.fixture
def certify(run_tokur, tmp_path):
    """Certify records; returns (exit code, standard error, the certificate or None, its path)."""

    def run(records, *options, risk="10%"):
        path, file = write_lines(tmp_path / "labelled.jsonl", records), tmp_path / "certificate.json"
        code, out, err = run_tokur("evaluate", path, "--certify", risk, "-o", file, *options)
        assert out == ""
        return code, err, json.loads(file.read_text()) if code == 0 else None, file

    return run


@pytest.fixture
def select(run_tokur, tmp_path):
    def run(records, *options):
        code, out, err = run_tokur("select", write_lines(tmp_path / "new.jsonl", records), *options)
        return code, parsed(out), err

    return run


def test_the_certificate_says_what_it_promises_and_what_it_is_of(certify):
    records = list(labelled())
    code, err, certificate, _ = certify(records)
    assert code == 0, err
    assert (certificate["risk"], certificate["confidence"], certificate["score"]) == (0.1, 0.95, "eu")
    below = [record for record in records if record["tokur"]["scores"]["eu"] < certificate["threshold"]]
    assert len(below) == certificate["answered"] < 300
    assert certificate["errors"] == sum("8" in record["response"] for record in below)
    assert certificate["coverage"]["value"] == len(below) / 300
    low, high = beta.ppf([0.025], len(below), 301 - len(below)), beta.ppf([0.975], len(below) + 1, 300 - len(below))
    assert [certificate["coverage"][end] for end in ("low", "high")] == pytest.approx([low[0], high[0]])
    assert certificate["errors"] / certificate["answered"] < certificate["bound"] <= 0.1
    assert certificate["scores"] == sorted(record["tokur"]["scores"]["eu"] for record in records)
    assert certificate["settings"]["sigma"] == 0.1
    assert certificate["settings"]["generation.temperature"] == 0.0
    assert "seed" not in certificate["settings"]
    assert certificate["selection"] is None
    assert certificate["labels"] == {"reference": 300}
    assert "draws" in certificate["assumption"]
    said = f"eu below {certificate['threshold']:.6g}, {len(below)} of 300 questions"
    assert said in err


def test_certify_refuses_what_cannot_be_certified_and_says_how_many_labels_it_takes(certify):
    code, err, _, file = certify(list(labelled(40)), risk="5%")
    assert code == 1
    assert not file.exists()
    assert "5 % cannot be certified by eu on 40 labelled questions" in err
    assert "without any error it takes 59" in err


def test_the_first_sample_of_a_question_counts(certify):
    records = list(labelled(samples=3))
    _, err, certificate, _ = certify(records[::-1])
    assert "skipped 600 further samples: the first of each question counts" in err
    assert certificate == certify([record for record in records if record["tokur"]["sample"] == 0])[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda record: record["tokur"].update(run={**RUN, "sigma": 0.2}),
            "was made with sigma 0.2, records before it",
        ),
        (lambda record: record["tokur"]["generation"].update(temperature=1), "was made with generation.temperature 1"),
        (lambda record: record.update(quality=0.5), "has a quality of 0.5: --certify counts right and wrong answers"),
        (lambda record: record["tokur"].update(run={**RUN, "seed": 5}), "--certify takes one run"),
    ],
)
def test_records_that_do_not_go_together_are_refused(certify, change, message):
    records = json.loads(json.dumps(list(labelled())))
    change(records[-1])
    code, err, *_ = certify(records)
    assert code == 1
    assert message in err


def test_answers_below_the_threshold_are_withheld(certify, select):
    *_, certificate, file = certify(list(labelled()))
    new = list(labelled(seed=9))
    code, chosen, err = select(new, "--certificate", file)
    assert code == 0, err
    assert len(chosen) == 300
    for record in chosen:
        tokur, doubt = record["tokur"], record["tokur"]["scores"]["eu"]
        stated = record["response"].removeprefix("The answer is ").removesuffix(".")
        assert tokur["certainty"] == doubt
        if doubt < certificate["threshold"]:
            assert tokur["answer"] == stated
            assert "withheld" not in tokur
        else:
            assert (tokur["answer"], tokur["withheld"]) == (None, stated)
    given = [record for record in chosen if record["tokur"]["answer"] is not None]
    assert f"answered {len(given)} of 300 questions" in err
    assert "Kolmogorov" not in err


def test_ties_at_the_threshold_are_given_by_lot(certify, select):
    """A constant score puts no response above another: a part of them is answered, by the questions' ids alone."""

    def constant(records):
        for number, record in enumerate(records):
            record["reference"] = "7" if number % 12 else "9"
            record["response"] = "The answer is 7."
            record["tokur"]["scores"]["eu"] = 0.5
            yield record

    code, err, certificate, file = certify(list(constant(labelled(1000))), risk="10.9%")
    assert code == 0, err
    assert certificate["threshold"] == 0.5
    assert 0.05 < certificate["coverage"]["value"] < 0.95
    new = list(constant(labelled(500, seed=3)))
    code, chosen, err = select(new, "--certificate", file)
    given = {record["id"] for record in chosen if record["tokur"]["answer"]}
    assert len(given) / 500 == pytest.approx(certificate["coverage"]["value"], abs=0.1)
    again = select(new[::-1], "--certificate", file)[1]
    assert {record["id"] for record in again if record["tokur"]["answer"]} == given


def test_scores_made_with_other_settings_are_refused_by_name(certify, select):
    file = certify(list(labelled()))[3]
    others = [({**RUN, name: value}, f"{name} {value}") for name, value in (("draws", 5), ("model", "n"))]
    others += [({**RUN, "backend": "vllm"}, "backend vllm"), ({**RUN, "quantize": "4bit"}, "quantize 4bit")]
    for run, name in (*others, ({}, "model none")):
        code, _, err = select(list(labelled(3, run=run)), "--certificate", file)
        assert code == 1
        assert f"was made with {name}, the responses of --certificate" in err
    assert select(list(labelled(3, run={**RUN, "seed": 8, "version": "9"})), "--certificate", file)[0] == 0
    code, _, err = select(list(labelled(3, generation={**GENERATION, "temperature": 0.8})), "--certificate", file)
    assert (code, "generation.temperature 0.8" in err) == (1, True)
    assert select(list(labelled(3, generation=None)), "--certificate", file)[0] == 0


def test_a_probability_is_known_by_its_calibration(certify, select):
    def with_p(seed, digest):
        for record in labelled(seed=seed, run={**RUN, "calibration": digest}):
            record["tokur"]["scores"]["p_correct"] = 1 - record["tokur"]["scores"]["eu"]
            yield record

    code, err, certificate, file = certify(list(with_p(0, "aaa")), "--by", "p_correct")
    assert code == 0, err
    assert certificate["settings"]["calibration"] == "aaa"
    assert select(list(with_p(1, "aaa")), "--certificate", file)[0] == 0
    code, _, err = select(list(with_p(1, "bbb")), "--certificate", file)
    assert (code, "calibration bbb" in err) == (1, True)


def test_the_labelled_questions_themselves_are_no_new_ones(certify, select):
    """Told by their words, whatever their ids."""
    records = [{**record, "question": f"What is {number}?"} for number, record in enumerate(labelled())]
    *_, certificate, file = certify(records)
    assert len(certificate["asked"]) == 300
    renamed = [{**record, "id": f"again {record['id']}"} for record in records[:70]]
    others = [{**record, "question": f"Who is {record['id']}?"} for record in labelled(30, seed=3)]
    err = select([*renamed, *others], "--certificate", file)[2]
    assert "70 of the 100 questions are among those that the certificate was made of" in err
    assert "certificate was made of" not in select(others, "--certificate", file)[2]
    many = [{**record, "question": f"What is {number}?"} for number, record in enumerate(labelled(1200))]
    *_, certificate, file = certify(many)
    assert len(certificate["asked"]) == len(certificate["scores"]) == 1000
    err = select(many, "--certificate", file)[2]
    assert "at least 1,000 of the 1,200 questions are among those" in err


def test_what_select_chooses_of_many_is_certified_and_withheld_alike(run_tokur, tmp_path, certify, select):
    many = list(labelled(samples=4))
    code, err, _, file = certify(many)
    code, _, err = select(many, "--certificate", file)
    assert code == 1
    assert "has 4 responses, and --certificate" in err
    chosen = select(many, "--by", "eu", "--method", "wbon", "--keep", "50%,3")[1]
    code, err, certificate, file = certify(chosen)
    assert code == 0, err
    assert certificate["selection"] == {
        "by": "eu", "keep": 0.5, "keep_at_least": 3, "method": "wbon", "weight": "exp", "samples": 4,
    }  # fmt: skip
    code, given, err = select(many, "--certificate", file)
    assert code == 0, err
    assert [one["id"] for one in given] == [one["id"] for one in chosen]
    for one, before in zip(given, chosen, strict=True):
        withheld = one["tokur"]["scores"]["eu"] >= (certificate["threshold"] or 9)
        assert one["tokur"]["withheld" if withheld else "answer"] == before["tokur"]["answer"]
    code, _, err = select(many, "--certificate", file, "--by", "eu_mean")
    assert (code, "chosen with --by eu: leave --by out" in err) == (2, True)
    assert select(many, "--certificate", file, "--keep", "50%,3", "--by", "eu")[0] == 0
    err = select([record for record in many if record["tokur"]["sample"] < 2], "--certificate", file)[2]
    assert "300 questions have another number of responses than the 4" in err


def test_select_marks_all_records_that_a_certificate_of_single_responses_withholds(certify, select):
    records = list(labelled())
    *_, _, file = certify(records)
    code, given, err = select(records, "--certificate", file)
    assert code == 0, err
    expected = ["withheld" in one["tokur"] and one["tokur"]["answer"] is None for one in given]
    code, every, err = select(records, "--certificate", file, "--records")
    assert code == 0, err
    assert [one["tokur"]["withheld"] for one in every] == expected
    assert 0 < sum(expected) < len(expected)


def test_logs_of_another_program_are_certified_by_its_own_verdicts(run_tokur, tiny_folder, tmp_path):
    """Rows that lm-evaluation-harness wrote, each for many questions; 2 of 5 are right, it says."""
    rows = map(json.loads, (FORMATS / "lm_eval_filters.jsonl").read_text().splitlines())
    rows = [row for row in rows if row["filter"] == "flexible-extract"]
    many = [
        {**json.loads(json.dumps(row).replace("Question: ", f"Question {copy}: ")), "doc_id": f"{row['doc_id']}-{copy}"}
        for copy in range(20)
        for row in rows
    ]
    log, scored, file = write_lines(tmp_path / "samples.jsonl", many), tmp_path / "s.jsonl", tmp_path / "c.json"
    score = ["score", log, "-m", tiny_folder, "--dtype", "float32", "-o", scored]
    code, _, err = run_tokur(*score)
    assert code == 0, err
    code, _, err = run_tokur("evaluate", scored, "--certify", "90%", "-o", file)
    assert code == 0, err
    certificate = json.loads(file.read_text())
    assert (certificate["labels"], certificate["questions"]) == ({"correct": 100}, 100)
    code, out, err = run_tokur("select", scored, "--certificate", file)
    assert code == 0, err
    assert "100 of the 100 questions are among those" in err
    given = {record["id"] for record in parsed(out) if "withheld" not in record["tokur"]}
    wrong = sum(row["exact_match"] == 0 for row in many if row["doc_id"] in given)
    assert (len(given), wrong) == (certificate["answered"], certificate["errors"])
    assert run_tokur(*score, "--sigma", "0.05", "--force")[0] == 0
    code, _, err = run_tokur("select", scored, "--certificate", file)
    assert code == 1
    assert "was made with sigma 0.05, the responses of --certificate" in err
