"""``tokur heatmap --particles``: the tree of a question's particles, in text and as a page."""

import json
import re

import pytest

from tests.commands.score.test_score import write_lines

#   round 0: 0 1 2 → filled from 1 1 2 → round 1: filled from 0 2 2 → round 2
SCORES = [[0.9, 0.1, 0.5], [0.2, 0.3, 0.4], [0.25, 0.45, 0.35]]
ANCESTORS = [[1, 1, 2], [0, 2, 2]]


def particle(slot, **fields):
    return {
        "id": "q7",
        "question": "1 + 1?",
        "response": f"answer <b>{slot}</b>",
        "correct": slot == 0,
        "tokur": {
            "schema": 1,
            "sample": slot,
            "finish_reason": "stop",
            "token_ids": [1] * (slot + 3),
            "generation": {"guide": "eu", "guide_over": "mean", "particles": 3},
            "particle": {
                "ends": [1, 2, slot + 3],
                "scores": [0.1, 0.2, 0.3],
                "slot_scores": [scores[slot] for scores in SCORES],
                "ancestors": [ancestors[slot] for ancestors in ANCESTORS],
                "ess": [2.5, 2.9],
                "root": [1, 2, 2][slot],
                "copies": 1,
            }
            | fields,
        },
    }


@pytest.fixture
def guided(tmp_path):
    others = [{"id": "q8", "question": "?", "response": "x"}]
    return write_lines(tmp_path / "particles.jsonl", [particle(2), *others, particle(0), particle(1)])


def test_text_shows_rounds_rewards_and_who_was_copied(run_tokur, guided):
    code, out, err = run_tokur("heatmap", guided, "--particles", "q7", "--marks", "none")
    assert (code, err) == (0, "")
    assert "q7: 3 particles guided by eu in 3 rounds; the responses go back to 2 of them" in out
    rows = [re.sub("[▁▂▃▄▅▆▇█]", " ", line).split() for line in out.splitlines()]
    assert ["0", "0.90", "×0", "1›0.20", "0.25"] in rows
    assert ["1", "0.10", "×2", "0.30", "×0", "2›0.45"] in rows
    assert ["2", "0.50", "0.40", "×2", "0.35"] in rows
    assert ["ESS", "2.50", "2.90"] in rows
    assert "0   right · 3 tokens · stop · answer <b>0</b>" in out.splitlines()


def test_narrow_text_is_cut_into_bands_of_rounds(run_tokur, tmp_path):
    rows = [particle(slot, slot_scores=[0.1] * 5, ancestors=[slot] * 4, ess=[3] * 4) for slot in range(3)]
    path = write_lines(tmp_path / "long.jsonl", rows)
    _, out, _ = run_tokur("heatmap", path, "--particles", "q7", "--width", "40")
    assert max(map(len, out.splitlines())) <= 40
    assert [line.count("round") for line in out.splitlines() if re.match(r" +round", line)] == [3, 2]


def test_the_page_draws_the_tree(run_tokur, guided, tmp_path):
    page = tmp_path / "tree.html"
    code, out, _ = run_tokur("heatmap", guided, "--particles", "q7", "--html", page)
    assert (code, out) == (0, "")
    text = page.read_text(encoding="utf-8")
    assert text.count("<rect") == 9
    assert text.count("<path") == 6
    assert text.count('<path class="dropped"') == 1  # round 0's second copy, of which nothing is left
    assert text.count("<g class") == 2  # slot 0 in round 0 and slot 1 in round 1
    assert "answer &lt;b>2&lt;/b>" in text
    assert "<script" not in text


def test_the_records_are_passed_on(run_tokur, guided):
    code, out, err = run_tokur("heatmap", guided, "--particles", "q7", "-o", "-")
    assert code == 0
    assert out == guided.read_text()
    assert "3 particles" in err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([particle(0), particle(2)], "the input has 2 records of 3 particles"),
        ([particle(0), particle(1), particle(1)], "the input has 3 records of 3 particles"),
        ([{"id": "q7", "question": "?", "response": "x"}], 'is no particle ("tokur.particle" is missing)'),
        ([{"id": "q8"}], "--particles q7: no record has this id"),
        ([particle(0, slot_scores=[1.0]), particle(1), particle(2)], "the records are not of one run"),
        ([particle(0, ancestors=[0, 3]), particle(1), particle(2)], "the records are not of one run"),
        ([particle(0, ess=[None, 1]), particle(1), particle(2)], '"tokur.particle.ess" is not a list of numbers'),
    ],
)
def test_what_is_no_tree_is_told(run_tokur, tmp_path, rows, said):
    code, out, err = run_tokur("heatmap", write_lines(tmp_path / "bad.jsonl", rows), "--particles", "q7")
    assert (code, out) == (1, "")
    assert said in err


def test_a_particle_whose_label_is_none_is_told(run_tokur, tmp_path):
    rows = [particle(0), particle(1) | {"correct": 1}, particle(2)]
    code, out, err = run_tokur("heatmap", write_lines(tmp_path / "bad.jsonl", rows), "--particles", "q7")
    assert (code, out) == (1, "")
    assert 'bad.jsonl:2: "correct" must be true or false, not 1' in err


def test_a_record_that_does_not_tell_its_guide_is_told(run_tokur, tmp_path):
    rows = [json.loads(json.dumps(particle(slot))) for slot in range(3)]
    del rows[0]["tokur"]["generation"]
    code, _, err = run_tokur("heatmap", write_lines(tmp_path / "bad.jsonl", rows), "--particles", "q7")
    assert code == 1
    assert 'bad.jsonl:1: "tokur.generation" does not tell how the particle was guided' in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--compare"], "leave --compare out"),
        (["--id", "q8"], "leave --id out"),
        (["--svg", "x.svg"], "leave --svg out"),
        (["--score", "au"], "leave --score out"),
        (["--palette", "red"], "leave --palette out"),
        (["--vmin", "0"], "leave --vmin out"),
        (["--vmax", "2"], "leave --vmax out"),
        (["--top", "2"], "leave --top out"),
        (["--steps", "2"], "leave --steps out"),
        (["--html", "x.html", "--marks", "none"], "--marks goes with text"),
        (["--html", "x.html", "--width", "80"], "--width goes with text or --svg"),
    ],
)
def test_what_says_nothing_of_particles_is_refused(run_tokur, guided, options, said):
    code, _, err = run_tokur("heatmap", guided, "--particles", "q7", *options)
    assert code == 2
    assert said in err
