"""A record keeps what it is not told to change, and says what is wrong with it."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokur_cli.records.encoding import encode_value, read_json
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record

calm = settings(derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
"""The same examples on every machine, however slow it is."""


def parse(line):
    return Record.parse(line.encode() if isinstance(line, str) else line, "in.jsonl", 7)


def record_of(**fields):
    return parse(json.dumps(fields))


def error_of(action):
    with pytest.raises(RecordError) as caught:
        action()
    assert (caught.value.source, caught.value.line) == ("in.jsonl", 7)
    return caught.value.message


NUMBERS = st.sampled_from(["1.10", "-0.0", "1E+2", "123456789012345678901234567890", "-9223372036854775809", "0.1e-7"])
VALUES = st.recursive(
    NUMBERS | st.text().map(json.dumps) | st.sampled_from(["null", "true", r'"\ud800"', '"\u2028"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.text(max_size=3).map(json.dumps), inner, max_size=3).map(
            lambda items: "{" + ",".join(f"{name}: {value}" for name, value in items.items()) + "}"
        )
    ),
    max_leaves=6,
)


def types_of(value):
    """The value with the type of each number, since 1 == 1.0 == True."""
    if isinstance(value, dict):
        return [(name, types_of(item)) for name, item in value.items()]
    return [types_of(item) for item in value] if isinstance(value, list) else (type(value), value)


@calm
@given(st.dictionaries(st.sampled_from(["a", "b", "tokur", "x"]), VALUES))
def test_record_keeps_the_values_and_the_order_of_what_is_not_set(members):
    text = "{" + " , ".join(f'"{name}" :{value}' for name, value in members.items()) + "}"
    record, expected = parse(text), json.loads(text)
    assert types_of(json.loads(record.encode())) == types_of(record.fields) == types_of(expected)
    record.set("tokur", {"n": 1})
    record.set("b", 2)
    written = parse(record.encode())
    assert written.fields == expected | {"tokur": {"n": 1}, "b": 2}
    kept = [name for name in expected if name not in ("tokur", "b")]
    assert [name for name in written.fields if name not in ("tokur", "b")] == kept
    assert written.identity("b") == parse(text).identity("b") == record.identity("b")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1.10,"b":2}', '{ "b" : 2, "a" : 1.1, "tokur":{} }', True),
        ('{"a":1}', '{"a":1.0}', False),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":123456789012345678901}', '{"a":123456789012345678902}', False),
    ],
)
def test_record_identity_compares_values(one, other, same):
    assert (parse(one).identity() == parse(other).identity()) == same


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a": "\xed\xa0\x80"}', "'utf-8' codec can't decode byte 0xed in position 7"),
        ('{"a": "1', "is not valid JSON: Unterminated string starting at column 7"),
        ('{"a": 1} x', "is not valid JSON: Extra data at column 10"),
        ("[1, 2]", "is a list, not a JSON object"),
        ('{"a": 1e400}', "holds 1e400, which is no number that JSON can say"),
        ('{"a": [{"b": NaN}]}', "holds NaN, which is no number that JSON can say: write null instead"),
        ('{"a":' + "[" * 200_000, "maximum recursion depth exceeded"),
        ('{"a":' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
)
def test_record_parse_refuses_a_line_with_the_reason(line, message):
    assert error_of(lambda: parse(line)).startswith(message)


def test_record_text_with_a_lone_surrogate_is_an_error_that_says_where():
    assert "is no UTF-8 at character 3" in error_of(lambda: parse(r'{"response":"ab\ud800"}').response)
    assert parse(r'{"response":"\ud83d\ude00"}').response == "😀"


USER = {"role": "user", "content": "Why?"}
ASSISTANT = {"role": "assistant", "content": "So."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "W"}, {"type": "text", "text": "hy?"}]}


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({"prompt": "Why", "question": "Why?"}, Prompt(question="Why?")),
        ({"prompt": "Why"}, Prompt(text="Why")),
        ({"messages": [PARTS], "question": "No"}, Prompt(messages=[USER])),
        ({"messages": [USER, ASSISTANT], "response": "So."}, Prompt(messages=[USER])),
        ({"messages": [USER, ASSISTANT], "response": "Well."}, Prompt(messages=[USER, ASSISTANT])),
        ({"messages": [USER], "tokur": {"prompt_token_ids": [1, 2]}}, Prompt(token_ids=[1, 2])),
        ({"a": {"b": "x"}}, "; --question-field names another field: a.b"),
        ({"custom_id": "a"}, "has no prompt: give the file of what was asked with --requests"),
        ({"question": 5}, '"question" is a number, not a string'),
        ({"messages": [{"role": "user"}]}, '"messages[0].content" is null, not a string'),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "is 'image_url', not text or reasoning"),
        ({"tokur": {"prompt_token_ids": [1, True]}}, "is no list of token ids"),
    ],
)
def test_record_prompt_is_the_first_there_is_or_an_error_that_names_the_place(fields, prompt):
    if isinstance(prompt, str):
        assert prompt in error_of(lambda: record_of(**fields).prompt)
    else:
        assert record_of(**fields).prompt == prompt


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"messages": [USER, ASSISTANT]}, "response", "So."),
        ({"id": 12.0}, "id", "12"),
        ({"reference": 1.10}, "references", ["1.1"]),
        ({"reference": ["a", "b"]}, "reference", "a or b"),
        ({"reference": ["a", None]}, "references", '"reference" is null, not a string'),
        ({"tokur": {"sample": -1}}, "sample", '"tokur.sample" is -1, not a whole number from 0'),
        (
            {"tokur": {"schema": 2}},
            "tokur",
            '"tokur" was written with schema 2; this tokur reads up to 1: update tokur',
        ),
        ({"messages": [USER, ASSISTANT], "prompt": "P"}, "turns", [USER]),
    ],
)
def test_record_fields_are_checked_when_they_are_read(fields, name, value):
    try:
        found = getattr(record_of(**fields), name)
    except RecordError as error:
        found = error.message
    assert found == value


@pytest.mark.parametrize("beside", [None, 2**70, "\ud800"], ids=["orjson", "json for its size", "json for its text"])
def test_encode_value_writes_what_tables_python_and_numpy_hold(beside):
    held = MappingProxyType(
        {
            "day": datetime.date(2026, 1, 2),
            "price": [Decimal("1.50"), Decimal(7), Decimal("NaN")],
            "bytes": [b"caf\xc3\xa9", memoryview(b"\xff\x00")],
            "numbers": np.array([[0.1, np.nan], [2.5, 3]], dtype=np.float32),
            "transposed": np.array([[0.1, 2.5]], dtype=np.float32).T,
            "numpy": [np.float32(0.1), float("inf")],
            "beside": beside,
        }
    )
    assert json.loads(encode_value(held)) == {
        "day": "2026-01-02",
        "price": [1.5, 7, None],
        "bytes": ["café", "/wA="],
        "numbers": [[0.1, None], [2.5, 3]],
        "transposed": [[0.1], [2.5]],
        "numpy": [0.1, None],
        "beside": beside,
    }
    with pytest.raises(RecordError, match="rows:3: holds what JSON cannot say: complex"):
        Record.parse({"a": Decimal(1), "b": [1j], "beside": beside}, "rows", 3)


@dataclass(frozen=True)
class Inner:
    rank: int
    sigma: float | None = 0.1


@dataclass(frozen=True)
class Outer:
    name: str
    how: Literal["a", "b"]
    points: tuple[tuple[float, float], ...] | None
    counts: Mapping[str, int]
    free: dict[str, Any]
    inner: Inner
    more: tuple[str, ...] = field(default_factory=tuple)
    schema: int = 2


WHOLE = {
    "name": "n", "how": "a", "points": [[1, 0.5]], "counts": {"x": 1}, "free": {"y": [None]},
    "inner": {"rank": 8, "sigma": None}, "more": ["z"], "schema": 1,
}  # fmt: skip


def read(tmp_path, text):
    (tmp_path / "own.json").write_bytes(text.encode(errors="surrogateescape"))
    return read_json(str(tmp_path / "own.json"), Outer, "tokur make -o own.json")


def test_read_json_builds_dataclasses_tuples_and_defaults(tmp_path):
    expected = Outer("n", "a", ((1, 0.5),), {"x": 1}, {"y": [None]}, Inner(8, None), ("z",), 1)
    assert read(tmp_path, json.dumps(WHOLE)) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 1}, r"Expected `str`, got `int` - at `\$\.name`"),
        ({"how": "c"}, r"'c' - at `\$\.how`"),
        ({"points": [[1, float("nan")]]}, "malformed"),
        ({"counts": {"x": True}}, "Expected `int`, got `bool`"),
        ({"inner": {}}, r"missing required field `rank` - at `\$\.inner`"),
        ({"no": 2}, '"no" is not one of its fields'),
        ({"schema": 3}, "has schema 3; this tokur reads up to 2: update tokur"),
    ],
)
def test_read_json_names_the_field_that_is_not_what_it_must_be(change, said, tmp_path):
    with pytest.raises(TokurError, match=said):
        read(tmp_path, json.dumps(WHOLE | change))


@pytest.mark.parametrize("text", ["[]", '{"name": "n"', '{"name": "\udcff"}', "[" * 100_000, "{}"])
def test_read_json_of_anything_else_names_the_file_and_the_command(text, tmp_path):
    with pytest.raises(TokurError, match=r"own\.json: .*; write it with `tokur make -o own\.json`"):
        read(tmp_path, text)


def record(number=1, **fields):
    return Record.parse(json.dumps(fields).encode(), "in.jsonl", number)


def numbered(*rows):
    """The number of each row's question, by the first row of it."""
    questions = Questions()
    keys = [questions.of(record(number, **row)).key for number, row in enumerate(rows, start=1)]
    return [keys.index(key) for key in keys], questions


def test_questions_of_one_prompt_and_one_reference_are_one_whatever_their_ids():
    rows = [{"id": f"row-{n}", "question": f"What is {n % 3}?", "reference": n % 3} for n in range(12)]
    found, questions = numbered(*rows, {"id": "lone", "question": "?"})
    assert found == [0, 1, 2] * 4 + [12]
    assert questions.merged() == "12 records have the prompt of another id: they count as samples of 3 questions"


def test_questions_of_another_reference_are_others_and_a_missing_one_agrees_with_any():
    rows = [("a", "1"), ("b", "2"), ("c", None), ("d", "2"), ("b", None), (None, "3"), (None, "3")]
    found, _ = numbered(*({"id": name, "question": "Which?", "reference": wanted} for name, wanted in rows))
    assert found == [0, 1, 0, 1, 1, 5, 5]
    rows = [("a", None), ("b", "2"), ("c", "1"), ("d", "2")]
    found, _ = numbered(*({"id": name, "question": "Which?", "reference": wanted} for name, wanted in rows))
    assert found == [0, 0, 2, 0]


def test_questions_without_an_id_go_by_their_prompt_and_without_a_prompt_by_their_id():
    turns = [{"role": "user", "content": "How many?", "id": "of a log"}]
    found, questions = numbered(
        {"question": "How many?"},
        {"question": "How many?", "response": "2"},
        {"question": "How much?"},
        {"messages": [*turns, {"role": "assistant", "content": "1"}]},
        {"messages": [{**turns[0], "id": "another"}, {"role": "assistant", "content": "2"}]},
        {"prompt": "How many?", "completion": "2"},
        {"id": "How many?"},
        {"id": 7},
        {"id": "7", "question": "Seven?"},
        {"id": "8", "question": "Seven?"},
        {"id": "9", "question": {"no": "text"}},
    )
    assert found == [0, 0, 2, 3, 3, 0, 6, 7, 7, 7, 10]
    assert "4 records" not in questions.merged()
    assert questions.known(record(response="1")) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"response": "1"}], r'in.jsonl:1: has no "id", "question", "messages" or "prompt"'),
        (
            [{"id": "q"}, {"id": "q", "question": "How many?"}, {"id": "q", "question": "How much?"}],
            r"in.jsonl:3: has another prompt than its question q \(see line 1\)",
        ),
        (
            [{"id": "q", "reference": "5"}, {"id": "q"}, {"id": "q", "reference": 6}],
            r"in.jsonl:3: has another reference than its question q \(see line 1\)",
        ),
    ],
)
def test_questions_refuse_records_that_name_none_or_two(rows, said):
    with pytest.raises(RecordError, match=said):
        numbered(*rows)
