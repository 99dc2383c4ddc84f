"""Files as people have them are read for what they are, and their neighbours are not taken for them."""

import json
import math

import pytest

from tests.helpers import parsed, write_lines
from tests.records.reading import message_of, read_row, read_rows
from tokur_cli.records.errors import RecordError
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.reader import read_records

TEXTS = ["It is 4.", "It is 5."]


def facts(record):
    return (record.response, record.sample, record.references, record.get("correct"))


@pytest.mark.parametrize(
    "samples",
    [
        {"samples": TEXTS},
        {"generations": [[text] for text in TEXTS]},
        {"outputs": [{"text": text} for text in TEXTS]},
        {"completions": [{"content": text} for text in TEXTS]},
        {"choices": [{"index": n, "message": {"role": "assistant", "content": t}} for n, t in enumerate(TEXTS)]},
        {"response_1": TEXTS[0], "response_2": TEXTS[1]},
    ],
)
@pytest.mark.parametrize(
    ("question", "reference"),
    [
        ({"question": "2+2?", "answer": "So.\n#### 4"}, ["4"]),
        ({"problem": "2+2?", "answer": 4}, ["4"]),
        ({"Body": "", "Question": "2+2?", "Answer": 4.0}, ["4"]),
        ({"messages": [{"role": "user", "content": "2+2?"}], "gold": "4"}, ["4"]),
        ({"question": "2+2?"}, []),
    ],
)
def test_a_list_of_samples_is_as_many_responses_to_one_question(tmp_path, samples, question, reference):
    """The reference is read by the rule of the question's data set."""
    records = read_rows(tmp_path, question | samples | {"id": 1.0})
    assert [facts(record) for record in records] == [(text, n, reference, None) for n, text in enumerate(TEXTS)]
    assert {record.id for record in records} == {"1"}
    assert len({repr(record.prompt) for record in records}) == 1


@pytest.mark.parametrize("verdicts", [{"score": [True, False]}, {"is_correct": [1, 0]}, {"correct": [True, False]}])
def test_verdicts_and_log_probabilities_go_with_their_samples(tmp_path, verdicts):
    logprobs = [[{"token": text, "logprob": -1.0}] for text in TEXTS]
    row = {"question": "2+2?", "samples": TEXTS, "logprobs": logprobs, "level": [1, 2]} | verdicts
    first, second = read_rows(tmp_path, row)
    assert (facts(first)[3], facts(second)[3]) == (True, False)
    assert (second.get("logprobs"), second.get("samples"), second.get("level")) == (logprobs[1], [TEXTS[1]], [1, 2])


@pytest.mark.parametrize(
    "row",
    [
        {"question": "2+2?", "response": "It is 4.", "samples": TEXTS},
        {"question": "2+2?", "choices": ["4", "5"], "answer": 0, "response": "It is 4."},
        {"question": "2+2?", "outputs": [1, 2], "response": "It is 4."},
        {"question": "2+2?", "response_time": 3, "response": "It is 4."},
        {"question": "2+2?", "samples": TEXTS, "response": "It is 4.", "tokur": {"sample": 0}},
    ],
)
def test_a_row_with_its_own_response_is_one_response(tmp_path, row):
    assert [record.response for record in read_rows(tmp_path, row)] == ["It is 4."]


def test_response_field_may_name_any_list_of_samples_and_the_hint_names_the_list(tmp_path):
    row = {"question": "2+2?", "out": {"best_of": [{"text": text} for text in TEXTS]}}
    found = read_rows(tmp_path, row, mapping=FieldMapping(response="out.best_of"))
    assert [facts(record)[:2] for record in found] == [(text, n) for n, text in enumerate(TEXTS)]
    with pytest.raises(RecordError, match=r"names another field: out\.best_of$"):
        _ = read_row(tmp_path, row).response


@pytest.mark.parametrize(
    ("fields", "references"),
    [
        ({"answer": "70"}, ["70"]),
        ({"answer": "7", "gt": "70"}, ["70"]),
        ({"ground_truth": 70}, ["70"]),
        ({"target": 70.0}, ["70"]),
        ({"gold_answer": ["70", "seventy"]}, ["70", "seventy"]),
        ({"solution": r"So \boxed{70}"}, [r"So \boxed{70}"]),
        ({"label": "Paris"}, ["Paris"]),
        ({"reference": "1", "answer": "2"}, ["1"]),
        ({"solution": "It is seventy."}, []),
        ({"label": "correct"}, []),
        ({"label": 1}, []),
        ({"answer": ""}, []),
        ({"answer": {"text": "70"}}, []),
    ],
)
@pytest.mark.parametrize("ours", [{}, {"tokur": {"scores": {"ll": 1}}}])
def test_references_stand_under_everyday_names_beside_a_response(tmp_path, fields, references, ours):
    row = {"question": "7*10?", "response": "70"} | fields | ours
    assert read_row(tmp_path, row).references == references
    del row["response"]
    assert read_row(tmp_path, row).references == ([row["reference"]] if "reference" in row else []), (
        "no response, no reference"
    )


def test_question_of_triviaqa_has_its_value_and_aliases_as_references(run_tokur, tmp_path):
    answer = {"value": "James Joyce", "aliases": ["Joyce", "James Joyce"], "normalized_aliases": ["joyce"]}
    row = {"question": "Who wrote Dubliners?", "question_id": "tc_1", "answer": answer, "entity_pages": {}}
    assert read_row(tmp_path, row).references == ["James Joyce", "Joyce"]
    assert read_row(tmp_path, row | {"answer": {"text": ["Joyce"], "answer_start": [3]}}).references == []
    said = ["The answer is Joyce.", "The answer is James Joyce.", "The answer is Beckett."]
    path = write_lines(tmp_path / "in.jsonl", [row | {"samples": said}])
    code, _, err = run_tokur("evaluate", path, "--graded", tmp_path / "graded.jsonl")
    assert (code, "2 correct, 1 incorrect" in err) == (0, True), err


def test_a_row_names_the_model_that_wrote_it(tmp_path):
    for name in ("model", "model_name", "model_id"):
        row = {"question": "q", "response": "r", name: "qwen"}
        assert read_row(tmp_path, row).computed("model") == "qwen"
        assert read_row(tmp_path, row | {"tokur": {"model": "ours"}}).computed("model") == "ours"
        assert read_row(tmp_path, {"question": "q", name: "qwen"}).computed("model") is None


ASKED = [{"role": "user", "content": "3+4?"}]
COMPLETION = {"model": "m", "choices": [{"message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "row",
    [
        {"request": {"model": "m", "messages": ASKED}, "response": COMPLETION},
        {"request": {"body": {"model": "m", "messages": ASKED}}, "response": {"status": 200, "body": COMPLETION}},
        {"id": "x", "model": "m", "messages": ASKED, "response": COMPLETION, "total_tokens": 9},
        {"id": "x", "input": ASKED, "output": {"role": "assistant", "content": "7"}, "model": "m"},
        {"id": "x", "input": {"messages": ASKED}, "output": "7", "model": "m"},
    ],
)
def test_logged_calls_hold_what_was_asked_and_what_was_answered(tmp_path, row):
    record = read_row(tmp_path, row)
    assert (record.prompt.messages, record.response, record.computed("model")) == (ASKED, "7", "m")


def test_logged_calls_are_not_taken_for_others(tmp_path):
    assert "failed" in message_of(read_row(tmp_path, {"custom_id": "a", "response": {"status_code": 500, "body": {}}}))
    assert read_row(tmp_path, {"input": "Q", "output": "A"}).prompt.question == "Q"
    assert read_row(tmp_path, {"instruction": "I", "input": "Q", "output": "A"}).prompt.question == "I\n\nQ"
    assert read_row(tmp_path, {"question": "Q", "input": "x", "output": "A", "response": "R"}).response == "R"
    with pytest.raises(RecordError, match='"response" is an object, not a string'):
        _ = read_row(tmp_path, {"messages": ASKED, "response": {"text": "7"}}).response


TOKENS = [("The", -0.1), (" sum", -0.25), (" is 7.", -0.5)]
SERVERS = {
    "llama.cpp": {
        "content": "The sum is 7.", "model": "m", "prompt": "3+4?", "stop_type": "limit",
        "completion_probabilities": [{"id": 1, "token": t, "logprob": p, "top_logprobs": []} for t, p in TOKENS],
    },
    "llama.cpp before 2025": {
        "content": "The sum is 7.", "model": "m", "prompt": "3+4?", "stopped_limit": True,
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
        "done_reason": "length", "logprobs": [{"token": t, "logprob": p, "bytes": list(t.encode())} for t, p in TOKENS],
    },
    "Gemini": {
        "candidates": [{
            "content": {"parts": [{"text": "The sum is 7."}], "role": "model"}, "finishReason": "MAX_TOKENS",
            "logprobsResult": {"chosenCandidates": [{"token": t, "logProbability": p} for t, p in TOKENS]},
        }],
        "modelVersion": "m",
    },
}  # fmt: skip


@pytest.mark.parametrize("server", SERVERS)
def test_log_probabilities_are_read_as_servers_write_them(run_tokur, tmp_path, server):
    row = SERVERS[server]
    code, out, err = run_tokur("score", "--from-logprobs", write_lines(tmp_path / "in.jsonl", [row]))
    assert (code, err) == (0, "")
    (scored,) = parsed(out)
    assert scored["response"] == "The sum is 7."
    assert scored["tokur"]["tokens"]["logprob"] == pytest.approx([p for _, p in TOKENS])
    assert scored["tokur"]["tokens"]["offsets"] == [[0, 3], [3, 7], [7, 13]]
    assert scored["tokur"]["finish_reason"] == "length"
    asked = write_lines(tmp_path / "asked.jsonl", [{"question": "3+4?", "reference": "7"}])
    (record,) = read_records(str(tmp_path / "in.jsonl"), requests=str(asked))
    assert (record.prompt.question, record.references, record.response) == ("3+4?", ["7"], "The sum is 7.")


@pytest.mark.parametrize(
    ("pieces", "scored"),
    [
        (["<think>", "a b", "</think>", "7"], ["<think>", "a b", "</think>", "7"]),
        (["a", " b", "</think>\n\n", "7"], ["a", " b", "\n</think>\n\n", "7"]),
        (["7"], ["7"]),
        (["6"], None),
        (["a b", " and much that neither the reasoning nor the content has, so another text", "7"], None),
    ],
)
def test_log_probabilities_of_reasoning_in_a_field_of_its_own(run_tokur, tmp_path, pieces, scored):
    message = {"role": "assistant", "content": "7", "reasoning_content": "a b"}
    logged = {"content": [{"token": piece, "logprob": -0.5} for piece in pieces]}
    body = {"model": "m", "choices": [{"message": message, "logprobs": logged}]}
    row = {"custom_id": "x", "response": {"status_code": 200, "body": body}, "error": None}
    code, out, err = run_tokur("score", "--from-logprobs", write_lines(tmp_path / "in.jsonl", [row]))
    if scored is None:
        assert (code, "of another text than its response" in err) == (1, True)
        return
    (record,) = parsed(out)
    found = [record["response"][start:end] for start, end in record["tokur"]["tokens"]["offsets"]]
    assert (found[-1], len(found)) == ("7", len(scored))
    assert [text.strip() for text in found if "think" not in text] == [t.strip() for t in scored if "think" not in t]


def test_an_object_of_rows_is_read_row_by_row(tmp_path):
    turns = [{"role": "HUMAN", "prompt": "3*4?"}]
    rows = {str(n): {"origin_prompt": turns, "prediction": f"It is {n}.", "gold": "12"} for n in range(3)}
    for indent in (None, 1):
        (tmp_path / "in.json").write_text(json.dumps(rows, indent=indent))
        records = list(read_records(str(tmp_path / "in.json")))
        assert [record.response for record in records] == ["It is 0.", "It is 1.", "It is 2."]
        assert records[1].prompt.messages == [{"role": "user", "content": "3*4?"}]
        assert {record.reference for record in records} == {"12"}
    assert len(read_rows(tmp_path, {"id": "0", "question": "q"}, {"id": "1", "question": "q"})) == 2


def test_a_file_of_samples_goes_through_select_and_evaluate(run_tokur, tmp_path):
    rows = [
        {"question": f"{n}+1?", "gt": n + 1, "code": [f"It is {n + 1}.", f"It is {n}.", f"It is {n + 1}."]}
        for n in range(4)
    ]
    path = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur("select", path, "--method", "maj", "--keep", "100%")
    assert code == 0, err
    assert [record["tokur"]["answer"] for record in parsed(out)] == ["1", "2", "3", "4"]
    code, _, err = run_tokur("evaluate", path, "--graded", tmp_path / "graded.jsonl")
    assert (code, "8 correct, 4 incorrect" in err) == (0, True), err
