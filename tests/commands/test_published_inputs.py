"""Commands take data sets, tasks and tables wherever they take a file."""

import json

import pytest
import reasoning_gym

from tests.helpers import parsed, write_lines

GSM8K = [{"question": f"What is {n} + {n}?", "answer": f"It is {2 * n}.\n#### {2 * n}"} for n in range(20)]


@pytest.fixture
def data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    rows = [*GSM8K[:2], {"question": "", "answer": "no mark"}, GSM8K[3]]
    (tmp_path / "set").mkdir()
    write_lines(tmp_path / "set" / "train.jsonl", GSM8K[10:12])
    write_lines(tmp_path / "set" / "test.jsonl", rows)
    return tmp_path / "set"


def test_data_set_generate_reads_a_data_set_and_takes_it_up_again(data_set, tmp_path, tiny_folder, run_tokur):
    arguments = ("-m", tiny_folder, "--max-new-tokens", 4, "--few-shot", f"hf:{data_set}:train[:1]")
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in GSM8K[:2]))
    code, expected, err = run_tokur("generate", lines, *arguments)
    assert code == 0, err
    name = f"hf:{data_set}:test"
    out = tmp_path / "out.jsonl"
    code, _, err = run_tokur("generate", name, *arguments, "-o", out)
    assert (code, err) == (
        1,
        f'tokur generate: {name}:3: is not a gsm8k row: "answer" has no final answer after "####"\n',
    )
    assert out.read_text() == expected
    out.write_text(expected.splitlines(keepends=True)[0])
    code, _, err = run_tokur("generate", f"{name}[:2]", *arguments, "-o", out, "--resume")
    assert code == 0, err
    assert out.read_text() == expected


def test_data_set_tasks_are_graded_by_their_own_rule_and_keep_its_number(tmp_path, run_tokur):
    """Half a point for half an answer is wrong, and its quality stays to be evaluated by."""
    rows = list(reasoning_gym.create_dataset("leg_counting", size=4, seed=5))
    answers = [rows[0]["answer"], f"{rows[1]['answer']}{rows[1]['answer']}"[:-1], "0", None]
    responses = [f"<answer>{answer}</answer>" if answer else "I cannot." for answer in answers]
    scored = [
        {**row, "response": response, "tokur": {"scores": {"eu": value}}}
        for row, response, value in zip(rows, responses, (0.1, 0.3, 0.2, 0.4), strict=True)
    ]
    path, graded = write_lines(tmp_path / "scored.jsonl", scored), tmp_path / "graded.jsonl"
    code, out, err = run_tokur("evaluate", path, "--bootstrap", 0, "--graded", graded)
    assert code == 0, err
    assert parsed(out)[0]["accuracy"]["value"] == 0.25
    assert parsed(out)[0]["auroc"]["value"] == 1.0
    records = parsed(graded.read_text())
    part = len(rows[1]["answer"]) / len(answers[1])
    assert 0.5 < part < 1
    assert [(record["correct"], record["quality"]) for record in records] == [
        (True, 1.0),
        (False, pytest.approx(part)),
        (False, 0.0),
        (False, 0.0),
    ]
    _, out, _ = run_tokur("evaluate", graded, "--bootstrap", 0, "--label-field", "quality")
    assert parsed(out)[0]["acc"]["value"] == pytest.approx(0.5)  # of the records with 0.1 and 0.2
    assert parsed(out)[0]["accuracy"]["value"] == pytest.approx((1 + part) / 4)
