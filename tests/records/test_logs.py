"""Logs of services and of evaluation programs, as they are read."""

import json
import math

import pytest

from tests.helpers import parsed, write_lines
from tests.records.reading import ASKED, BODY, DATA, message_of, read, read_row, read_rows, requests_of, zstd_archive
from tokur_cli.answers.grading import label_of
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.formats import FORMATS
from tokur_cli.records.formats.logprobs import logged_logprobs
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.reader import read_records

SAID = {"generations": ["7"], "model": "m"}

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
