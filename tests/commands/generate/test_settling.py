"""``generate --stop-at``: a part of a full run, the part that the rule in words says, however it is made."""

import json
from collections import Counter

import pytest
from scipy.stats import beta

from tests.helpers import parsed, questions, write_lines
from tokur_cli.answers.grading import LabelRule
from tokur_cli.commands.generate.settling import Poll, UntilSettled
from tokur_cli.engine.generation.decoder import DecodedResponse
from tokur_cli.records.errors import TokurError
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
    output = tmp_path / "part.jsonl"
    code, _, err = run_tokur(*command, "--stop-at", LEVEL, "--set", f"batch_size={rows}", "-o", output)
    assert code == 0, err
    assert output.read_bytes() == part_of(whole)
    assert len(part_of(whole)) < len(whole)
    written = Counter(record["id"] for record in parsed(output.read_text()))
    assert f"of 9 questions settled; drew {written.total()} of {9 * SAMPLES} samples" in err


class Answering:
    """A decoder that answers ``count`` samples at a time, the last one asked for first, by a table of texts."""

    def __init__(self, texts, count=3):
        self.texts, self.count, self.drawn = texts, count, []

    def serve(self, requests):
        requests, waiting, exhausted = iter(requests), [], False
        while True:
            while len(waiting) < self.count and not exhausted:
                try:
                    request = next(requests)
                except StopIteration:
                    exhausted = True
                    break
                if request is None:
                    break
                waiting += [(request, sample) for sample in request.samples]
            if not waiting and exhausted:
                return
            if not waiting:
                yield None
                continue
            request, sample = waiting.pop()
            self.drawn.append((request.index, sample))
            text = self.texts[request.index][sample]
            yield (
                (request, TokurError("lost"))
                if text is None
                else DecodedResponse(request.index, sample, [1, 2], text, "stop")
            )


def poll(index, samples=SAMPLES, written=()):
    record = Record.of({"id": str(index), "question": "How many?"}, None, None)
    numbers = range(len(written), samples)
    there = [Record.of({**record.fields, "response": text}, None, None) for text in written]
    return Poll(index, str(index), [1], numbers, question=record, written=there)


def says(*numbers):
    return [f"The answer is {number}." for number in numbers]


def test_stop_at_no_sample_is_drawn_in_vain():
    """After 3 of one answer and 1 of another, 0.95 takes 6 to 1: the next three are asked for at once."""
    decoder = Answering([says(5, 5, 6, 5, 5, 5, 5, 5, 5, 5, 5, 5), says(*[1] * 12)])
    found = {polled.index: polled for polled in UntilSettled(decoder, 0.95).serve([poll(0), poll(1)])}
    assert [response.sample for response in found[0].responses] == list(range(7))
    assert [response.sample for response in found[1].responses] == list(range(4))
    assert found[0].settled
    assert sorted(decoder.drawn) == [(0, n) for n in range(7)] + [(1, n) for n in range(4)]
    assert decoder.drawn[-3:] == [(0, 6), (0, 5), (0, 4)]  # the decoder takes the last one first


def test_stop_at_what_is_there_counts_and_settled_questions_draw_nothing():
    decoder = Answering({1: says(*[3] * 12)})
    polls = [poll(0, written=says(3, 3, 3, 3)), None, poll(1, written=says(3, 3)), poll(2, written=says(*range(12)))]
    results = list(UntilSettled(decoder, 0.95).serve(polls))
    polled = {result.index: result for result in results if result is not None}
    assert {index: [one.sample for one in of.responses] for index, of in polled.items()} == {0: [], 1: [2, 3], 2: []}
    assert {index: of.settled for index, of in polled.items()} == {0: True, 1: True, 2: False}
    assert None in results  # the pause is passed on
    assert decoder.drawn == [(1, 3), (1, 2)]
