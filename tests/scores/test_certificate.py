"""A certificate applied: which answers it gives, and what it compares of responses."""

import hashlib

import numpy as np

from tokur_cli.scores.certificate import Certificate, read_certificate, settings_for, tie_break_of

RUN = {"model": "m", "revision": None, "dtype": "float32", "calibration": "c", "computed_from": "logprobs", "seed": 3}


def certificate(score="eu", threshold=0.5, tie_break=0.5, settings=None):
    return Certificate(
        0.1, 0.95, score, threshold, tie_break, {"value": 0.5, "low": 0.4, "high": 0.6}, 0.09, 50, 1, 100, None,
        settings or {}, {"correct": 100}, (0.1, 0.5), (0.2,), "digest",
    )  # fmt: skip


def test_certificate_answers_what_is_better_than_its_threshold_and_ties_by_the_tie_break_of_the_question():
    keys = [f"question {number}" for number in range(2000)]
    assert [certificate().answers(value, "q") for value in (0.4, 0.6, None)] == [True, False, False]
    assert [certificate("ll").answers(value, "q") for value in (0.4, 0.6, None)] == [False, True, False]
    assert [certificate(threshold=None).answers(value, "q") for value in (9.0, None)] == [True, False]
    assert (certificate().rule, certificate("ll").rule) == ("eu below 0.5", "ll above 0.5")
    for key in keys[:50]:
        assert certificate().answers(0.5, key) == (tie_break_of(key) > 0.5)
        assert not certificate(tie_break=tie_break_of(key)).answers(0.5, key), "what the threshold is of"
    drawn = np.sort([tie_break_of(key) for key in keys])
    assert np.abs(drawn - np.arange(2000) / 2000).max() < 0.05  # uniform


def test_certificate_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(certificate().as_json(), encoding="utf-8")
    assert read_certificate(str(path)) == certificate()
    assert read_certificate(str(path)).digest == hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def test_certificate_settings_have_the_calibration_of_p_correct_alone_and_the_generation_where_both_know_it():
    assert not any("calibration" in settings_for(name, RUN, {}) for name in ("ll", "tu"))
    made = settings_for("p_correct", RUN, {"temperature": 1.0, "seed": 1})
    assert (made["calibration"], made["computed_from"], made["generation.temperature"]) == ("c", "logprobs", 1.0)
    assert "generation.seed" not in made
    other = settings_for("p_correct", RUN, {"temperature": 0.5})
    without = settings_for("p_correct", {**RUN, "model": "n"}, {})
    assert [*certificate(settings=made).differences(other)] == [("generation.temperature", 0.5, 1.0)]
    assert [*certificate(settings=made).differences(without)] == [("model", "n", "m")]
