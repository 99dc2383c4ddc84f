"""Which records are read, and which model scores them where none is named."""

import json

from tests.helpers import parsed, records, write_lines
from tests.tiny import tiny_model_folder


def test_records_limit_reads_the_first_records_and_whole_rows(run_tokur, tiny_folder, tmp_path):
    rows = [*records(3), b"broken\n"]
    path = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur("score", path, "-m", tiny_folder, "--limit", 2, "--no-tokens")
    assert (code, [row["id"] for row in parsed(out)]) == (0, ["q0", "q1"]), err
    assert run_tokur("score", path, "-m", tiny_folder, "--limit", 4, "--no-tokens")[0] == 1
    code, out, _ = run_tokur("generate", path, "-m", tiny_folder, "--limit", 1, "--max-new-tokens", 2)
    assert (code, len(parsed(out))) == (0, 1)


def test_records_limit_keeps_a_row_of_several_samples_whole(run_tokur, tmp_path):
    rows = [{"question": f"{n}+1?", "gold": n + 1, "samples": [f"It is {n + 1}."] * 3} for n in range(2)]
    path, graded = write_lines(tmp_path / "in.jsonl", rows), tmp_path / "graded.jsonl"
    code, _, err = run_tokur("evaluate", path, "--limit", 2, "--graded", graded)
    assert (code, [row["question"] for row in parsed(graded.read_text())]) == (0, ["0+1?"] * 3), err


def test_records_date_of_a_chat_template_is_settable_and_kept(run_tokur, tiny_folder, tmp_path):
    folder = tiny_model_folder(tmp_path)
    template = folder / "chat_template.jinja"
    template.write_text("{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}")
    path = write_lines(tmp_path / "in.jsonl", records(1))
    options = ("score", path, "-m", folder, "--scores", "ll", "--no-tokens")
    usual, other = (json.loads(run_tokur(*options, *date)[1]) for date in ((), ("--set", "date=2025-01-31")))
    assert other["tokur"]["run"]["prompts"]["date"] == "2025-01-31"
    assert other["tokur"]["scores"] != usual["tokur"]["scores"]
    assert run_tokur(*options, "--set", "date=31.1.")[0] == 2


def test_records_bad_records_of_one_kind_are_said_once_and_counted(run_tokur, tmp_path):
    rows = [{"question": "q", "response": "a", "correct": True}] + [{"id": 1.5, "response": "b"}] * 5
    code, _, err = run_tokur("select", write_lines(tmp_path / "in.jsonl", rows), "--skip-invalid", "--method", "maj")
    assert code == 3
    lines = [line for line in err.splitlines() if "is a number" in line]
    assert [line.count("in.jsonl:2:") for line in lines] == [1, 0]
    assert "and 4 more with the same reason" in lines[1]


def test_records_generate_asks_the_question_of_a_row_of_samples_once(run_tokur, tmp_path, tiny_folder):
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
