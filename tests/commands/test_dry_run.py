"""``--dry-run`` counts what a run would read, without weights: compared with tokenizers and with the input's rows."""

import json

import pytest
from transformers import AutoTokenizer

from tests.helpers import records, write_lines
from tokur_cli.commands.session import work


@pytest.fixture
def loads_nothing(monkeypatch):
    def load(*_, **__):
        raise AssertionError("the weights are not needed")

    monkeypatch.setattr(work, "load", load)


def prompt_tokens(folder, rows):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chats = [[{"role": "user", "content": row["question"]}] for row in rows]
    return sum(len(tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]) for chat in chats)


@pytest.mark.parametrize(("command", "options"), [("score", []), ("generate", ["-n", "3", "--temperature", "1"])])
def test_dry_run_counts_tokens_and_loads_no_weights(run_tokur, tiny_folder, tmp_path, loads_nothing, command, options):
    rows = [{**row, "reference": "4"} for row in records(40)]
    given = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur(command, "--dry-run", given, "-m", tiny_folder, *options)
    assert (code, err) == (0, "")
    counted = json.loads(out)
    assert counted["prompt_tokens"] == prompt_tokens(tiny_folder, rows)
    assert counted["response_tokens"] == (sum(len(row["response"]) for row in rows) if command == "score" else 0)
    assert (counted["model"], counted["records"], counted["invalid"]) == (str(tiny_folder), 40, 0)
    assert (counted["samples"], counted["references"]) == (40 if command == "score" else 120, 40)


def test_dry_run_reports_every_bad_record(run_tokur, tiny_folder, tmp_path):
    rows = [b'{"id": "no text"}\n', *records(3), b"broken\n", {"id": "odd", "question": 1, "response": "a"}]
    given = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur("score", given, "-m", tiny_folder, "--dry-run")
    assert (code, err.count("in.jsonl:"), json.loads(out)["invalid"]) == (1, 3, 3)
    code, out, _ = run_tokur("score", given, "-m", tiny_folder, "--dry-run", "--skip-invalid")
    assert (code, json.loads(out)["records"]) == (3, 3)


def test_dry_run_of_logged_probabilities_takes_no_model(run_tokur, tmp_path):
    tokens = [{"token": text, "logprob": -0.1, "top_logprobs": []} for text in "ab"]
    rows = [{"question": "q", "response": "ab", "logprobs": {"content": tokens}} for _ in range(3)]
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "--from-logprobs", "--dry-run")
    assert code == 0, err
    counted = json.loads(out)
    assert (counted["records"], counted["questions"], counted["response_tokens"]) == (3, 1, 6)
