"""Rows are read in the formats that people have them in, and every other field of theirs stays."""

import gzip
import json

import pytest

from tests.records.reading import DATA, EXPECTED_FORMAT, message_of, read, read_row, read_rows
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.answers.grading import grade
from tokur_cli.records.formats import FORMATS, recognise
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record


@pytest.mark.parametrize(("name", "form"), EXPECTED_FORMAT.items())
def test_the_format_is_recognised_from_the_first_row(name, form):
    first = json.loads((DATA / name).read_text(encoding="utf-8").partition("\n")[0])
    assert recognise(first).name == form


def test_every_format_is_named_and_described_for_the_help_text():
    assert set(FORMATS) == {
        *("tokur", "messages", "prompt-completion", "gsm8k", "math", "svamp", "humaneval"),
        *("lm-eval", "openai-batch", "completions", "inspect", "llm", "sharegpt", "alpaca", "choices", "reasoning-gym"),
        *("calls", "input-output", "opencompass"),
    }
    assert all(form.name == name and 20 < len(form.description) < 140 for name, form in FORMATS.items())


def test_gsm8k_rows_gain_the_final_answer():
    records = read("gsm8k.jsonl")
    assert [record.reference for record in records] == ["18", "3", "70000"]
    lines = (DATA / "gsm8k.jsonl").read_bytes().splitlines()
    assert [record.fields for record in records] == [
        json.loads(line) | {"reference": record.reference} for line, record in zip(lines, records, strict=True)
    ]
    assert records[0].prompt.question.startswith("Janet’s ducks lay 16 eggs per day.")


def test_math_rows_are_read_with_and_without_an_answer_field(tmp_path):
    records = read("math.jsonl")
    assert [record.reference for record in records] == [r"\left( 3, \frac{\pi}{2} \right)", "p - q", r"\frac{14}{3}"]
    assert records[0].id == "test/precalculus/807.json"
    assert records[0].prompt.question.startswith("Convert the point")
    original = {"problem": "P", "level": "Level 1", "type": "Algebra"}
    for solution, answer in [
        (r"So \boxed{7}.", "7"),
        (r"First \boxed{1}, then $\boxed{\frac{1}{\sqrt{2}}}$ {x}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    ]:
        assert read_row(tmp_path, {**original, "solution": solution}).reference == answer
    for solution in ("no box", r"\boxed{open"):
        assert "no complete \\boxed" in message_of(read_row(tmp_path, {**original, "solution": solution}))
    assert read_row(tmp_path, '{"problem": "P", "answer": 1.10}').reference == "1.1"


@pytest.mark.parametrize(
    "row",
    [
        {"problem": "2+2?", "answer": "5"},
        {"problem": "2+2?", "solution": "I do not know."},
        {"Body": "", "Question": "2+2?", "Answer": 5},
    ],
)
def test_a_reference_that_is_there_stays(tmp_path, row):
    record = read_row(tmp_path, {**row, "reference": "4", "response": "The answer is 5."})
    assert (record.prompt.question, record.reference) == ("2+2?", "4")
    assert "source" not in record.fields


def test_deepscaler_arrays_are_read_element_by_element(tmp_path):
    path = DATA / "deepscaler.json"
    records = read("deepscaler.json")
    assert [record.reference for record in records] == ["60", "15", "20"]
    lines = path.read_text(encoding="utf-8").splitlines()
    for index, record in enumerate(records):
        assert lines[record.line - 1].strip() == "{"
        assert record.source == f"{path}[{index}]"
        assert b"\n" not in record.encode()
        before = json.loads(path.read_bytes())[index]
        assert json.loads(record.encode()) == {**before, "question": before["problem"], "reference": before["answer"]}
    (tmp_path / "array.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf  \n" + path.read_bytes()))
    assert [record.encode() for record in read_records(str(tmp_path / "array.gz"))] == [r.encode() for r in records]


def test_svamp_questions_are_sentences():
    assert [(record.id, record.reference) for record in read("svamp.jsonl")] == [
        *(("chal-1", "51"), ("chal-2", "1"), ("chal-3", "17")),
    ]
    assert [record.prompt.question for record in read("svamp.jsonl")] == [
        "Each pack of dvds costs 76 dollars. If there is a discount of 25 dollars on each pack, "
        "how much do you have to pay to buy each pack?",
        "Dan had $ 3 left with him after he bought a candy bar. If he had $ 4 at the start, "
        "how much did the candy bar cost?",
        "Paco had 26 salty cookies and 17 sweet cookies. He ate 14 sweet cookies and 9 salty cookies. "
        "How many salty cookies did Paco have left?",
    ]


@pytest.mark.parametrize(
    ("body", "question", "answer", "expected"),
    [
        ("There are 3 boxes", "How many?", 3.5, ("There are 3 boxes. How many?", "3.5")),
        ("", "How many?", -2.0, ("How many?", "-2")),
        ("If x is 1,", "How many?", 1, ("If x is 1, How many?", "1")),
        ("If x is 1", "Ann has how many?", "one", ("If x is 1, Ann has how many?", "one")),
    ],
)
def test_svamp_sentences_are_joined_with_care(tmp_path, body, question, answer, expected):
    record = read_row(tmp_path, {"Body": body, "Question": question, "Answer": answer})
    assert (record.prompt.question, record.reference) == expected


def test_humaneval_prompts_are_questions():
    record = read("humaneval.jsonl")[0]
    assert record.id == "HumanEval/0"
    assert record.prompt == Prompt(question=record.fields["prompt"])
    assert record.fields["entry_point"] == "has_close_elements"


def test_the_last_assistant_turn_of_messages_is_the_response():
    one, two, three = read("messages.jsonl")
    assert (one.response, one.prompt.messages[-1]) == ("42", {"role": "user", "content": "What is 6 times 7?"})
    assert json.loads(one.encode())["source"] == "made by hand"
    assert (two.response, two.prompt.messages) == ("7", [{"role": "user", "content": "What is 3 + 4?"}])
    assert len(three.prompt.messages) == 2
    assert "response" not in three.fields


def test_prompt_and_completion_are_texts_or_turns(tmp_path):
    text, turns = read("prompt_completion.jsonl")
    assert (text.prompt, text.response) == (Prompt(text="The sky is"), " blue.")
    assert (turns.prompt.messages[0]["role"], turns.response) == ("system", "42")
    bad = read_row(tmp_path, {"prompt": "P", "completion": [{"role": "user", "content": "x"}]})
    assert message_of(bad) == 'is not a prompt-completion row: "completion" is not a single assistant turn'


ALL_FILES = [(name, {}) for name in (*EXPECTED_FORMAT, "deepscaler.json", "inspect.json", "inspect.eval")]


@pytest.mark.parametrize(("name", "options"), ALL_FILES)
def test_what_tokur_wrote_of_any_format_is_read_again_as_it_is(name, options, tmp_path):
    records = [record for record in read(name, **options) if isinstance(record, Record)]
    for record in records:
        record.set("tokur", {**record.tokur, "scores": {"tu": 1.0}})
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(record.encode() + b"\n" for record in records))
    for form in ("auto", "tokur", EXPECTED_FORMAT.get(name, "inspect")):
        again = list(read_records(str(path), format=form))
        assert [record.encode() for record in again] == [record.encode() for record in records]
        assert [record.identity() for record in again] == [record.identity() for record in records]


def test_a_field_of_the_row_with_another_meaning_is_kept_under_source(tmp_path):
    record = read_row(tmp_path, '{"problem": "P", "answer": "1", "id": 1.10, "unique_id": "u", "source": "AMC"}')
    assert record.encode().decode() == (
        '{"problem":"P","answer":"1","id":"u","unique_id":"u","source":{"id":1.1,"source":"AMC"}'
        ',"question":"P","reference":"1"}'
    )


def test_a_later_row_that_does_not_fit_names_format_and_field(tmp_path):
    rows = [
        {"question": "Q", "answer": "#### 1"},
        {"question": "Q"},
        {"question": 5, "answer": "#### 1"},
        {"answer": "1"},
    ]
    good, *bad = read_rows(tmp_path, *rows)
    assert good.reference == "1"
    assert [message_of(error) for error in bad] == [
        'is not a gsm8k row: "answer" is missing',
        'is not a gsm8k row: "question" is a number',
        'is not a gsm8k row: "question" is missing',
    ]


@pytest.mark.parametrize(
    ("row", "mapping", "expected"),
    [
        ('{"a.b": {"c": "Q"}}', {"question": "a.b.c"}, {"question": "Q"}),
        ('{"out": [{"text": "R"}]}', {"response": "out.0.text"}, {"response": "R"}),
        (
            '{"chat": [{"role": "user", "content": "Q"}]}',
            {"question": "chat"},
            {"messages": [{"role": "user", "content": "Q"}]},
        ),
        ('{"gold": 1.10}', {"reference": "gold"}, {"reference": "1.1"}),
        ('{"gold": {"x": 42}}', {"reference": "gold.x"}, {"reference": "42"}),
        ('{"gold": true}', {"reference": "gold"}, {"reference": "true"}),
        ('{"gold": null}', {"reference": "gold"}, {}),
        ('{"key": 5}', {"id": "key"}, {"id": 5}),
        ('{"q": "Q", "question": "old"}', {"question": "q"}, {"question": "Q", "source": {"question": "old"}}),
        (
            '{"q": "Q", "messages": []}',
            {"question": "q"},
            {"messages": None, "question": "Q", "source": {"messages": []}},
        ),
    ],
)
def test_mapped_fields_are_added_to_the_row(tmp_path, row, mapping, expected):
    record = read_row(tmp_path, row, format="tokur", mapping=FieldMapping(**mapping))
    assert json.loads(record.encode()) == {**json.loads(row), **expected}


@pytest.mark.parametrize(
    ("row", "mapping", "message"),
    [
        ({"a": {"b": 1}}, {"question": "a.c"}, '--question-field a.c: there is no "c"'),
        ({"a": [1]}, {"question": "a.1"}, '--question-field a.1: there is no "1"'),
        ({"a": "text"}, {"question": "a.b"}, '--question-field a.b: there is no "b"'),
        ({"a": 1}, {"question": "a"}, "--question-field a: is a number"),
        ({"a": True}, {"id": "a"}, "--id-field a: is a boolean"),
        ({"a": []}, {"response": "a"}, '"a" is empty'),
        ({"a": ["x", 1]}, {"response": "a"}, '"a[1]" is no text, and no object with text, content or response'),
        ({"a": {}}, {"reference": "a"}, "--reference-field a: is an object"),
        (
            {"a": "new", "response": "old", "tokur": {"token_ids": [1]}},
            {"response": "a"},
            '--response-field names another text than the one "tokur.token_ids" belongs to',
        ),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error_of_its_record(tmp_path, row, mapping, message):
    good = {"a": {"b": "Q", "c": "Q"}}
    first, _ = read_rows(tmp_path, row, good, format="tokur", mapping=FieldMapping(**mapping))
    assert message_of(first) == message


MMLU = {"question": "Which is a prime?", "choices": ["4", "9", "7", "8"], "answer": 2}


@pytest.mark.parametrize(
    "row",
    [
        MMLU,
        {**MMLU, "answer": "C"},
        {**MMLU, "answer": "7"},
        {"question": MMLU["question"], "options": MMLU["choices"], "answer": "C", "answer_index": 2},
        {
            "question": MMLU["question"],
            "choices": {"text": MMLU["choices"], "label": ["1", "2", "3", "4"]},
            "answerKey": "3",
        },
    ],
    ids=["a number from 0", "a letter", "a text", "MMLU-Pro", "ARC"],
)
def test_choices_are_asked_with_letters_and_the_reference_is_a_letter(tmp_path, row):
    record = read_row(tmp_path, row)
    assert record.prompt.question == "Which is a prime?\nA. 4\nB. 9\nC. 7\nD. 8"
    assert record.reference == "C"
    assert record.get("source") == {"question": "Which is a prime?"}
    assert (record.get("choices"), record.get("answer")) == (row.get("choices"), row.get("answer"))
    with Equivalence() as equivalence:
        outcomes = grade(((letter, record.reference) for letter in "CB"), equivalence)
        assert [outcome.correct for outcome in outcomes] == [True, False]


@pytest.mark.parametrize(
    ("row", "reference"),
    [
        ({"choices": [4, 9.5, 7, 8], "answer": 7}, "C"),
        ({"choices": [4, 9.5, 7, 8], "answer": 1}, "B"),
        ({"choices": ["1", "0", "3", "4"], "answer": 0}, "A"),
        ({"choices": ["B", "A", "C", "D"], "answerKey": "A"}, "A"),
    ],
    ids=["a value", "a place", "a place among texts of numbers", "a label"],
)
def test_choices_may_be_numbers_or_letters(tmp_path, row, reference):
    record = read_row(tmp_path, {"question": "Which?", **row})
    texts = [str(choice) for choice in row["choices"]]
    assert record.prompt.question == "Which?\n" + "\n".join(f"{'ABCD'[n]}. {text}" for n, text in enumerate(texts))
    assert record.reference == reference


def test_a_question_whose_answer_is_kept_secret_has_no_reference(tmp_path):
    for row in ({**MMLU, "answer": -1}, {**MMLU, "answer": ""}):
        record = read_row(tmp_path, row)
        assert (record.reference, record.prompt.question[-4:]) == (None, "D. 8")


def test_choices_beside_a_reference_are_a_users_own(tmp_path):
    row = {**MMLU, "reference": "7"}
    assert read_row(tmp_path, row).prompt.question == MMLU["question"]
