"""Logs that the real programs wrote (``tests/data/formats/make_*.py``) are read as those programs mean them."""

import json
import math
import sys
import zipfile

import pytest

from tests.records.reading import DATA, message_of, read, read_row, read_rows
from tokur_cli.answers.grading import label_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.reader import read_rows as rows_of
from tokur_cli.records.streams import open_zstd


def header(name):
    """What Inspect computed for the whole log, from its own file in the archive."""
    with zipfile.ZipFile(DATA / name) as archive:
        member = archive.getinfo("header.json")
        if sys.version_info >= (3, 14):
            return json.loads(archive.read(member))
        member.compress_type, member.CRC = zipfile.ZIP_STORED, None
        member.file_size = member.compress_size
        with open_zstd(archive.open(member), name) as contents:
            return json.loads(contents.read())


def shown(name):
    """Inspect's own figures: (scorer, how many samples it scored, the mean) by the scorer's name."""
    return {
        score["name"]: (score["scored_samples"], next(iter(score["metrics"].values()))["value"])
        for score in header(name)["results"]["scores"]
    }


def counted(name, field=None):
    """How many of a log's records have a label, and the labels' mean."""
    labels = [label_of(record.fields, field).value for record in read(name)]
    known = [label for label in labels if label is not None]
    return len(known), pytest.approx(math.fsum(known) / len(known))


@pytest.mark.parametrize("log", ["included", "graded", "failing", "reasoning", "tools"])
def test_labels_are_the_verdicts_of_the_logs_only_scorer(log):
    (figures,) = shown(f"inspect_{log}.eval").values()
    assert counted(f"inspect_{log}.eval") == figures


def test_of_several_scorers_one_is_chosen_by_a_path_that_the_error_names():
    name = "inspect_several.eval"
    with pytest.raises(UsageError) as refused:
        label_of(read(name)[0].fields)
    said = str(refused.value).partition("--label-field ")[2].split(" or ")
    figures = shown(name)
    assert len(said) == len(figures) == 5
    for field in said:
        assert counted(name, field) == figures[field.removesuffix(".value").rpartition(".")[2]]
    with pytest.raises(RecordError, match=r"its scores are scores\.includes\.value, "):
        label_of(read(name)[0].fields, "scores.exact.value")


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("C", 1),
        ("P", 0.5),
        ("I", 0),
        ("N", 0),
        ("yes", 1),
        ("FALSE", 0),
        ("0.25", 0.25),
        (True, 1),
        (0.75, 0.75),
        (1, 1),
        (math.nan, None),
    ],
)
def test_values_count_as_in_inspects_metrics(tmp_path, value, label):
    """Its ``value_to_float`` as documented; NaN is what it writes where a grader failed."""
    sample = {"id": 1, "epoch": 1, "input": "Q", "target": "", "output": {"choices": [{"message": {"content": "A"}}]}}
    log = {"version": 2, "status": "success", "samples": [{**sample, "scores": {"s": {"value": value}}}]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    (record,) = read(tmp_path / "log.json")
    assert label_of(record.fields).value == label == label_of(record.fields, "scores.s.value").value


def test_a_sample_whose_grading_failed_keeps_its_response_and_has_no_label():
    done, failed = read("inspect_failing.eval")
    assert (done.fields["correct"], failed.fields["correct"], failed.response) == (True, None, "Blue.")
    assert label_of(failed.fields, "scores.breaks.value").value is None


def test_reasoning_and_text_are_one_response():
    first, second = read("inspect_reasoning.eval")
    assert first.response == "<think>\n6 times 7 is 42.\n</think>\n\nIt is 42."
    assert second.response == "<think>\nRayleigh scattering.\n\nSo blue.\n</think>\n\nGreen."
    assert [turn["role"] for turn in second.prompt.messages] == ["user"]


def test_tools_and_their_calls_are_told_as_chat_templates_know_them():
    (record,) = read("inspect_tools.eval")
    prompt = record.prompt
    (call,) = prompt.messages[2]["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": {"x": 21, "y": 21}}
    assert [turn["role"] for turn in prompt.messages] == ["system", "user", "assistant", "tool"]
    (tool,) = prompt.tools
    assert tool["type"] == "function"
    assert (tool["function"]["name"], list(tool["function"]["parameters"]["properties"])) == ("add", ["x", "y"])


def test_reasoning_that_was_withheld_is_said_and_not_made_up(tmp_path):
    content = [{"type": "reasoning", "reasoning": "gAAAA", "redacted": True}, {"type": "text", "text": "4"}]
    output = {"model": "m", "choices": [{"message": {"role": "assistant", "content": content}}]}
    record = read_row(tmp_path, {"id": 1, "epoch": 1, "input": "Q", "target": "T", "output": output})
    assert (record.response, record.tokur["reasoning"]) == ("4", "withheld")


def test_lm_evals_metric_is_the_label():
    for name in ("lm_eval_samples.jsonl", "lm_eval_chat.jsonl"):
        rows = [row.fields for row in rows_of(str(DATA / name)) if row.fields["filter"] == "strict-match"]
        records = read(name)
        assert [label_of(record.fields).value for record in records] == [row["exact_match"] for row in rows]
        assert sum(row["exact_match"] for row in rows) == 1


def test_llms_logs_are_chats_and_a_conversation_goes_on():
    system = {"role": "system", "content": "Be brief."}
    first, second, third = read("llm_logs.json")
    assert first.prompt.messages == [system, {"role": "user", "content": "Name a prime above 10."}]
    assert second.prompt.messages == [{"role": "user", "content": "What is 6 times 7?"}]
    assert third.prompt.messages == [
        *second.prompt.messages,
        {"role": "assistant", "content": second.response},
        {"role": "user", "content": "And 6 times 8?"},
    ]
    assert third.tokur["model"] == "parrot"


def test_a_conversation_that_began_before_the_logs_is_an_error(tmp_path):
    rows = json.loads((DATA / "llm_logs.json").read_text(encoding="utf-8"))
    late, *_ = read_rows(tmp_path, rows[2])
    assert message_of(late) == "its conversation began before these logs: print all of them, llm logs --json -n 0"
    with_file = read_row(tmp_path, {**rows[0], "attachments": [{"type": "image/png"}]})
    assert message_of(with_file) == 'its prompt had "attachments", which are not read'


def test_batches_of_the_responses_api_are_joined_with_their_requests():
    requests = str(DATA / "openai_responses_requests.jsonl")
    prime, sum_, sky, more = read("openai_responses.jsonl", requests=requests)
    assert (prime.response, prime.finish_reason) == ("11, or 13", "length")
    assert prime.prompt.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Name a prime above 10."},
    ]
    assert sum_.response == "<think>\n6 times 7 is 42.\n</think>\n\nIt is 42."
    assert (sky.response, sky.tokur["reasoning"]) == ("It scatters.", "withheld")
    assert message_of(more).endswith('goes on from "previous_response_id", which it does not hold')


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_a_service_cut_off_comes_back(tmp_path, name):
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": "\n\n4", name: "\n2+2\n"}}
    row = {"custom_id": "a", "response": {"status_code": 200, "body": {"choices": [choice]}}, "error": None}
    assert read_row(tmp_path, row).response == "<think>\n2+2\n</think>\n\n4"


def test_tools_of_a_batchs_requests_are_told(tmp_path):
    function = {"name": "add", "parameters": {"type": "object"}}
    answer = {"custom_id": "a", "response": {"body": {"choices": [{"message": {"content": "4"}}]}}, "error": None}
    for body, expected in [
        (
            {"messages": [{"role": "user", "content": "Q"}], "tools": [{"type": "function", "function": function}]},
            function,
        ),
        ({"input": "Q", "tools": [{"type": "function", **function}]}, function),
    ]:
        requests = tmp_path / "requests.jsonl"
        requests.write_text(json.dumps({"custom_id": "a", "body": body}))
        assert read_row(tmp_path, answer, requests=str(requests)).prompt.tools == [
            {"type": "function", "function": expected}
        ]
    requests.write_text(json.dumps({"custom_id": "a", "body": {"input": "Q", "tools": [{"type": "web_search"}]}}))
    assert "has the tool 'web_search'" in message_of(read_row(tmp_path, answer, requests=str(requests)))


def test_sharegpt_and_alpaca_rows_are_read(tmp_path):
    turns = [("system", "Be brief."), ("human", "6 times 7?"), ("gpt", "42"), ("human", "8?"), ("gpt", "48")]
    row = {"id": "s", "conversations": [{"from": who, "value": text} for who, text in turns]}
    shared = read_row(tmp_path, row)
    assert shared.response == "48"
    assert [(turn["role"], turn["content"]) for turn in shared.prompt.messages] == [
        *(("system", "Be brief."), ("user", "6 times 7?"), ("assistant", "42"), ("user", "8?")),
    ]
    odd = {"conversations": [{"from": "human", "value": "Q"}, {"from": "bot", "value": "A"}]}
    assert "is from 'bot'" in message_of(read_row(tmp_path, odd))
    for more, question in (("", "Add."), ("6 and 7", "Add.\n\n6 and 7")):
        record = read_row(tmp_path, {"instruction": "Add.", "input": more, "output": "13"})
        assert (record.prompt.question, record.response) == (question, "13")
