"""``generate --stop-at``: a part of a full run, the part that the rule in words says, however it is made."""

import json
from collections import Counter

import pytest
from scipy.stats import beta

from tests.helpers import parsed, questions, write_lines
from tokur_cli.answers.grading import LabelRule
from tokur_cli.records.record import Record

LEVEL, SAMPLES = 0.8, 12


def answers_of_a_tiny_model(self, record):
    """Few answers, some of them missing: what a random model writes has hardly any, and never the same one twice."""
    kind = sum(record.response.encode()) % 5
    return None if kind == 4 else type("Answer", (), {"text": "7" if kind < 3 else "8"})


@pytest.fixture
def opinionated(monkeypatch):
    monkeypatch.setattr(LabelRule, "answer", answers_of_a_tiny_model)


def by_hand(answers, level=LEVEL, most=SAMPLES):
    """How many samples are drawn, by the rule in words."""
    for count in range(4, most + 1):
        first, *others = [*sorted(Counter(filter(None, answers[:count])).values(), reverse=True), 0]
        if first and 1 - sum(beta.cdf(0.5, first + 1, other + 1) for other in others) >= level:
            return count
    return most


def part_of(whole, level=LEVEL):
    """The lines of a full run that are to be there."""
    by_question = {}
    for line in whole.splitlines(keepends=True):
        by_question.setdefault(json.loads(line)["id"], []).append(line)
    kept = []
    for lines in by_question.values():
        answers = [answers_of_a_tiny_model(None, Record.parse(line, None, None)) for line in lines]
        kept += lines[: by_hand([answer and answer.text for answer in answers], level)]
    return b"".join(kept)


@pytest.fixture
def command(tiny_folder, tmp_path):
    asked = write_lines(tmp_path / "asked.jsonl", questions(9))
    sampled = ["--temperature", "1.0", "--max-new-tokens", "20", "--dtype", "float32"]
    return ["generate", asked, "-m", tiny_folder, "-n", SAMPLES, *sampled]


@pytest.fixture
def whole(run_tokur, command, tmp_path):
    assert run_tokur(*command, "-o", tmp_path / "whole.jsonl")[0] == 0
    return (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("rows", [1, 64])
def test_stop_at_what_is_written_is_the_part_of_a_full_run_that_settles_the_votes(
    run_tokur, command, whole, tmp_path, opinionated, rows
):
    """And no more is drawn."""
    output = tmp_path / "part.jsonl"
    code, _, err = run_tokur(*command, "--stop-at", LEVEL, "--set", f"batch_size={rows}", "-o", output)
    assert code == 0, err
    assert output.read_bytes() == part_of(whole)
    assert len(part_of(whole)) < len(whole)
    written = Counter(record["id"] for record in parsed(output.read_text()))
    assert f"of 9 questions settled; drew {written.total()} of {9 * SAMPLES} samples" in err
