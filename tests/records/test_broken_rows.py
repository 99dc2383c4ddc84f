"""Rows and lines that are broken in any way are errors of their own, and every good one is read."""

import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records.reading import DATA, changed, paths_in, read_rows
from tokur_cli.answers.grading import label_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record

ODD_VALUES = st.sampled_from(
    [None, True, 0, -1, 2.5, 10**400, "", "text", "\ud800", "####", "\\boxed{", [], [[]], [None], ["a"], [{}], {}]
)


def first_of(name):
    text = (DATA / name).read_text(encoding="utf-8")
    return json.loads(text.partition("\n")[0]) if name.endswith(".jsonl") else json.loads(text)


FUZZED = {
    **{form: first_of(f"{form}.jsonl") for form in ("gsm8k", "math", "svamp", "humaneval", "completions")},
    "tokur": first_of("messages.jsonl"),
    "prompt-completion": first_of("prompt_completion.jsonl"),
    "lm-eval": first_of("lm_eval_new.jsonl"),
    "inspect": first_of("inspect.json")["samples"][0],
    "llm": first_of("llm_logs.json")[0],
    "sharegpt": {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}], "system": "S"},
    "choices": {"id": "1", "question": "Q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A"},
    "reasoning-gym": {"question": "Q", "answer": "1", "metadata": {"source_dataset": "sudoku", "source_index": 0}},
    "alpaca": {"instruction": "Q", "input": "more", "output": "A"},
}


@pytest.mark.parametrize("form", FUZZED)
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_read_records_of_a_row_that_is_wrong_anywhere_gives_errors_of_that_row_alone(form, data, tmp_path):
    row = FUZZED[form]
    path = data.draw(st.sampled_from(list(paths_in(row))))
    wrong = changed(row, path, data.draw(ODD_VALUES | st.just(...)))
    for record in read_rows(tmp_path, wrong, format=form):
        assert (record.source, record.line) == (str(tmp_path / "rows.jsonl"), 1)
        if isinstance(record, RecordError):
            continue
        for field in ("prompt", "response", "reference", "id", "sample", "finish_reason", "token_ids", "turns"):
            with contextlib.suppress(RecordError):
                getattr(record, field)
        with contextlib.suppress(RecordError, UsageError):
            label_of(record)
        assert Record.parse(record.encode(), None, None).identity() == record.identity()


BROKEN = [
    '{"question": "cut', '{"question": "comma",}', "{'question': 'quotes'}", '{"question": "a"} {"question": "b"}',
    '{"question": NaN}', '{"x": 01}', '{"x": 1e999}', "null", '[{"question": "Q"}]', "nonsense", '{"a":' * 3000,
    '{"question": "a\tb"}', "\x00", "}", '{"x": ' + "9" * 5000 + "}",
]  # fmt: skip


@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(st.lists(st.sampled_from(["good", "", *BROKEN]), max_size=8))
def test_read_records_reads_every_good_line_among_broken_ones(tmp_path, lines):
    lines = ['{"question": "first"}', *lines]
    rows = [json.dumps({"question": f"Q{n}"}) if line == "good" else line for n, line in enumerate(lines)]
    records = read_rows(tmp_path, *rows)
    expected = [(n, isinstance(line, str) and line in BROKEN) for n, line in enumerate(lines, start=1) if line]
    assert [(record.line, isinstance(record, RecordError)) for record in records] == expected
