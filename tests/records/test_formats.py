"""One trip a format, from files that the real programs wrote, and neighbours that are not taken for it."""

import contextlib
import json

import pytest

from tests.records.reading import (
    ASKED,
    BODY,
    DATA,
    changed,
    message_of,
    paths_in,
    read,
    read_row,
    read_rows,
    requests_of,
)
from tokur_cli.answers.grading import label_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.formats import recognise
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.record import Record

MMLU = {"question": "Prime?", "choices": ["4", "9", "7", "8"], "answer": 2}
FIRST_ROWS = {  # of each file: format, prompt, response, references, id
    "gsm8k.jsonl": ("gsm8k", "Janet’s ducks lay 16 eggs per day", None, ["18"], None),
    "math.jsonl": ("math", "Convert", None, [r"\left( 3, \frac{\pi}{2} \right)"], "test/precalculus/807.json"),
    "svamp.jsonl": ("svamp", "Each pack of dvds costs 76 dollars. If there is a discount", None, ["51"], "chal-1"),
    "humaneval.jsonl": ("humaneval", "from typing import List", None, [], "HumanEval/0"),
    "messages.jsonl": ("tokur", "What is 6 times 7?", "42", [], None),
    "prompt_completion.jsonl": ("prompt-completion", "The sky is", " blue.", [], None),
    "lm_eval_samples.jsonl": ("lm-eval", "Question: What is 1 + 1?", "8Fx~_@", ["2"], "0"),
    "lm_eval_chat.jsonl": ("lm-eval", "<|im_start|>user\nQuestion: What is 1 + 1?", None, ["2"], "0"),
    "lm_eval_old.jsonl": ("lm-eval", "Question: A box holds 12", " 3 x 12 = 36. #### 36", ["36"], "0"),
    "openai_batch.jsonl": ("completions", "Name a prime above 10.", "11", [], "q-2"),
    "openai_responses.jsonl": ("completions", "Name a prime above 10.", "11, or 13", [], None),
    "completions.jsonl": ("completions", "What is 6 times 7?", "It is 42.", [], None),
    "completions_text.jsonl": ("completions", "What is 6 times 7?", " It is 42.", [], None),
    "completions_responses.jsonl": ("completions", "What is 6 times 7?", "It is 42.", [], None),
    "completions_messages.jsonl": ("completions", "What is 6", "<think>\nLet me see.\n</think>\n\nIt is 42.", [], None),
    "deepscaler.json": ("math", "", None, ["60"], None),
    "inspect.json": ("inspect", "What is 6 times 7?", "42", ["42"], "1"),
    "inspect.eval": ("inspect", "What is 6 times 7?", "42", ["42"], "1"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_ROWS)
def test_format_of_a_file_is_recognised_and_its_first_row_read(name):
    form, asked, response, references, identity = FIRST_ROWS[name]
    record = read(name, requests=requests_of(name))[0]
    prompt = record.prompt
    text = prompt.messages[-1]["content"] if prompt.messages else prompt.question or prompt.text
    assert text.strip().startswith(asked)
    assert response is None or record.response == response
    assert (record.references, identity in (None, record.id)) == (references, True)
    if name.endswith(".jsonl"):
        first = json.loads((DATA / name).read_text(encoding="utf-8").partition("\n")[0])
        assert recognise(first).name == form
        assert record.line == 1
    again = type(record).parse(record.encode(), None, None)
    assert again.fields == record.fields


@pytest.mark.parametrize(
    ("row", "form"),
    [
        ({"question": "q", "answer": "4"}, "tokur"),  # no ####
        ({"question": "q", "answer": ["#### 4"]}, "tokur"),
        ({**MMLU, "reference": "C"}, "tokur"),
        ({"question": "q", "choices": [{"text": "a"}], "answer": "a"}, "tokur"),
        ({"question": "q", "options": [{"key": "A", "text": "a"}], "answer": "A"}, "tokur"),
        ({"conversations": [{"role": "user"}]}, "tokur"),
        ({"custom_id": "a", "body": {}}, "tokur"),
        ({"object": "chat.completion", "choices": None}, "tokur"),
        ({"messages": ASKED, "response": {"text": "7"}}, None),  # a call that failed?
        ({"question": "q", "response": None}, "tokur"),
        ({"input": [1, 2], "output": [3]}, "tokur"),
        ({"input": "q", "output": None}, "input-output"),
        ({"id": "q", "response": BODY}, None),  # without its request
        ({"question": "q", "input": "x", "output": "a"}, "tokur"),
        ({"model": "m", "message": {"content": "7"}}, "tokur"),  # of Ollama, without done
        ({"instruction": "i", "input": "q", "output": "a"}, "alpaca"),
        ({"question": "q", "answer": "1", "metadata": {"source_dataset": "x"}}, "tokur"),
    ],
)
def test_recognise_takes_no_neighbour_for_a_format(row, form):
    assert getattr(recognise(row), "name", None) == form


def test_format_keeps_another_meaning_of_a_field_under_source_and_names_a_bad_row(tmp_path):
    rows = [
        {"question": "Q", "answer": "#### 1", "level": 1.5},
        {"question": "Q"},
        {"question": 5, "answer": "#### 1"},
        {"question": "Q", "answer": "1"},
    ]
    good, *bad = read_rows(tmp_path, *rows)
    assert good.fields == {**rows[0], "reference": "1"}
    assert [message_of(error) for error in bad] == [
        '"answer" is missing',
        '"question" is a number, not a string',
        "is no gsm8k row: one of its fields is not what it must be",
    ]
    record = read_row(tmp_path, {"problem": "P", "answer": "1", "id": 1.1, "unique_id": "u", "source": "AMC"})
    assert (record.id, record.get("source")) == ("u", {"id": 1.1, "source": "AMC"})
    assert message_of(read_row(tmp_path, {"conversations": [{"from": "robot"}]})).startswith("is no sharegpt row")


@pytest.mark.parametrize(
    ("row", "question", "reference"),
    [
        ({"problem": "P", "solution": r"First \boxed{1}, $\boxed{\frac{1}{2}}$ {x}"}, "P", r"\frac{1}{2}"),
        ({"problem": "P", "answer": 1.10}, "P", "1.1"),
        ({"Body": "There are 3 boxes", "Question": "How many?", "Answer": 3.0}, "There are 3 boxes. How many?", "3"),
        ({"Body": "If x is 1", "Question": "How many?", "Answer": "one"}, "If x is 1, how many?", "one"),
        (MMLU, "Prime?\nA. 4\nB. 9\nC. 7\nD. 8", "C"),
        ({**MMLU, "answer": "7"}, "Prime?\nA. 4\nB. 9\nC. 7\nD. 8", "C"),
        ({**MMLU, "answer": -1}, "Prime?\nA. 4\nB. 9\nC. 7\nD. 8", None),
        ({"question": "Q", "choices": {"text": [1, "v"], "label": ["1", "2"]}, "answerKey": "2"}, "Q\nA. 1\nB. v", "B"),
        ({"question": "Q", "options": [4, 7.5], "answer": 4}, "Q\nA. 4\nB. 7.5", "A"),
        ({"question": "Q", "options": {"A": "x", "B": "y"}, "answer": "y"}, "Q\nA. x\nB. y", "B"),
        ({"question": "Q", "choices": [{"label": "1", "text": "x"}], "answerKey": "1"}, "Q\nA. x", "A"),
        ({**MMLU, "question": "Which? (A) 4 (B) 9 (C) 7 (D) 8"}, "Which? (A) 4 (B) 9 (C) 7 (D) 8", "C"),
        ({**MMLU, "question": "Is A = 4, B: 90?"}, "Is A = 4, B: 90?\nA. 4\nB. 9\nC. 7\nD. 8", "C"),
        ({"messages": ASKED, "choices": ["4", "9"], "answer": 1, "response": "9"}, None, "9 or B or 1"),
        ({"prompt": "Which?", "choices": ["4", "1"], "label": 1, "response": "1"}, None, None),
        ({"question": "Q", "options": ["A)5", "(B) six\nor 6"], "answer": "B"}, "Q\nA. 5\nB. six\nor 6", "B"),
        ({"instruction": "I", "input": "more", "output": "A"}, "I\n\nmore", None),
    ],
)
def test_format_of_a_data_set_reads_question_and_reference(tmp_path, row, question, reference):
    record = read_row(tmp_path, row)
    assert (record.prompt.question, record.reference) == (question, reference)


# --- what people add ---

TEXTS = ["It is 4.", "It is 5."]


@pytest.mark.parametrize(
    ("row", "reference"),
    [
        ({"question": "2+2?", "answer": "So.\n#### 4", "samples": TEXTS}, ["4"]),
        ({"Body": "", "Question": "2+2?", "Answer": 4.0, "generations": [[text] for text in TEXTS]}, ["4"]),
        ({"messages": ASKED, "gold": "7", "completions": [{"content": text} for text in TEXTS]}, ["7"]),
        ({"question": "2+2?", "choices": [{"message": {"content": text}} for text in TEXTS]}, []),
        ({"question": "2+2?", "answer": "#### 4", "response_1": TEXTS[0], "response_2": TEXTS[1]}, ["4"]),
    ],
)
def test_split_makes_a_list_of_samples_as_many_responses(tmp_path, row, reference):
    row |= {"id": 1.0, "is_correct": [1, 0], "score": [0, 1], "level": [1, 2]}
    row |= {"verified": [True, False], "finish_reasons": ["stop", "length"]}
    records = read_rows(tmp_path, row)
    said = [(record.get("verified"), record.tokur["finish_reason"]) for record in records]
    assert said == [(True, "stop"), (False, "length")]
    facts = [(r.response, r.sample, r.references, label_of(r)[0], r.get("level")) for r in records]
    assert facts == [(text, n, reference, n == 0, [1, 2]) for n, text in enumerate(TEXTS)]
    assert {(record.id, repr(record.prompt)) for record in records} == {("1", repr(records[0].prompt))}
    (whole,) = read_rows(tmp_path, row, whole=True)
    assert (whole.prompt, whole.get("response")) == (records[0].prompt, None)


def test_split_leaves_a_row_with_its_own_response_and_reads_a_list_that_is_named(tmp_path):
    for row in ({"samples": TEXTS}, {"choices": ["4", "5"], "answer": 0}, {"outputs": [1, 2]}, {"response_time": 3}):
        assert len(read_rows(tmp_path, {"question": "2+2?", "response": "4"} | row)) == 1
    row = {"question": "2+2?", "out": {"best_of": [{"text": text} for text in TEXTS]}}
    found = read_rows(tmp_path, row, mapping=FieldMapping(response="out.best_of"))
    assert [(record.response, record.sample) for record in found] == list(zip(TEXTS, (0, 1), strict=True))
    with pytest.raises(RecordError, match=r"names another field: out\.best_of$"):
        _ = read_row(tmp_path, row).response


@pytest.mark.parametrize("said", ["7", "8"])
def test_response_that_is_named_stands_in_place_of_the_assistants_last_turn(tmp_path, said):
    row = {"messages": [*ASKED, {"role": "assistant", "content": "7"}], "out": [{"text": said}]}
    record = read_row(tmp_path, row, mapping=FieldMapping(response="out.0.text"))
    assert (record.response, record.prompt.messages) == (said, ASKED)


@pytest.mark.parametrize(
    "failed", [{"response": None, "error": "limit"}, {"response": {}}, {"response": {"error": {}}}]
)
def test_recognise_goes_by_the_first_call_that_did_not_fail(tmp_path, failed):
    asked = {"request": {"messages": ASKED}}
    bad, good = read_rows(tmp_path, asked | failed, asked | {"response": BODY})
    assert message_of(bad)
    assert (good.response, good.prompt.messages) == ("7", ASKED)


@pytest.mark.parametrize(
    ("fields", "references"),
    [
        ({"answer": "7", "gt": 70.0}, ["70"]),
        ({"gold_answer": ["70", "seventy"]}, ["70", "seventy"]),
        ({"solution": r"So \boxed{70}"}, [r"So \boxed{70}"]),
        ({"solution": "It is seventy."}, []),
        ({"reference": "1", "answer": "2"}, ["1"]),
        ({"label": "correct"}, []),
        ({"answer": {"value": "James Joyce", "aliases": ["Joyce", "James Joyce"]}}, ["James Joyce", "Joyce"]),
        ({"answer": {"text": ["Joyce"], "answer_start": [3]}}, []),
    ],
)
def test_complete_finds_references_and_models_beside_a_response(tmp_path, fields, references):
    row = {"question": "7*10?", "response": "70", "model_name": "qwen"} | fields
    record = read_row(tmp_path, row)
    assert (record.references, record.tokur.get("model")) == (references, "qwen")
    del row["response"]
    kept = references if isinstance(fields.get("answer"), dict) or "reference" in fields else []
    assert read_row(tmp_path, row).references == kept


@pytest.mark.parametrize(
    ("row", "mapping", "expected"),
    [
        ({"a.b": {"c": "Q"}}, {"question": "a.b.c"}, {"question": "Q"}),
        ({"out": [{"text": "R"}]}, {"response": "out.0.text"}, {"response": "R"}),
        ({"gold": {"x": 42}}, {"reference": "gold.x"}, {"reference": "42"}),
        ({"q": "Q", "question": "old"}, {"question": "q"}, {"question": "Q", "source": {"question": "old"}}),
        ({"a": {"b": 1}}, {"question": "a.c"}, '--question-field a.c: there is no "c"'),
        ({"a": []}, {"response": "a"}, {"response": []}),
        ({"a": ["x", 1]}, {"response": "a"}, '"a[1]" is a number, not a string'),
    ],
)
def test_mapping_adds_fields_or_says_where_a_path_ends(tmp_path, row, mapping, expected):
    (record,) = read_rows(tmp_path, row, format="tokur", mapping=FieldMapping(**mapping))
    if isinstance(expected, str):
        assert message_of(record) == expected
    else:
        assert record.fields == row | expected


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
        for field in ("prompt", "response", "reference", "id", "sample", "token_ids", "turns"):
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
