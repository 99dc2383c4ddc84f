"""Which question records belong to: prompt and reference before ids, and what is an error."""

import json

import pytest

from tokur_cli.records.errors import RecordError
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record


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
            r"in.jsonl:3: has the id of another question \(q: see line 1\)",
        ),
        (
            [{"id": "q", "reference": "5"}, {"id": "q"}, {"id": "q", "reference": 6}],
            r'in.jsonl:3: has the reference "6", but its question q has "5" \(see line 1\)',
        ),
    ],
)
def test_questions_refuse_records_that_name_none_or_two(rows, said):
    with pytest.raises(RecordError, match=said):
        numbered(*rows)
