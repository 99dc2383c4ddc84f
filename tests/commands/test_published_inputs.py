"""Commands take data sets, tasks and tables wherever they take a file."""

import json

import pytest

from tests.helpers import write_lines

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
        f'tokur generate: {name}:3: is no gsm8k row: "answer" has no final answer after "####"\n',
    )
    assert out.read_text() == expected
    out.write_text(expected.splitlines(keepends=True)[0])
    code, _, err = run_tokur("generate", f"{name}[:2]", *arguments, "-o", out, "--resume")
    assert code == 0, err
    assert out.read_text() == expected
