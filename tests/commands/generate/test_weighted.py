"""``generate --stop-at --score --calibration``: votes weighted by scores made on the way, and Bayes' rule by hand."""

import json

import numpy as np
import pytest

from tests.commands.generate.test_generate import SAMPLED, questions
from tests.commands.generate.test_settling import SAMPLES, Answering, answers_of_a_tiny_model, opinionated, poll
from tests.commands.score.test_score import parsed, write_lines
from tests.commands.test_process import finish
from tokur_cli.commands.generate.settling import UntilSettled
from tokur_cli.records.record import Record

__all__ = ["opinionated"]
LEVEL = 0.8


def leads_surely(answers, probabilities):
    """How probably the likeliest answer is the right one: all that were given, and one that was not."""
    given = list(dict.fromkeys(answer for answer in answers if answer is not None))
    likelihood = {}
    for candidate in (*given, "another"):
        likelihood[candidate] = 1.0
        for answer, p in zip(answers, probabilities, strict=True):
            if answer is not None:
                likelihood[candidate] *= p if answer == candidate else (1 - p) / max(1, len(given))
    return max((likelihood[answer] for answer in given), default=0.0) / sum(likelihood.values())


def drawn_by_hand(records):
    """How many of a question's records are drawn."""
    answers = [answers_of_a_tiny_model(None, Record.of(record, None, None)) for record in records]
    answers = [answer and answer.text for answer in answers]
    probabilities = [record["tokur"]["scores"]["p_correct"] for record in records]
    for count in range(4, len(records)):
        if leads_surely(answers[:count], probabilities[:count]) >= LEVEL:
            return count
    return len(records)


@pytest.fixture
def command(tiny_folder, tmp_path):
    asked = write_lines(tmp_path / "asked.jsonl", questions(9))
    return ["generate", asked, "-m", tiny_folder, "-n", SAMPLES, *SAMPLED, "--dtype", "float32", "--score"]


@pytest.fixture
def weighted(run_tokur, command, tmp_path):
    """A full run with what weighs its votes, and the command that ends them."""
    scored = parsed(run_tokur(*command, "--scores", "ll")[1])
    values = np.array([record["tokur"]["scores"]["ll"] for record in scored])
    run, weight = scored[0]["tokur"]["run"], float(1 / values.std())
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps({
        "method": "platt", "scores": ["ll"], "weights": [weight], "intercept": float(-weight * values.mean()),
        "points": None, "settings": {name: run[name] for name in ("model", "revision", "dtype")},
        "records": 99, "questions": 99, "labels": {"correct": 99}, "cross_validation": {}, "version": "0", "schema": 1,
    }))  # fmt: skip
    command = [*command, "--scores", "ll", "--calibration", file]
    return parsed(run_tokur(*command)[1]), [*command, "--stop-at", LEVEL]


def without_scores(record):
    return {**record, "tokur": {**record["tokur"], "scores": None, "tokens": None}}


def test_what_is_written_is_the_part_of_a_full_run_that_bayes_rule_says(run_tokur, weighted, tmp_path, opinionated):
    whole, command = weighted
    expected = []
    for first in range(0, len(whole), SAMPLES):
        expected += whole[first : first + drawn_by_hand(whole[first : first + SAMPLES])]
    assert len(expected) < len(whole)
    outputs = []
    for rows in (1, 5, 64):
        outputs.append(tmp_path / f"by{rows}.jsonl")
        code, _, err = run_tokur(*command, "--set", f"batch_size={rows}", "-o", outputs[-1])
        assert code == 0, err
        assert outputs[-1].read_bytes() == outputs[0].read_bytes()
    written = parsed(outputs[0].read_text())
    assert list(map(without_scores, written)) == list(map(without_scores, expected))
    for name in ("ll", "p_correct"):
        numbers = [[record["tokur"]["scores"][name] for record in of] for of in (written, expected)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-4)
    drawn = int(err.partition("drew ")[2].partition(" samples")[0])
    assert len(written) <= drawn < 1.2 * len(written)


def test_a_run_that_was_cut_off_decides_the_same_to_the_last_byte(run_tokur, weighted, tmp_path, opinionated):
    _, command = weighted
    output = tmp_path / "part.jsonl"
    assert run_tokur(*command, "-o", output)[0] == 0
    expected = output.read_bytes()
    lines = expected.splitlines(keepends=True)
    for kept in (0, 1, 3, 4, 5, 17, len(lines) - 1, len(lines)):
        output.write_bytes(b"".join(lines[:kept]) + (b'{"id": "q' if kept < len(lines) else b""))
        code, _, err = run_tokur(*command, "-o", output, "--resume")
        assert code == 0, err
        assert output.read_bytes() == expected


@pytest.mark.slow
def test_workers_decide_what_one_process_does(weighted, tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for output, workers in ((one, 1), (two, 2)):
        code, _, err = finish([*weighted[1], "-o", output, "--workers", workers])
        assert code == 0, err
    assert two.read_bytes() == one.read_bytes()


def test_samples_that_are_compared_with_each_other_cannot_be_scored_before_all_are_there(run_tokur, weighted):
    code, out, err = run_tokur(*weighted[1], "--over", "samples")
    assert (code, out) == (2, "")
    assert "--over samples compares all samples of a question" in err


class Certain:
    """Weighs every response the same, and notes which stood in a round together."""

    def __init__(self, probability):
        self.probability, self.rounds = probability, []

    def scored(self, poll, responses):
        self.rounds.append([response.sample for response in responses])
        scores = {"scores": {"p_correct": self.probability}}
        records = [Record.of({"response": one.text, "tokur": scores}, None, None) for one in responses]
        return records, dict(enumerate(responses))


@pytest.mark.parametrize(
    ("probability", "rounds"),
    [
        (0.9, [range(4)]),  # 0.9 of 4 that agree
        (0.3, [range(4), range(4, 8), range(8, 12)]),  # of one answer, each leaves it less likely: no more than doubled
        (0.6, [range(4), range(4, 6)]),  # 1.5^4 to 1 is 0.83, 1.5^5 0.88, 1.5^6 0.92
        (None, [range(4), range(4, 8), range(8, 12)]),  # counts for nothing
    ],
)
def test_a_round_is_as_long_as_it_takes_if_all_agree(probability, rounds):
    weights = Certain(probability)
    decoder = Answering([["The answer is 7."] * SAMPLES])
    (polled,) = UntilSettled(decoder, 0.9, weights).serve([poll(0)])
    assert weights.rounds == [[], *map(list, rounds)]
    assert len(polled.outcomes) == len(polled.lengths) == rounds[-1][-1] + 1
    assert polled.settled == (rounds[-1][-1] + 1 < SAMPLES)


def test_a_surer_response_settles_a_vote_within_its_round():
    weights = Certain(0.6)
    decoder = Answering([["The answer is 7."] * SAMPLES])
    serving = UntilSettled(decoder, 0.99, weights).serve([poll(0)])
    of_round = weights.scored

    def surer_later(poll, responses):
        weights.probability = 0.6 if len(weights.rounds) < 2 else 0.999
        return of_round(poll, responses)

    weights.scored = surer_later
    (polled,) = serving
    assert [response.sample for response in polled.outcomes] == list(range(5))
    assert len(polled.lengths) == 8
    assert polled.settled
