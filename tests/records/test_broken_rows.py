"""Rows and lines that are broken in any way are errors of their own, and every good one is read."""

import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records.reading import DATA, EXPECTED_FORMAT, read, read_rows
from tokur_cli.answers.grading import label_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record

ODD_VALUES = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2.5,
        10**400,
        "",
        "text",
        "\ud800",
        "####",
        "\\boxed{",
        [],
        [[]],
        [None],
        ["a"],
        [{}],
        {},
        {"a": 1},
    ]
)


def paths_in(value, path=()):
    """The path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from paths_in(item, (*path, key))


def changed(value, path, odd):
    """The value with another one at the path, or without what is there if that is ``...``."""
    if not path:
        return odd
    copy = value.copy()
    if odd is ... and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], odd)
    return copy


def with_tools():
    """A sample of a reasoning model that calls tools, with everything that Inspect writes of such ones."""
    (sample,) = (record.fields for record in read("inspect_tools.eval"))
    message = sample["output"]["choices"][0]["message"]
    message["content"] = [{"type": "reasoning", "reasoning": "So."}, {"type": "text", "text": message["content"]}]
    sample["messages"][-1] = message
    kept = ("id", "epoch", "input", "target", "messages", "output", "scores", "error", "attachments")
    (event,) = [event for event in sample["events"] if event["event"] == "model"][-1:]
    return {name: sample[name] for name in kept if name in sample} | {"events": [event]}


FUZZED = {
    **{name: json.loads((DATA / name).read_text(encoding="utf-8").partition("\n")[0]) for name in EXPECTED_FORMAT},
    "inspect": json.loads((DATA / "inspect.json").read_text(encoding="utf-8"))["samples"][0],
    "inspect with tools": with_tools(),
    "llm": json.loads((DATA / "llm_logs.json").read_text(encoding="utf-8"))[0],
    "sharegpt": {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}], "system": "S"},
    "choices": {"id": "1", "question": "Q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A"},
    "choices in a list": {"question": "Q", "options": ["a", 2], "answer_index": 1, "response": "A"},
    "reasoning-gym": {"question": "Q", "answer": "1", "metadata": {"source_dataset": "sudoku", "source_index": 0}},
    "alpaca": {"instruction": "Q", "input": "more", "output": "A"},
}


@pytest.mark.parametrize("name", FUZZED)
@settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_row_that_is_wrong_anywhere_gives_errors_of_that_row_alone(name, data, tmp_path):
    row = FUZZED[name]
    path = data.draw(st.sampled_from(list(paths_in(row))))
    wrong = changed(row, path, data.draw(ODD_VALUES | st.just(...)))
    requests = str(DATA / "openai_batch_requests.jsonl") if "batch" in name else None
    form = EXPECTED_FORMAT.get(name, name.partition(" ")[0])
    for record in read_rows(tmp_path, wrong, format=form, requests=requests):
        assert (record.source, record.line) == (str(tmp_path / "rows.jsonl"), 1)
        if isinstance(record, RecordError):
            continue
        for field in ("prompt", "response", "reference", "id", "sample", "finish_reason", "token_ids"):
            with contextlib.suppress(RecordError):
                getattr(record, field)
        for field in (None, "scores.includes.value"):
            with contextlib.suppress(RecordError, UsageError):
                label_of(record.fields, field)
        again = Record.parse(record.encode(), None, None)
        assert again.identity() == record.identity()


WHOLE_ARRAY = '[{"question": "Q"}]'
"""As a later line it is broken; at the beginning of a file it is how a whole file may look."""

ZOO = [
    '{"question": "cut',
    '{"question": "cut"',
    '{"question" "colon"}',
    '{"question": "comma",}',
    '{question: "keys"}',
    "{'question': 'quotes'}",
    '{"question": "a"} {"question": "b"}',
    '{"question": NaN}',
    '{"x": [Infinity]}',
    '{"x": {"y": -Infinity}}',
    '{"x": 01}',
    '{"x": .5}',
    '{"x": +1}',
    '{"x": 0x10}',
    '{"x": True}',
    '{"x": None}',
    '{"x": undefined}',
    '{"x": "\\q"}',
    '{"x": "\\u12"}',
    '{"x": "tab\there"}',
    '{"x": 1} // comment',
    "[]",
    WHOLE_ARRAY,
    '"text"',
    "5",
    "null",
    "{",
    "}",
    "question,answer",
    b'{"question": "latin \xe9"}',
    b'{"question": "surrogate \xed\xa0\x80"}',
    b"\xff\xfe{\x00}\x00",
    b"\x00",
    '{"x":' * 100_000,
    "[" * 100_000,
    '{"x": "' + "long" * 2_500_000,
    b'{"x": "\x80"}',
]


def test_each_kind_of_broken_line_is_one_error_at_its_line_and_every_good_one_is_read(tmp_path):
    path = tmp_path / "zoo.jsonl"
    good = '{"question": "line\u2028separator", "n": 1.1}'.encode()
    with path.open("wb") as file:
        for line in ZOO:
            file.write(good + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\r\n\n")
    rows = list(read_records(str(path)))
    assert len(rows) == 2 * len(ZOO)
    for number, (record, error) in enumerate(zip(rows[::2], rows[1::2], strict=True)):
        assert (record.line, record.fields) == (3 * number + 1, json.loads(good))
        assert isinstance(error, RecordError), ZOO[number][:60]
        assert (error.source, error.line) == (str(path), 3 * number + 2)
        assert len(str(error)) < 400
