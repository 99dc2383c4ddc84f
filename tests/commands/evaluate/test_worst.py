"""``tokur evaluate --worst`` lists the responses to look at first, each with the step to look at."""

import itertools
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from tests.commands.score.test_score import parsed, write_lines

STEPS = ("First, 2 + 2 = 4. ", "So 4 x 3 = 13. ", "The answer is 13.")


def response(number, steps, answer="13", **fields):
    """A scored response of three steps, one token each; ``eu`` is their sum."""
    ends = list(itertools.accumulate(len(step) for step in STEPS))
    offsets = [[start, end] for start, end in zip([0, *ends], ends, strict=False)]
    tokens = {"offsets": offsets, "eu": list(steps), "logprob": [-value for value in steps]}
    scores = {"eu": sum(steps), "ll": -sum(steps) / 3, "neg_length": -3}
    text = "".join(STEPS).replace("answer is 13", f"answer is {answer}")
    return {"id": f"q{number}", "response": text, **fields, "tokur": {"tokens": tokens, "scores": scores}}


@pytest.fixture
def records():
    values = np.random.default_rng(3).uniform(0.1, 1, (30, 3)).round(6)
    return [response(n, list(map(float, steps)), reference="13" if n % 3 else "12") for n, steps in enumerate(values)]


def test_the_least_sure_come_first_with_their_least_sure_step(records, tmp_path, run_tokur):
    path = write_lines(tmp_path / "scored.jsonl", records)
    code, out, err = run_tokur("evaluate", path, "--worst", 7)
    assert (code, err) == (0, "")
    order = sorted(range(30), key=lambda n: -records[n]["tokur"]["scores"]["eu"])[:7]
    found = parsed(out)
    assert [line["id"] for line in found] == [f"q{n}" for n in order]
    for line, n in zip(found, order, strict=True):
        tokens = records[n]["tokur"]["tokens"]
        worst = int(np.argmax(tokens["eu"]))
        start, end = tokens["offsets"][worst]
        assert line["step"] == {
            "start": start,
            "end": end,
            "text": STEPS[worst].strip(),
            "quantity": "eu",
            "sum": tokens["eu"][worst],
        }
        assert (line["answer"], line["correct"], line["reference"]) == ("13", n % 3 != 0, "13" if n % 3 else "12")
        assert (line["place"], line["value"]) == (f"{path}:{n + 1}", records[n]["tokur"]["scores"]["eu"])
    _, out, _ = run_tokur("evaluate", path, "--worst", 99)
    assert len(parsed(out)) == 30


def test_a_confidence_ranks_the_other_way_and_equals_stay_in_order(records, tmp_path, run_tokur):
    _, by_ll, _ = run_tokur("evaluate", write_lines(tmp_path / "a.jsonl", records), "--worst", 30, "--scores", "ll")
    order = sorted(range(30), key=lambda n: records[n]["tokur"]["scores"]["ll"])
    assert [line["id"] for line in parsed(by_ll)] == [f"q{n}" for n in order]
    assert {line["step"]["quantity"] for line in parsed(by_ll)} == {"logprob"}
    for record in records:
        record["tokur"]["scores"]["p_true"] = 0.5  # which no quantity of single tokens stands behind
    _, out, _ = run_tokur("evaluate", write_lines(tmp_path / "b.jsonl", records), "--worst", 4, "--scores", "p_true")
    assert [(line["id"], line["step"]["quantity"]) for line in parsed(out)] == [(f"q{n}", "eu") for n in range(4)]


def test_what_is_not_known_is_null(tmp_path, run_tokur):
    bare = {"id": "a", "response": "??", "tokur": {"sample": 3, "scores": {"eu": 0.5}}}
    graded = {"response": "It is 3.", "quality": 0.25, "tokur": {"scores": {"eu": 0.4}}}
    without = {"id": "c", "response": "x", "tokur": {"scores": {"eu": None}}}
    code, out, err = run_tokur("evaluate", write_lines(tmp_path / "in.jsonl", [bare, graded, without]), "--worst", 5)
    assert (code, err) == (0, "tokur evaluate: left out 1 record without eu\n")
    first, second = parsed(out)
    assert (first["sample"], first["answer"], first["correct"], first["step"]) == (3, None, None, None)
    assert (second["id"], second["correct"], second["answer"]) == (None, 0.25, "3")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--scores", "eu,ll"], 2, "--worst ranks by one score, and --scores eu,ll names 2"),
        (["--scores", "nothing"], 2, "unknown score nothing"),
        (["--scaling", "2"], 2, "--worst lists responses and evaluates nothing: leave --scaling out"),
        (["--csv"], 2, "leave --csv out"),
        (["--scores", "tu"], 1, "no record has the score tu: run tokur score first, or name another with --scores"),
    ],
)
def test_what_cannot_be_listed_is_refused(records, tmp_path, run_tokur, options, code, message):
    found, out, err = run_tokur("evaluate", write_lines(tmp_path / "a.jsonl", records), "--worst", 3, *options)
    assert (found, out) == (code, "")
    assert message in err


def test_a_pipe_gets_the_table_where_that_is_asked_for(records, run_tokur, tmp_path):
    path = write_lines(tmp_path / "scored.jsonl", records)
    code, out, _ = run_tokur("evaluate", path, "--worst", 3, "--table")
    assert code == 0
    assert out.startswith("the least sure 3 of 30 responses by eu (higher is less sure)\n\n")
    assert out.splitlines()[2].split()[:2] == ["eu", "answer"]
    assert len(out.splitlines()) == 6
    assert run_tokur("evaluate", path, "--worst", 3, "--table", "-o", tmp_path / "table.txt")[:2] == (0, "")
    assert (tmp_path / "table.txt").read_text() == out


def test_a_terminal_gets_a_line_each_that_fits(records, tmp_path):
    records[4]["id"] = "an id\x1b[31m of some length that nobody wants to read"
    path = write_lines(tmp_path / "scored.jsonl", records)
    for columns in (100, 80):
        leader, follower = pty.openpty()
        command = [sys.executable, "-m", "tokur_cli", "evaluate", str(path), "--worst", "30"]
        with subprocess.Popen(
            command, stdout=follower, env={**os.environ, "COLUMNS": str(columns), "TERM": "dumb"}
        ) as process:
            os.close(follower)
            shown = b""
            while data := _read(leader):
                shown += data
            assert process.wait() == 0
        os.close(leader)
        lines = shown.decode().splitlines()
        assert lines[0] == "the least sure 30 of 30 responses by eu (higher is less sure)"
        assert lines[2].split() == ["eu", "answer", "id", "the", "least", "sure", "step"]
        assert len(lines[3:]) == 30
        assert max(map(len, lines)) <= columns
        assert "\x1b[31m" not in shown.decode()
        assert {line.split()[1] for line in lines[3:]} == {"right", "wrong"}


def test_the_table_goes_where_it_is_asked_for(records, tmp_path, run_tokur):
    path, file = write_lines(tmp_path / "scored.jsonl", records), tmp_path / "table.txt"
    code, out, err = run_tokur("evaluate", path, "--worst", 3, "--table")
    assert (code, err) == (0, "")
    assert out.startswith("the least sure 3 of 30 responses by eu (higher is less sure)\n\n")
    assert "\x1b" not in out
    assert run_tokur("evaluate", path, "--worst", 3, "--table", "-o", file) == (0, "", "")
    assert file.read_text() == out


def _read(descriptor):
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # the other end is closed
        return b""
