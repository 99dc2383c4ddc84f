"""Records without a reference, in fields that tokur does not know: one sentence says it before the hours of scoring."""

import pytest

from tests.helpers import SAMPLES, write_lines

ROW = {"question": "7*10?", "response": "It is 70.", "gold_value": "70", "level": 2}
SAID = "no record has a reference; fields here: gold_value; --reference-field NAME reads one\n"
COMMANDS = {
    "score": ["score", "--scores", "ll", "-m", "MODEL"],
    "dry-run": ["score", "--dry-run", "-m", "MODEL"],
    "select": ["select", "--method", "maj", "--keep", "100%"],
    "evaluate": ["evaluate", "--graded", "graded", "--force"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_read_input_says_once_that_no_record_has_a_reference(command, run_tokur, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [str(tiny_folder) if word == "MODEL" else word for word in COMMANDS[command]]
    code, _, err = run_tokur(*arguments, write_lines(tmp_path / "in", [ROW, ROW | {"question": "7*11?"}]))
    assert (code, err.count(f"tokur {arguments[0]}: {SAID}")) == (0, 1), err
    for more in ({"is_correct": True}, {"reference": "70"}, {"gold_value": None}):
        _, _, err = run_tokur(*arguments, write_lines(tmp_path / "in", [ROW | more]))
        assert "no record has a reference" not in err
    _, _, err = run_tokur(*arguments, "--reference-field", "gold_value", write_lines(tmp_path / "in", [ROW]))
    assert "no record has a reference" not in err
    _, _, err = run_tokur(*arguments, "--limit", "2", SAMPLES / "responses.jsonl")
    assert "no record has a reference" not in err
