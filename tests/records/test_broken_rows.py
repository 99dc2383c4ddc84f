"""Rows and lines that are broken in any way are errors of their own, and every good one is read."""

import contextlib
import json

import pytest

from tests.records.reading import DATA, changed, paths_in, read_rows
from tokur_cli.answers.grading import label_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record

ODD_VALUES = [
    None, True, 0, -1, 2.5, 10**400, "", "text", "\ud800", "####", "\\boxed{", [], [[]], [None], ["a"], [{}], {}, ...
]  # fmt: skip


def first_of(name):
    text = (DATA / name).read_text(encoding="utf-8")
    return json.loads(text.partition("\n")[0]) if name.endswith(".jsonl") else json.loads(text)


FUZZED = {
    **{form: first_of(f"{form}.jsonl") for form in ("gsm8k", "math", "svamp", "humaneval", "completions")},
    "tokur": first_of("messages.jsonl"),
    "prompt-completion": first_of("prompt_completion.jsonl"),
    "lm-eval": first_of("lm_eval_samples.jsonl"),
    "inspect": first_of("inspect.json")["samples"][0],
    "llm": first_of("llm_logs.json")[0],
    "sharegpt": {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}], "system": "S"},
    "choices": {"id": "1", "question": "Q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A"},
    "reasoning-gym": {"question": "Q", "answer": "1", "metadata": {"source_dataset": "sudoku", "source_index": 0}},
    "alpaca": {"instruction": "Q", "input": "more", "output": "A"},
}


@pytest.mark.parametrize("form", FUZZED)
def test_read_records_of_a_row_that_is_wrong_anywhere_gives_errors_of_that_row_alone(form, tmp_path):
    row = FUZZED[form]
    rows = [changed(row, path, odd) for path in paths_in(row) for odd in ODD_VALUES]
    lines = set()
    for record in read_rows(tmp_path, *rows, format=form):
        lines.add(record.line)
        if isinstance(record, RecordError):
            continue
        for field in ("prompt", "response", "reference", "id", "sample", "finish_reason", "token_ids", "turns"):
            with contextlib.suppress(RecordError):
                getattr(record, field)
        with contextlib.suppress(RecordError, UsageError):
            label_of(record)
        assert Record.parse(record.encode(), None, None).identity() == record.identity()
    passed_over = set(range(1, len(rows) + 1)) - lines
    assert all(rows[line - 1].get("filter") != row["filter"] for line in passed_over)


# What else is no JSON is in test_record.py
BROKEN = ['{"question": "cut', "null", '[{"question": "Q"}]', '{"a":' * 3000, "\x00", '{"x": ' + "9" * 5000 + "}"]


def test_read_records_reads_every_good_line_among_broken_ones(tmp_path):
    lines = ['{"question": "first"}', *(line for broken in BROKEN for line in (broken, "", '{"question": "good"}'))]
    records = read_rows(tmp_path, *lines)
    expected = [(n, line in BROKEN) for n, line in enumerate(lines, start=1) if line]
    assert [(record.line, isinstance(record, RecordError)) for record in records] == expected
