"""A record keeps what it is not told to change, and says what is wrong with it."""

import datetime
import json
import sys
from collections import UserDict
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.record import Record

calm = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
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
    record = parse(text)
    expected = json.loads(text)
    assert types_of(json.loads(record.encode())) == types_of(record.fields) == types_of(expected)
    record.set("tokur", {"n": 1})
    record.set("b", 2)
    written = parse(record.encode())
    assert written.fields == expected | {"tokur": {"n": 1}, "b": 2}
    assert [name for name in written.fields if name != "tokur"] == list(dict.fromkeys([*expected, "b"]) | {}) or (
        "tokur" in expected
    )
    assert written.identity("b") == parse(text).identity("b") == record.identity("b")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('{"n":12345678901234567890123, "x":1.10}', '{"n":12345678901234567890123,"x":1.1}'),
        ('{"n":-18446744073709551617}', '{"n":-18446744073709551617}'),
        ('{"n":[0.00012345678901234567,18446744073709551615]}', '{"n":[0.00012345678901234567,18446744073709551615]}'),
        (r'{"s":"\ud800"}', r'{"s":"\ud800"}'),
        ('{"a":1,"a":2}', '{"a":2}'),
    ],
)
def test_record_keeps_integers_of_any_size_and_halves_of_characters(text, written):
    assert parse(text).encode().decode() == written


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1.10,"b":2}', '{ "b" : 2, "a" : 1.1, "tokur":{} }', True),
        ('{"a":1}', '{"a":1.0}', False),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":123456789012345678901}', '{"a":123456789012345678902}', False),
    ],
)
def test_record_identity_compares_values(one, other, same):
    assert (parse(one).identity() == parse(other).identity()) == same


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{"new":1,"tokur":{}}'),
        ('{"tokur": 5, "a":1}', '{"a":1,"new":1,"tokur":{}}'),
        ('{"a":1 , "new":0, "tokur" : 5, "b":2}', '{"a":1,"new":1,"tokur":{},"b":2}'),
    ],
)
def test_fields_are_replaced_in_place_and_new_ones_come_before_tokur(before, after):
    record = parse(before)
    record.set("tokur", {})
    record.set("new", 1)
    assert record.encode().decode() == after


def test_record_copies_change_alone():
    record = parse('{"a":1}')
    twin = record.copy()
    twin.set("a", 2)
    assert (record.encode(), twin.encode()) == (b'{"a":1}', b'{"a":2}')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\xff\xfe{\x00", "is not UTF-8: byte 0xff at byte 1 of the line"),
        (b'{"a": "\xed\xa0\x80"}', "is not UTF-8: byte 0xed at byte 8 of the line"),
        ('{"a": 1', "is not valid JSON: Expecting ',' delimiter at column 8"),
        ('{"a":}', "is not valid JSON: Expecting value at column 6"),
        ("{'a': 1}", "is not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        ('{"a": 1,}', "is not valid JSON: Expecting property name enclosed in double quotes at column 9"),
        ('{"a": 1} x', "is not valid JSON: Extra data at column 10"),
        ("nonsense", "is not valid JSON: Expecting value at column 1"),
        ('{"a": "x\ty"}', "is not valid JSON: Invalid control character at at column 9"),
        ("[1, 2]", "is a list, not a JSON object"),
        ('"text"', "is a string, not a JSON object"),
        ("17", "is a number, not a JSON object"),
        ("true", "is a boolean, not a JSON object"),
        ("null", "is null, not a JSON object"),
        ('{"a": 1e400}', "holds the number 1e400, which is too large"),
        ('{"a": [{"b": NaN}]}', "holds NaN, which is not JSON: write null instead"),
        ('{"a": -Infinity}', "holds -Infinity, which is not JSON: write null instead"),
        ('{"a":' + "[" * 200_000, "is nested too deeply to be read"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_the_reason(line, message):
    assert error_of(lambda: parse(line)) == message


@pytest.mark.skipif(not hasattr(sys, "get_int_max_str_digits"), reason="this Python reads integers of any length")
def test_an_integer_too_long_for_python_is_refused():
    assert "too many digits" in error_of(lambda: parse('{"a":' + "9" * 5000 + "}"))


def test_a_lone_surrogate_in_text_is_an_error_that_says_where():
    assert "(\\ud800, a lone surrogate) at character 3" in error_of(lambda: parse(r'{"response":"ab\ud800"}').response)
    assert parse(r'{"response":"\ud83d\ude00"}').response == "😀"


USER = {"role": "user", "content": "Why?"}
ASSISTANT = {"role": "assistant", "content": "So."}


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({"question": "Why?"}, Prompt(question="Why?")),
        ({"prompt": "Why"}, Prompt(text="Why")),
        ({"prompt": "Why", "question": "Why?"}, Prompt(question="Why?")),
        ({"messages": None, "question": "Why?"}, Prompt(question="Why?")),
        ({"messages": [USER], "question": "No"}, Prompt(messages=[USER])),
        ({"messages": [USER, ASSISTANT]}, Prompt(messages=[USER])),
        ({"messages": [USER, ASSISTANT], "response": "So."}, Prompt(messages=[USER])),
        ({"messages": [USER, ASSISTANT], "response": "Well."}, Prompt(messages=[USER, ASSISTANT])),
        ({"messages": [USER], "tokur": {"prompt_token_ids": [1, 2]}}, Prompt(token_ids=[1, 2])),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "W"}, {"type": "text", "text": "hy?"}]}
                ]
            },
            Prompt(messages=[USER]),
        ),
    ],
)
def test_the_prompt_is_the_first_there_is_in_a_fixed_order(fields, prompt):
    assert record_of(**fields).prompt == prompt


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, 'has no prompt: it needs "question", "messages" or "prompt"; --question-field names another field'),
        ({"custom_id": "a"}, "has no prompt: give the batch's input file with --requests"),
        ({"question": 5}, '"question" is a number, not a string'),
        ({"messages": "Why?"}, '"messages" is a string, not a list of turns'),
        ({"messages": []}, '"messages" holds no turn before the response'),
        ({"messages": [ASSISTANT]}, '"messages" holds no turn before the response'),
        ({"messages": ["Why?"]}, '"messages[0]" is a string, not an object with role and content'),
        ({"messages": [{"role": "user"}]}, '"messages[0].content" is missing'),
        ({"messages": [USER, {"content": "x"}]}, '"messages[1].role" is missing'),
        ({"messages": [{"role": 1, "content": "x"}]}, '"messages[0].role" is a number, not a string'),
        ({"messages": [{"role": "user", "content": None}]}, '"messages[0].content" is null, not a string'),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "\"messages[0].content[0]\" is 'image_url', not text or reasoning, the only parts that are scored",
        ),
        ({"tokur": {"prompt_token_ids": []}}, '"tokur.prompt_token_ids" is empty'),
        (
            {"tokur": {"prompt_token_ids": [1, True]}},
            '"tokur.prompt_token_ids" holds a boolean at position 1, not a token id',
        ),
        ({"tokur": []}, '"tokur" is a list, not an object'),
    ],
)
def test_a_prompt_of_the_wrong_form_is_an_error_that_names_the_place(fields, message):
    assert error_of(lambda: record_of(**fields).prompt) == message


def test_the_turn_that_ends_messages_is_the_response():
    assert record_of(messages=[USER, ASSISTANT]).response == "So."
    assert record_of(messages=[USER, ASSISTANT], response="Well.").response == "Well."
    assert error_of(lambda: record_of(messages=[USER]).response) == '"response" is missing'


def test_token_ids_are_checked():
    assert record_of().token_ids is None
    assert record_of(tokur={"token_ids": []}).token_ids == []
    assert record_of(tokur={"token_ids": [0, 5]}).token_ids == [0, 5]
    for bad, found in ((-1, "-1"), (1.0, "a number"), ("1", "a string"), (None, "null")):
        message = error_of(lambda bad=bad: record_of(tokur={"token_ids": [3, bad]}).token_ids)
        assert message == f'"tokur.token_ids" holds {found} at position 1, not a token id'
    assert error_of(lambda: record_of(tokur={"token_ids": "x"}).token_ids) == (
        '"tokur.token_ids" is a string, not a list of token ids'
    )


def test_small_fields_have_defaults_and_checks():
    record = record_of()
    assert (record.id, record.reference, record.sample, record.finish_reason, record.tokur) == (None, None, 0, None, {})
    assert record_of(id=12).id == "12"
    assert record_of(id="a").id == "a"
    assert error_of(lambda: record_of(id=True).id) == '"id" is a boolean, not a string'
    assert error_of(lambda: record_of(id=1.5).id) == '"id" is a number, not a string'
    assert parse('{"reference":1.10}').reference == "1.1"
    assert parse('{"reference":true}').reference == "true"
    assert error_of(lambda: record_of(reference=["a", 1]).reference) == '"reference[1]" is a number, not a string'
    assert record_of(reference=["a", "b"]).reference == "a or b"
    assert (record_of(reference=[]).reference, record_of(reference=["a", "b"]).references) == (None, ["a", "b"])

    assert record_of(tokur={"sample": 3, "finish_reason": "stop"}).sample == 3
    assert error_of(lambda: record_of(tokur={"sample": -1}).sample) == '"tokur.sample" is -1, not a whole number from 0'
    assert record_of(tokur={"finish_reason": "stop"}).finish_reason == "stop"
    assert "finish_reason" in error_of(lambda: record_of(tokur={"finish_reason": 1}).finish_reason)


def test_a_newer_schema_is_refused_and_names_both_versions():
    assert record_of(tokur={"x": 1}).tokur == {"x": 1}
    assert record_of(tokur={"schema": 1}).tokur == {"schema": 1}
    message = error_of(lambda: record_of(tokur={"schema": 2}).tokur)
    assert "schema 2" in message
    assert "schema 1" in message
    assert error_of(lambda: record_of(tokur={"schema": "1"}).tokur).startswith('"tokur.schema" is a string, not')


def test_changing_the_copy_of_tokur_changes_nothing_until_it_is_set():
    record = record_of(tokur={"scores": {"tu": 1.0}})
    copy = record.tokur
    copy["scores"]["eu"] = 2.0
    assert record.tokur == {"scores": {"tu": 1.0}}
    record.set("tokur", copy)
    assert record.encode() == b'{"tokur":{"scores":{"tu":1.0,"eu":2.0}}}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array([0.1, 2.5], dtype=np.float32), "[0.1,2.5]"),
        (np.float32(0.1), "0.1"),
        (float("nan"), "null"),
        ([float("inf"), -float("inf")], "[null,null]"),
        (np.array([np.nan, 1.0]), "[null,1.0]"),
        ({"a": "ü\u2028"}, '{"a":"ü\u2028"}'),
        ("\ud800", r'"\ud800"'),
        (2**70, str(2**70)),
    ],
)
def test_values_are_written_as_json(value, text):
    assert encode_value(value).decode() == text


@pytest.mark.parametrize("beside", [None, 2**70], ids=["orjson", "what orjson refuses beside"])
def test_what_tables_and_python_hold_is_written_as_one_would_expect(beside):
    held = MappingProxyType(
        {
            "day": datetime.date(2026, 1, 2),
            "price": Decimal("1.50"),
            "whole": Decimal(7),
            "unknown": Decimal("NaN"),
            "endless": Decimal("Infinity"),
            "text": b"caf\xc3\xa9",
            "image": memoryview(b"\xff\x00"),
            "path": PurePosixPath("/a/b"),
            "names": np.array(["a", "b"]),
            "within": [UserDict(x=datetime.timedelta(hours=1))],
            "beside": beside,
        }
    )
    assert json.loads(encode_value(held)) == {
        "day": "2026-01-02",
        "price": 1.5,
        "whole": 7,
        "unknown": None,
        "endless": None,
        "text": "café",
        "image": "/wA=",
        "path": "/a/b",
        "names": ["a", "b"],
        "within": [{"x": "1:00:00"}],
        "beside": beside,
    }


def test_a_row_that_cannot_be_written_names_the_field():
    with pytest.raises(RecordError, match=r'^rows:3: "b" cannot be written as JSON: JSON cannot say complex$'):
        Record.of({"a": Decimal(1), "b": [1j]}, "rows", 3)
    circular = []
    circular.append(circular)
    with pytest.raises(RecordError, match=r"^rows:4: is nested too deeply to be read$"):
        Record.of({"a": circular}, "rows", 4)


@pytest.mark.parametrize("value", [{1: 2}, object(), {"a": {1, 2}}, {3: "\ud800"}])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(TypeError):
        encode_value(value)


def test_scores_are_numbers_or_null_and_what_no_float_holds_counts_as_null():
    record = parse(b'{"tokur":{"scores":{"eu":1.5,"n":3,"none":null,"huge":1' + b"0" * 400 + b',"bad":true}}}')
    numbers = {name: record.number(name, value) for name, value in record.scores.items() if name != "bad"}
    assert numbers == {"eu": 1.5, "n": 3.0, "none": None, "huge": None}
    with pytest.raises(RecordError, match=r"in\.jsonl:7: bad is a boolean, not a number"):
        record.number("bad", record.scores["bad"])
    for text in (b"{}", b'{"tokur":{}}', b'{"tokur":{"scores":null}}'):
        assert parse(text).scores == {}
    with pytest.raises(RecordError, match=r'"tokur\.scores" is a list, not an object'):
        _ = parse(b'{"tokur":{"scores":[1]}}').scores


def test_what_is_shown_as_the_question_is_the_question_before_the_conversation_before_the_prompt():
    def turns(**fields):
        return [(turn["role"], turn["content"]) for turn in record_of(**fields).turns]

    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}]
    assert turns(question="A", messages=messages, prompt="P") == [("user", "A")]
    assert turns(question=5, messages=messages, prompt="P") == [("system", "S"), ("user", "Q")]
    assert turns(messages=[*messages, {"role": "assistant", "content": "R"}]) == [("system", "S"), ("user", "Q")]
    assert turns(prompt="P") == [("user", "P")]
    assert turns(response="R") == []
