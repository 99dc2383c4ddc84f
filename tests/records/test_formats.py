"""One trip a format, from files that the real programs wrote, and neighbours that are not taken for it."""

import contextlib
import json
import math

import pytest

from tests.helpers import parsed, write_lines
from tests.records.reading import DATA, changed, message_of, paths_in, read, read_row, read_rows, zstd_archive
from tokur_cli.answers.grading import label_of
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.formats import FORMATS, recognise
from tokur_cli.records.formats.logprobs import logged_logprobs
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record

ASKED = [{"role": "user", "content": "3+4?"}]
MMLU = {"question": "Prime?", "choices": ["4", "9", "7", "8"], "answer": 2}
BODY = {"model": "m", "choices": [{"message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}]}
SAID = {"generations": ["7"], "model": "m"}
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


def requests_of(name):
    path = DATA / name.replace(".", "_requests.")
    return str(path) if path.exists() else None


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
        ({"messages": ASKED, "response": {"text": "7"}}, "tokur"),
        ({"id": "q", "response": BODY}, "tokur"),  # without its request
        ({"question": "q", "input": "x", "output": "a"}, "tokur"),
        ({"model": "m", "message": {"content": "7"}}, "tokur"),  # of Ollama, without done
        ({"instruction": "i", "input": "q", "output": "a"}, "alpaca"),
        ({"question": "q", "answer": "1", "metadata": {"source_dataset": "x"}}, "tokur"),
    ],
)
def test_recognise_takes_no_neighbour_for_a_format(row, form):
    assert recognise(row).name == form


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
    records = read_rows(tmp_path, row)
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


# --- logs of services ---


@pytest.mark.parametrize(
    "row",
    [
        {"request": {"model": "m", "messages": ASKED}, "response": BODY},
        {"request": {"body": {"model": "m", "messages": ASKED}}, "response": {"status": 200, "body": BODY}},
        {"id": "x", "model": "m", "messages": ASKED, "response": BODY, "total_tokens": 9},
        {"id": "x", "input": ASKED, "output": {"role": "assistant", "content": "7"}, "model": "m"},
        {"id": "x", "input": {"messages": ASKED}, "output": "7", "model": "m"},
        {"origin_prompt": [{"role": "HUMAN", "prompt": "3+4?"}], "prediction": "7", "model": "m"},
        {"conversations": [{"from": "human", "value": "3+4?"}, {"from": "gpt", "value": "7"}], "model": "m"},
        {"conversations": [{"from": "human", "value": "3+4?"}, {"from": "gpt", "value": "x"}], **SAID},
        {"prompt": ASKED, "completion": "x", **SAID},
    ],
)
def test_logged_calls_hold_what_was_asked_and_answered(tmp_path, row):
    record = read_row(tmp_path, row)
    assert (record.prompt.messages, record.response, record.tokur.get("model")) == (ASKED, "7", "m")
    if "response" in row:  # calls with one prompt are samples of one question
        assert [record.sample for record in read_rows(tmp_path, row, row)] == [0, 1]


TOKENS = [("The", -0.1), (" sum", -0.25), (" is 7.", -0.5)]
LISTED = [{"token": text, "logprob": number, "bytes": list(text.encode())} for text, number in TOKENS]
SERVERS = {
    "llama.cpp": {
        "content": "The sum is 7.", "model": "m", "stop_type": "limit",
        "completion_probabilities": [{"id": 1, "token": t, "logprob": p, "top_logprobs": []} for t, p in TOKENS],
    },
    "llama.cpp before 2025": {
        "content": "The sum is 7.", "model": "m", "stopped_limit": True,
        "completion_probabilities": [
            {"content": t, "probs": [{"tok_str": "x", "prob": 0.01}, {"tok_str": t, "prob": math.exp(p)}]}
            for t, p in TOKENS
        ],
    },
    "SGLang": {
        "text": "The sum is 7.",
        "meta_info": {
            "finish_reason": {"type": "length", "length": 3},
            "output_token_logprobs": [[p, 1, t] for t, p in TOKENS],
            "output_top_logprobs": [[[-0.1, 1, "The"], [-2.5, 9, "It"]], None, None],
        },
    },
    "TGI": {
        "generated_text": "The sum is 7.",
        "details": {"finish_reason": "length", "tokens": [{"id": 1, "text": t, "logprob": p} for t, p in TOKENS]},
    },
    "Ollama": {
        "model": "m", "message": {"role": "assistant", "content": "The sum is 7."}, "done": True,
        "done_reason": "length", "logprobs": LISTED,
    },
    "Gemini": {
        "candidates": [{
            "content": {"parts": [{"text": "The sum is 7."}], "role": "model"}, "finishReason": "MAX_TOKENS",
            "logprobsResult": {"chosenCandidates": [{"token": t, "logProbability": p} for t, p in TOKENS]},
        }],
    },
    "Responses": {
        "object": "response", "incomplete_details": {"reason": "max_output_tokens"}, "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "The sum is 7.", "logprobs": LISTED}]}
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("server", SERVERS)
def test_completions_of_every_server_bring_log_probabilities(run_tokur, tmp_path, server):
    path = write_lines(tmp_path / "in.jsonl", [SERVERS[server]])
    code, out, err = run_tokur("score", "--from-logprobs", path)
    assert (code, err) == (0, "")
    (scored,) = parsed(out)
    assert scored["response"] == "The sum is 7."
    assert scored["tokur"]["tokens"]["logprob"] == pytest.approx([p for _, p in TOKENS])
    assert scored["tokur"]["tokens"]["offsets"] == [[0, 3], [3, 7], [7, 13]]
    assert scored["tokur"]["finish_reason"] == "length"


def test_logged_logprobs_are_found_behind_what_the_record_was_given_and_such_as_are_none_refused(tmp_path):
    def logged(logprobs):
        body = {"choices": [{"message": {"content": "The sum is 7."}, "logprobs": logprobs}]}
        row = {"custom_id": "a", "n": "q-7", "response": {"body": body}, "error": None}
        return [token.logprob for token in logged_logprobs(read_row(tmp_path, row, mapping=FieldMapping(id="n")))]

    texts, numbers = map(list, zip(*TOKENS, strict=True))
    for logprobs in ({"content": LISTED}, {"tokens": texts, "token_logprobs": numbers}):
        assert logged(logprobs) == numbers
    refused = {"none for its first": [None, -1, -1], "is 0 for every": [0, 0, 0], "of no probability": [-1, 0.5, -1]}
    for problem, given in refused.items():
        with pytest.raises(RecordError, match=problem):
            logged({"tokens": texts, "token_logprobs": given})


def test_completions_are_joined_in_order_and_bad_rows_keep_their_places(tmp_path, monkeypatch):
    def completion(text):
        return {"object": "chat.completion", "id": "x", "choices": [{"message": {"content": text}}]}

    asked = write_lines(tmp_path / "in.jsonl", [{"question": "a?"}, {"question": "b?"}, b"[\n", {"question": "b?"}])
    rows = ["{", completion("b"), completion("c"), completion("d")]
    first, second, third, fourth = read_rows(tmp_path, *rows, requests=str(asked))
    assert "is not valid JSON" in message_of(first)
    assert [(r.prompt.question, r.response, r.sample) for r in (second, fourth)] == [("b?", "b", 0), ("b?", "d", 1)]
    assert message_of(third).startswith(f"its request cannot be read: {asked}:3: ")
    monkeypatch.setattr("sys.stdin", open(tmp_path / "rows.jsonl"))  # noqa: SIM115 - read only once
    assert len(list(read_records("-", requests=str(asked)))) == 4
    for count in (1, 3):
        with pytest.raises(TokurError, match=r"\d requests, but \d completions"):
            read_rows(tmp_path, *[completion("b")] * count, requests=str(write_lines(asked, [{"question": "a?"}] * 2)))


def test_openai_batch_is_joined_with_its_requests_by_id(tmp_path):
    first, second, third, failed, expired = read("openai_batch.jsonl", requests=requests_of("openai_batch.jsonl"))
    assert [(r.id, r.sample, r.response, r.tokur["finish_reason"]) for r in (first, second)] == [
        ("q-2", 0, "11", "stop"), ("q-2", 1, "13", "length")
    ]  # fmt: skip
    assert [choice["index"] for choice in second.fields["source"]["response"]["body"]["choices"]] == [1]
    assert third.prompt.messages[0]["content"] == "What is 6 times 7?"
    assert message_of(failed) == "the request failed with status 400: Invalid model"
    assert message_of(expired).startswith("the request failed: This request could not be executed")
    chat, _ = read("vllm_batch.jsonl", requests=requests_of("vllm_batch.jsonl"))
    assert (chat.prompt, chat.token_ids, chat.response) == (Prompt(token_ids=[1, 4093, 198, 2]), [36, 34, 2], "42")
    requests = write_lines(tmp_path / "requests.jsonl", [{"custom_id": "b"}] * 2)
    row = {"custom_id": "a", "response": {"body": BODY}, "error": None}
    for lines, message in (
        ([{"x": 1}] * 2, "is this the batch's input file"),
        ([{"custom_id": "b"}] * 2, "some have one custom_id"),
    ):
        with pytest.raises(TokurError, match=message):
            read_row(tmp_path, row, requests=str(write_lines(requests, lines)))
    with pytest.raises(UsageError, match="is in the format gsm8k, which has its own prompts"):
        read("gsm8k.jsonl", requests=str(requests))


def test_logged_tokens_are_ids_strings_or_bytes(tmp_path):
    for logprobs, ids, strings in (
        ({"content": [{"token": "H", "bytes": [72]}, {"token": "\\xc3", "bytes": [195]}]}, None, ["H", b"\xc3"]),
        ({"content": [{"token": "token_id:7"}, {"token": "token_id:12"}]}, [7, 12], None),
        ({"tokens": ["H", "é", "bytes:\\xc3"], "token_logprobs": [-1, -2, -3]}, None, ["H", "é", b"\xc3"]),
        ({"content": [{"logprob": -1}]}, None, None),
    ):
        message = {"content": "\n\n4", "reasoning_content": "\n2+2\n"}
        choice = {"message": message, "stop_reason": "five", "finish_reason": "stop", "logprobs": logprobs}
        record = read_row(tmp_path, {"custom_id": "a", "response": {"body": {"choices": [choice]}}, "error": None})
        assert (record.token_ids, record.token_strings) == (ids, strings)
        assert (record.response, record.tokur["finish_reason"]) == ("<think>\n2+2\n</think>\n\n4", "stop_string")


def test_tools_and_withheld_reasoning_of_anthropic_are_understood(tmp_path):
    blocks = [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "4"}]
    row = {"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": "max_tokens"}
    tool = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
    asked = write_lines(tmp_path / "in.jsonl", [{"model": "m", "system": "S", "messages": ASKED, "tools": [tool]}])
    record = read_row(tmp_path, row, requests=str(asked))
    assert (record.response, record.tokur["finish_reason"], record.tokur["reasoning"]) == ("4", "length", "withheld")
    told = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
    assert record.prompt == Prompt(
        messages=[{"role": "system", "content": "S"}, *ASKED], tools=[{"type": "function", "function": told}]
    )
    search = {"name": "web_search", "type": "web_search_20250305"}
    write_lines(asked, [{"messages": ASKED, "tools": [tool, search]}])
    assert "has tools that are no functions" in message_of(read_row(tmp_path, row, requests=str(asked)))


# --- logs of evaluation programs ---


def test_lm_eval_verdicts_of_the_chosen_filter_are_the_labels():
    (figures,) = json.loads((DATA / "lm_eval_filters_results.json").read_text()).values()
    for name in ("strict-match", "flexible-extract"):
        labels = [label_of(record)[0] for record in read("lm_eval_filters.jsonl", filter=name)]
        assert (len(labels), sum(labels) / len(labels)) == (figures["sample_len"], figures[f"exact_match,{name}"])


def test_lm_eval_reads_one_filter_of_each_task_and_says_it(tmp_path):
    def rows(task, count, *filters):
        arguments = {"gen_args_0": {"arg_0": [json.dumps(ASKED)], "arg_1": {"task": task}}}
        common = {"doc": {}, "target": 4, "arguments": arguments}
        names = [(name, number) for name in filters for number in range(count)]
        return [{**common, "doc_id": n, "resps": [[f"{task} {n}"]], "filter": name} for name, n in names]

    several = rows("a", 2, "strict-match", "flexible-extract") + rows("b", 3, "none")
    notes = []
    records = read_rows(tmp_path, *several, note=notes.append)
    assert [record.response for record in records] == ["a 0", "a 1", "b 0", "b 1", "b 2"]
    assert (len({record.id for record in records}), records[0].prompt.messages) == (5, ASKED)
    assert "read the filter strict-match, none, not flexible-extract: --format" in notes[0]
    assert len(read_rows(tmp_path, *several, filter="flexible-extract")) == 2
    with pytest.raises(UsageError, match="no row has it; did you mean none"):
        read_rows(tmp_path, *several, filter="nome")
    (first, second) = read_rows(tmp_path, several[0] | {"arguments": [["A", {}], ["B", {}]], "resps": [["a"], ["b"]]})
    assert [(r.id, r.prompt.text, r.response) for r in (first, second)] == [("0-0", "A", "a"), ("0-1", "B", "b")]
    assert label_of(read_row(tmp_path, several[0] | {"metrics": ["bleu"], "bleu": 0.5}))[0] == 0.5
    assert "holds log-likelihoods" in message_of(read("lm_eval_loglikelihood.jsonl")[0])


@pytest.mark.parametrize("log", ["included", "graded", "failing", "reasoning", "tools", "several"])
def test_inspect_verdicts_are_the_labels_that_its_own_means_are_of(log):
    name = f"inspect_{log}.eval"
    records = read(name)
    with zstd_archive(DATA / name) as archive:
        scores = json.loads(archive.read("header.json"))["results"]["scores"]  # what Inspect computed for the whole log
    if len(scores) > 1:
        with pytest.raises(UsageError, match="choose the label with --label-field"):
            label_of(records[0])
    for score in scores:
        said = [field for field in FORMATS["inspect"].verdicts(records[0].fields) if score["name"] in field]
        labels = [label_of(record, said[0] if len(scores) > 1 else None)[0] for record in records]
        known = [label for label in labels if label is not None]
        mean = next(iter(score["metrics"].values()))["value"]
        assert (len(known), math.fsum(known) / len(known)) == (score["scored_samples"], pytest.approx(mean))


def test_inspect_samples_bring_reasoning_tools_attachments_and_failures(tmp_path):
    first, second = read("inspect_reasoning.eval")
    assert first.response == "<think>\n6 times 7 is 42.\n</think>\n\nIt is 42."
    assert [turn["role"] for turn in second.prompt.messages] == ["user"]
    (record,) = read("inspect_tools.eval")
    assert record.prompt.messages[2]["tool_calls"][0]["function"] == {"name": "add", "arguments": {"x": 21, "y": 21}}
    assert [tool["function"]["name"] for tool in record.prompt.tools] == ["add"]
    sample = json.loads((DATA / "inspect.json").read_text(encoding="utf-8"))["samples"][0]
    changes = [
        {"scores": {"match": {"value": math.nan}}},
        {"error": {"message": "out of memory"}, "output": {"model": "m", "choices": []}},
        {"input": "attachment://0123", "attachments": {"0123": "Why?"}},
        {"input": "attachment://0123"},
        {"error": {"message": "too late"}, "scores": None, "target": ["4", "5"]},
    ]
    log = {"version": 2, "status": "started", "samples": [{**sample, **change} for change in changes]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    notes = []
    nan, failed, kept, missing, late = read_records(str(tmp_path / "log.json"), note=notes.append)
    assert (nan.fields["scores"], nan.get("correct")) == ({"match": {"value": None}}, None)
    assert kept.get("question") == "Why?"
    assert (label_of(late, "scores.match.value"), late.references) == ((None, "scores.match.value"), ["4", "5"])
    with pytest.raises(RecordError, match=r"of this record; its scores are scores\.match\.value"):
        label_of(kept, "scores.other.value")
    assert (message_of(failed), "is missing" in message_of(missing)) == ("the sample failed: out of memory", True)
    assert ['the status "started"' in note for note in notes] == [True]


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
