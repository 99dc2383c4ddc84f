"""Rows are read in the formats that people have them in, and every other field of theirs stays."""

import contextlib
import gzip
import json
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.formats import FORMATS, recognise
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record

if sys.version_info >= (3, 14):
    from compression.zstd import compress as zstd_compress
else:
    import zstandard

    def zstd_compress(data):
        return zstandard.ZstdCompressor().compress(data)


DATA = Path(__file__).parents[1] / "data" / "formats"

EXPECTED_FORMAT = {
    "gsm8k.jsonl": "gsm8k",
    "gsm8k_model_solutions.jsonl": "tokur",
    "math.jsonl": "math",
    "svamp.jsonl": "svamp",
    "humaneval.jsonl": "humaneval",
    "messages.jsonl": "messages",
    "prompt_completion.jsonl": "prompt-completion",
    "lm_eval_new.jsonl": "lm-eval",
    "lm_eval_old.jsonl": "lm-eval",
    "lm_eval_loglikelihood.jsonl": "lm-eval",
    "openai_batch.jsonl": "openai-batch",
    "vllm_batch.jsonl": "openai-batch",
}


def read(name, **options):
    return list(read_records(str(DATA / name), **options))


def read_rows(tmp_path, *rows, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return list(read_records(str(path), **options))


def read_row(tmp_path, row, **options):
    (record,) = read_rows(tmp_path, row, **options)
    return record


def message_of(error):
    assert isinstance(error, RecordError), error
    return error.message


@pytest.mark.parametrize(("name", "form"), EXPECTED_FORMAT.items())
def test_the_format_is_recognised_from_the_first_row(name, form):
    first = json.loads((DATA / name).read_text(encoding="utf-8").partition("\n")[0])
    assert recognise(first).name == form


def test_every_format_is_named_and_described_for_the_help_text():
    assert set(FORMATS) == {
        *("tokur", "messages", "prompt-completion", "gsm8k", "math", "svamp", "humaneval"),
        *("lm-eval", "openai-batch", "inspect"),
    }
    assert all(form.name == name and 20 < len(form.description) < 90 for name, form in FORMATS.items())


def test_gsm8k_rows_gain_the_final_answer():
    records = read("gsm8k.jsonl")
    assert [record.reference for record in records] == ["18", "3", "70000"]
    lines = (DATA / "gsm8k.jsonl").read_bytes().splitlines()
    assert [record.encode() for record in records] == [
        line[:-1] + b',"reference":"%s"}' % record.reference.encode()
        for line, record in zip(lines, records, strict=True)
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
    assert read_row(tmp_path, '{"problem": "P", "answer": 1.10}').reference == "1.10"


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


def test_an_element_that_is_no_record_is_an_error_in_its_place(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"question": "A"},\n 5,\n {"question" "B"}, {"question": "C"}]')
    first, second, third, fourth = read_records(str(path))
    assert (first.prompt.question, fourth.prompt.question) == ("A", "C")
    assert str(second) == f"{path}[1]:2: is a number, not a JSON object"
    assert str(third).startswith(f"{path}[2]:3: is not valid JSON")


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


@pytest.mark.parametrize("name", ["lm_eval_new.jsonl", "lm_eval_old.jsonl"])
def test_lm_eval_rows_give_a_record_a_repeat_and_only_one_filter_is_read(name):
    records = read(name)
    box = "Question: A box holds 12 apples. How many do 3 boxes hold?\nAnswer:"
    pens = "Question: Ann has 5 pens and buys 4. How many has she?\nAnswer:"
    assert [(r.line, r.id, r.sample, r.prompt.text, r.response, r.reference) for r in records] == [
        (1, "0", 0, box, " 3 x 12 = 36. #### 36", "36"),
        (1, "0", 1, box, " It is 35. #### 35", "36"),
        (2, "1", 0, pens, " 9", "9"),
        (2, "1", 1, pens, " 5 + 4 = 9. #### 9", "9"),
    ]
    assert {r.fields["filter"] for r in records} == {"strict-match"}
    assert records[1].fields["resps"] == [[records[1].response]]


def test_lm_eval_rows_without_responses_say_so():
    assert "log-likelihoods" in message_of(read("lm_eval_loglikelihood.jsonl")[0])


def test_lm_eval_prompts_stay_word_for_word_unless_a_chat_api_was_asked(tmp_path):
    turns = [{"role": "user", "content": "Why?"}]
    row = {"doc_id": 0, "doc": {}, "target": 5, "resps": [["So."]], "filter": "none"}
    template = "<|im_start|>user\nWhy?<|im_end|>\n"
    for prompt, expected in [
        (template, Prompt(text=template)),
        (json.dumps(turns), Prompt(text=json.dumps(turns))),
        ([json.dumps(turns)], Prompt(messages=turns)),
    ]:
        record = read_row(tmp_path, {**row, "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": []}}}})
        assert (record.prompt, record.reference) == (expected, "5")


def test_lm_eval_rows_with_several_requests_keep_them_apart(tmp_path):
    row = {"doc_id": 7, "doc": {}, "target": "t", "arguments": [["A", {}], ["B", {}]], "resps": [["a"], ["b"]]}
    records = read_rows(tmp_path, row)
    assert [(r.id, r.prompt.text, r.response, r.sample) for r in records] == [
        ("7-0", "A", "a", 0),
        ("7-1", "B", "b", 0),
    ]
    assert "2 arguments but 1 resps" in message_of(read_row(tmp_path, {**row, "resps": [["a"]]}))


def test_batch_output_is_joined_with_its_requests():
    first, second, third, failed, expired = read(
        "openai_batch.jsonl", requests=str(DATA / "openai_batch_requests.jsonl")
    )
    question = [{"role": "user", "content": "Name a prime above 10."}]
    assert [(r.id, r.sample, r.response, r.finish_reason, r.prompt.messages) for r in (first, second)] == [
        ("q-2", 0, "11", "stop", question),
        ("q-2", 1, "13", "length", question),
    ]
    assert (third.id, third.prompt.messages[0]["content"]) == ("q-1", "What is 6 times 7?")
    assert first.fields["source"]["id"] == "batch_req_q-2"
    assert [c["index"] for c in second.fields["source"]["response"]["body"]["choices"]] == [1]
    assert message_of(failed) == "the request failed with status 400: Invalid model"
    assert message_of(expired).startswith("the request failed: This request could not be executed")
    assert (failed.line, expired.line) == (3, 4)


def test_vllm_batch_output_brings_its_token_ids():
    chat, text = read("vllm_batch.jsonl", requests=str(DATA / "vllm_batch_requests.jsonl"))
    assert (chat.prompt, chat.token_ids, chat.response) == (Prompt(token_ids=[1, 4093, 198, 2]), [36, 34, 2], "42")
    assert chat.tokur["model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert (text.prompt, text.token_ids, text.response) == (Prompt(text="The sky is"), None, " blue.")


def test_batch_output_without_requests_says_which_option_to_give():
    record = read("openai_batch.jsonl")[0]
    with pytest.raises(RecordError, match="give the batch's input file with --requests"):
        _ = record.prompt


def test_requests_are_found_in_archives_too(tmp_path):
    path = tmp_path / "requests.gz"
    path.write_bytes(gzip.compress((DATA / "openai_batch_requests.jsonl").read_bytes()))
    assert read("openai_batch.jsonl", requests=str(path))[2].prompt.messages[0]["content"] == "What is 6 times 7?"


def batch_row(**choice):
    choice = {"index": 0, "finish_reason": "stop", **choice}
    return {"id": "x", "custom_id": "a", "response": {"status_code": 200, "body": {"choices": [choice]}}, "error": None}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (batch_row(message={"content": None, "refusal": "No."}), "holds no text but refusal"),
        (batch_row(message={"content": None, "tool_calls": [{}]}), "holds no text but tool calls"),
        (batch_row(message={"content": "4", "reasoning": "2+2"}), "run vLLM without --reasoning-parser"),
        (batch_row(text=5), '"response.body.choices[0].text" is a number, not a string'),
        ({**batch_row(), "response": {"body": {"object": "list"}}}, "no choices, but is 'list'"),
        ({**batch_row(), "response": 5}, '"response" is a number'),
    ],
)
def test_batch_rows_that_hold_no_response_say_what_they_hold(tmp_path, row, message):
    assert message in message_of(read_row(tmp_path, row, format="openai-batch"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": "P", "echo": True}, "requests.jsonl:1) asked for echo"),
        ({"prompt": ["P", "Q"]}, "requests.jsonl:1) has neither messages nor a single prompt"),
        (None, "requests.jsonl:1) has no body"),
    ],
)
def test_requests_that_tell_no_prompt_are_named(tmp_path, body, message):
    requests = tmp_path / "requests.jsonl"
    requests.write_text(json.dumps({"custom_id": "a", "body": body}))
    assert message in message_of(read_row(tmp_path, batch_row(text="t"), requests=str(requests)))


def test_prompts_of_requests_may_be_lists_of_one_or_token_ids(tmp_path):
    requests = tmp_path / "requests.jsonl"
    for prompt, expected in [
        (["P"], Prompt(text="P")),
        ([1, 2], Prompt(token_ids=[1, 2])),
        ([[1, 2]], Prompt(token_ids=[1, 2])),
    ]:
        requests.write_text(json.dumps({"custom_id": "a", "body": {"prompt": prompt}}))
        assert read_row(tmp_path, batch_row(text="t"), requests=str(requests)).prompt == expected


def test_wrong_requests_are_errors(tmp_path):
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"custom_id": "b"}\n\n{"custom_id": "b"}\n')
    with pytest.raises(
        TokurError, match=r"requests\.jsonl:3: a second request with custom_id 'b'; the first is on line 1"
    ):
        read_row(tmp_path, batch_row(text="t"), requests=str(requests))
    requests.write_text('{"question": "b"}\n')
    with pytest.raises(
        TokurError, match=r"requests\.jsonl:1: \"custom_id\" is missing; is this the batch's input file"
    ):
        read_row(tmp_path, batch_row(text="t"), requests=str(requests))
    requests.write_text('{"custom_id": "b"}\n')
    error = read_row(tmp_path, batch_row(text="t"), requests=str(requests))
    assert message_of(error).endswith("requests.jsonl has no request with custom_id 'a'")
    with pytest.raises(UsageError, match="is in the format gsm8k, which has its own prompts"):
        read("gsm8k.jsonl", requests=str(requests))
    with pytest.raises(UsageError, match="cannot both be read from standard input"):
        read_records("-", requests="-")


INSPECTED = [
    ("1", 0, "42", "42", "stop", "What is 6 times 7?"),
    ("1", 1, "About 40.", "42", "length", "What is 6 times 7?"),
    ("sky", 0, "Blue.", "blue", "stop", "What colour is the sky?"),
]


def inspected(records):
    return [
        (r.id, r.sample, r.response, r.reference, r.finish_reason, r.prompt.messages[-1]["content"]) for r in records
    ]


@pytest.mark.parametrize("name", ["inspect.json", "inspect.eval"])
def test_inspect_logs_are_read_sample_by_sample(name):
    records = read(name)
    assert inspected(records) == INSPECTED
    assert len(records[2].prompt.messages) == 2
    assert all(b"\n" not in record.encode() for record in records)


def test_inspect_archives_are_read_from_standard_input(monkeypatch):
    with open(DATA / "inspect.eval", encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        records = list(read_records("-"))
    assert inspected(records) == INSPECTED
    assert records[0].source == "<stdin>/samples/1_epoch_1.json"


def zstd_archive(path, members):
    """An archive as Inspect writes it, with zstd members, which older zipfile modules cannot write."""
    body, directory = b"", b""
    for name, data in members:
        packed, crc = zstd_compress(data), zlib.crc32(data)
        common = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, crc, len(packed), len(data), len(name), 0)
        directory += b"PK\1\2" + struct.pack("<H", 63) + common + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name
        body += b"PK\3\4" + common + name + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.write_bytes(body + directory + b"PK\5\6" + end)


def test_inspect_archives_of_zstd_members_are_read(tmp_path):
    with zipfile.ZipFile(DATA / "inspect.eval") as archive:
        members = [(name.encode(), archive.read(name)) for name in archive.namelist()]
    zstd_archive(tmp_path / "log.eval", members)
    assert inspected(read_records(str(tmp_path / "log.eval"))) == INSPECTED
    data = bytearray((tmp_path / "log.eval").read_bytes())
    data[data.index(b"PK\3\4", 4) + 14] ^= 1  # the second member's checksum in its own header is not what counts
    data[data.index(b"PK\1\2", data.index(b"PK\1\2") + 4) + 16] ^= 1  # but the one in the directory
    (tmp_path / "log.eval").write_bytes(data)
    with pytest.raises(TokurError, match=r"log\.eval: is not an Inspect log that can be read: .*checksum"):
        list(read_records(str(tmp_path / "log.eval")))


def test_a_cut_inspect_archive_is_an_error(tmp_path):
    (tmp_path / "log.eval").write_bytes((DATA / "inspect.eval").read_bytes()[:-100])
    with pytest.raises(TokurError, match=r"log\.eval: is not an Inspect log that can be read"):
        list(read_records(str(tmp_path / "log.eval")))


def test_inspect_samples_with_missing_scores_or_odd_turns(tmp_path):
    sample = json.loads((DATA / "inspect.json").read_text(encoding="utf-8"))["samples"][0]
    changes = {
        "NaN scores": ({"scores": {"match": {"value": float("nan")}}}, None),
        "failed": ({"error": {"message": "out of memory"}}, "the sample failed: out of memory"),
        "no output": ({"output": {"model": "m", "choices": []}}, '"output.choices" is empty'),
        "no conversation": ({"messages": []}, None),
        "attachment": ({"input": "attachment://0123"}, '"input" is stored as an attachment'),
    }
    log = {"version": 2, "status": "success", "samples": [{**sample, **change} for change, _ in changes.values()]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    records = list(read_records(str(tmp_path / "log.json")))
    for record, (_, message) in zip(records, changes.values(), strict=True):
        if message is not None:
            assert message in message_of(record)
    assert records[0].fields["scores"] == {"match": {"value": None}}
    assert records[3].prompt == Prompt(question="What is 6 times 7?")


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
        assert [record.passthrough() for record in again] == [record.passthrough() for record in records]


def test_a_field_of_the_row_with_another_meaning_is_kept_under_source(tmp_path):
    record = read_row(tmp_path, '{"problem": "P", "answer": "1", "id": 1.10, "unique_id": "u", "source": "AMC"}')
    assert record.encode().decode() == (
        '{"problem": "P", "answer": "1", "id": "u", "unique_id": "u", "source": {"id":1.10,"source":"AMC"}'
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


def test_the_format_can_be_given(tmp_path):
    row = {"question": "Q", "answer": "#### 1"}
    assert read_row(tmp_path, row, format="tokur").reference is None
    assert 'is not a svamp row: "Body" is missing' in message_of(read_row(tmp_path, row, format="svamp"))
    with pytest.raises(UsageError, match=r"--format csv: there is no such format; it is one of auto, tokur, .*gsm8k"):
        read_records("anything", format="csv")


def test_fields_are_mapped_by_dotted_paths():
    mapping = FieldMapping(response="6b_finetuning.solution", reference="ground_truth")
    record = read("gsm8k_model_solutions.jsonl", mapping=mapping)[0]
    assert record.response.startswith("Janet eats 3 ducks eggs")
    assert record.reference.endswith("A: 18")


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
        ('{"gold": 1.10}', {"reference": "gold"}, {"reference": "1.10"}),
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
        ({"a": ["x"]}, {"response": "a"}, "--response-field a: is a list"),
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


FUZZED = {
    **{name: json.loads((DATA / name).read_text(encoding="utf-8").partition("\n")[0]) for name in EXPECTED_FORMAT},
    "inspect": json.loads((DATA / "inspect.json").read_text(encoding="utf-8"))["samples"][0],
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
    form = EXPECTED_FORMAT.get(name, name)
    for record in read_rows(tmp_path, wrong, format=form, requests=requests):
        assert (record.source, record.line) == (str(tmp_path / "rows.jsonl"), 1)
        if isinstance(record, RecordError):
            continue
        for field in ("prompt", "response", "reference", "id", "sample", "finish_reason", "token_ids"):
            with contextlib.suppress(RecordError):
                getattr(record, field)
        again = Record.parse(record.encode(), None, None)
        assert again.passthrough() == record.passthrough()


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
    good = '{"question": "line\u2028separator", "n": 1.10}'.encode()
    with path.open("wb") as file:
        for line in ZOO:
            file.write(good + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\r\n\n")
    rows = list(read_records(str(path)))
    assert len(rows) == 2 * len(ZOO)
    for number, (record, error) in enumerate(zip(rows[::2], rows[1::2], strict=True)):
        assert (record.line, record.encode()) == (3 * number + 1, good)
        assert isinstance(error, RecordError), ZOO[number][:60]
        assert (error.source, error.line) == (str(path), 3 * number + 2)
        assert len(str(error)) < 400


@pytest.mark.parametrize("first", [line for line in ZOO if len(line) < 1000 and line != WHOLE_ARRAY])
def test_a_broken_first_line_does_not_end_the_stream(tmp_path, first):
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        (first if isinstance(first, bytes) else first.encode()) + b'\n{"question": "Q", "answer": "#### 1"}\n'
    )
    error, record = read_records(str(path))
    assert isinstance(error, RecordError)
    assert (record.line, record.reference) == (2, "1")
