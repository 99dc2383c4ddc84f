"""Records without a reference, in fields that tokur does not know: one sentence says it before the hours of scoring."""

import json

import pytest

from tests.helpers import SAMPLES, write_lines

ROW = {"question": "7*10?", "response": "It is 70.", "gold_value": "70", "level": 2}
SAID = "no record has a reference; fields here: gold_value; --reference-field NAME reads one\n"
COMMANDS = {
    "score": ["score", "--scores", "ll"],
    "dry-run": ["score", "--dry-run"],
    "select": ["select", "--method", "maj", "--keep", "100%"],
    "evaluate": ["evaluate", "--graded", "graded", "--force"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_read_input_says_once_that_no_record_has_a_reference(command, run_tokur, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_tokur(*COMMANDS[command], write_lines(tmp_path / "in", [ROW, ROW | {"question": "7*11?"}]))
    assert (code, err.count(f"tokur {COMMANDS[command][0]}: {SAID}")) == (0, 1), err
    for more in ({"is_correct": True}, {"reference": "70"}, {"gold_value": None}):
        _, _, err = run_tokur(*COMMANDS[command], write_lines(tmp_path / "in", [ROW | more]))
        assert "no record has a reference" not in err
    _, _, err = run_tokur(*COMMANDS[command], "--reference-field", "gold_value", write_lines(tmp_path / "in", [ROW]))
    assert "no record has a reference" not in err
    _, _, err = run_tokur(*COMMANDS[command], "--limit", "2", SAMPLES / "responses.jsonl")
    assert "no record has a reference" not in err


def test_generate_asks_the_question_of_a_row_of_samples_once(run_tokur, tmp_path, tiny_folder):
    rows = [
        {"question": "7*10?", "samples": ["70", "71", "72"], "answer": "#### 70"},
        {"question": "7*11?", "answer": "#### 77"},
    ]
    path = write_lines(tmp_path / "in", rows)
    code, out, err = run_tokur("generate", "-m", tiny_folder, "--max-new-tokens", "3", path)
    assert code == 0, err
    made = [json.loads(line) for line in out.splitlines()]
    assert [(row["question"], row.get("reference"), "samples" in row) for row in made] == [
        ("7*10?", "70", True),
        ("7*11?", "77", False),
    ]
