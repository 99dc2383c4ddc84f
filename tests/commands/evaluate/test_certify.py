"""``tokur evaluate --certify`` and ``tokur select --certificate``, from the records to the answers withheld."""

import json

import numpy as np
import pytest
from scipy.stats import beta

from tests.commands.evaluate.rows import RUN
from tests.helpers import parsed, write_lines

GENERATION = {"model": "m", "temperature": 0.0, "seed": 0, "version": "0.1.0"}


def labelled(count=300, seed=0, samples=1):
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
                "tokur": {
                    "schema": 1,
                    "sample": sample,
                    "scores": {"eu": doubt, "eu_mean": doubt / 10},
                    "run": RUN,
                    "generation": GENERATION,
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


def test_certify_the_certificate_says_what_it_promises_and_what_it_is_of(certify):
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


def test_certify_answers_below_the_threshold_are_withheld(certify, select):
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


def test_certify_ties_at_the_threshold_are_given_by_the_questions_ids(certify, select):
    """A constant score puts no response above another: a fraction of them is answered."""

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


def test_certify_what_select_chooses_of_many_is_certified_and_withheld_alike(run_tokur, tmp_path, certify, select):
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
    assert "not with the 4 responses that the certificate's have: 300 questions;" in err
