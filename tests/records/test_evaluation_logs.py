"""What evaluation harnesses and batch services write is read as records: lm-eval, OpenAI batches, Inspect."""

import json
import struct
import sys
import zipfile
import zlib

import pytest

from tests.records.reading import DATA, message_of, read, read_row, read_rows
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.reader import read_records

if sys.version_info >= (3, 14):
    from compression.zstd import compress as zstd_compress
else:
    import zstandard

    def zstd_compress(data):
        return zstandard.ZstdCompressor().compress(data)


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


def test_lm_eval_files_of_several_tasks_in_one_lose_nothing(tmp_path):
    """As of ``cat samples_a.jsonl samples_b.jsonl``; the tasks number their documents alike but filter differently."""

    def rows(task, count, *filters):
        arguments = {"gen_args_0": {"arg_0": task, "arg_1": {}}}
        common = {"doc": {}, "target": "4", "arguments": arguments}
        return [
            {**common, "doc_id": number, "resps": [[f"{task} {number}"]], "filter": name}
            for name in filters
            for number in range(count)
        ]

    several = (
        rows("a", 2, "strict-match", "flexible-extract") + rows("b", 3, "none") + rows("c", 1, "x", "strict-match")
    )
    records = read_rows(tmp_path, *several)
    assert [record.response for record in records] == ["a 0", "a 1", "b 0", "b 1", "b 2", "c 0"]
    assert [record.line for record in records] == [1, 2, 5, 6, 7, 8]
    assert [record.id for record in records[:2]] == ["0", "1"]
    assert len({record.id for record in records}) == 6  # though each task numbers its documents from 0
    assert [record.id for record in read_rows(tmp_path, *several)] == [record.id for record in records]


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


def batch_row(**choice):
    choice = {"index": 0, "finish_reason": "stop", **choice}
    return {"id": "x", "custom_id": "a", "response": {"status_code": 200, "body": {"choices": [choice]}}, "error": None}


def content(*tokens):
    """Log-probabilities as chat completions have them."""
    return {"content": [{"token": text, "bytes": data, "logprob": -0.1, "top_logprobs": []} for text, data in tokens]}


@pytest.mark.parametrize(
    ("choice", "ids", "strings"),
    [
        ({"logprobs": content(("H", [72]), ("\\xc3", [195]), ("\\xa9", [169]))}, None, ["H", b"\xc3", b"\xa9"]),
        ({"logprobs": content(("H", None), ("", []), ("é", [195, 169]))}, None, ["H", "", "é"]),
        ({"logprobs": content(("Ġa", [288, 97]), ("b", "b"))}, None, ["Ġa", "b"]),
        ({"logprobs": content(("token_id:7", [1]), ("token_id:12", [2]))}, [7, 12], None),
        ({"logprobs": content(("token_id:7", None), ("12", None))}, None, ["token_id:7", "12"]),
        ({"logprobs": {"tokens": ["H", "é"], "token_logprobs": [-1, -2]}}, None, ["H", "é"]),
        ({"logprobs": {"tokens": ["token_id:7"]}}, [7], None),
        ({"logprobs": content(("H", [72])), "token_ids": [5]}, [5], None),
        ({"logprobs": None}, None, None),
        ({"logprobs": {"content": None, "refusal": []}}, None, None),
        ({"logprobs": {"content": [{"logprob": -1}]}}, None, None),
    ],
)
def test_batch_rows_with_log_probabilities_bring_their_tokens(tmp_path, choice, ids, strings):
    for said in ({"message": {"content": "Hé"}}, {"text": "Hé"}):
        record = read_row(tmp_path, batch_row(**choice, **said))
        assert (record.token_ids, record.token_strings) == (ids, strings)


def test_a_response_that_a_stop_string_ended_has_no_end_token(tmp_path):
    """vLLM writes finish_reason "stop" for it too, and the string beside it."""
    for reason, expected in ((None, "stop"), (2, "stop"), ("five", "stop_string")):
        record = read_row(tmp_path, batch_row(message={"content": "four "}, stop_reason=reason))
        assert record.finish_reason == expected


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


def test_an_archive_of_something_else_is_not_taken_for_an_empty_log(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("records.jsonl", b'{"question": "1 + 1?"}\n')
    with pytest.raises(TokurError, match=r"data\.zip: is a zip archive, but not an Inspect log: unpack it"):
        list(read_records(str(tmp_path / "data.zip")))
    with zipfile.ZipFile(tmp_path / "begun.eval", "w") as archive:  # a log of a run that ended before any sample
        archive.writestr("_journal/start.json", b"{}")
    assert list(read_records(str(tmp_path / "begun.eval"))) == []


def test_an_archive_whose_directory_points_before_its_beginning_is_an_error_with_its_name(tmp_path):
    data = bytearray((DATA / "inspect.eval").read_bytes())
    place = data.rindex(b"PK\x05\x06") + 16  # the directory's offset, from which the members' are reckoned
    data[place : place + 4] = (int.from_bytes(data[place : place + 4], "little") + 10_000).to_bytes(4, "little")
    (tmp_path / "log.eval").write_bytes(data)
    with pytest.raises(TokurError, match=r"log\.eval: is not an Inspect log that can be read"):
        list(read_records(str(tmp_path / "log.eval")))


def test_inspect_samples_with_missing_scores_or_odd_turns(tmp_path):
    sample = json.loads((DATA / "inspect.json").read_text(encoding="utf-8"))["samples"][0]
    changes = {
        "NaN scores": ({"scores": {"match": {"value": float("nan")}}}, None),
        "failed": (
            {"error": {"message": "out of memory"}, "output": {"model": "m", "choices": []}},
            "the sample failed: out of memory",
        ),
        "no output": ({"output": {"model": "m", "choices": []}}, '"output.choices" is empty'),
        "no conversation": ({"messages": []}, None),
        "attachment": ({"input": "attachment://0123"}, '"attachment://0123" is missing'),
        "kept attachment": ({"input": "attachment://0123", "attachments": {"0123": "Why?"}}, None),
    }
    log = {"version": 2, "status": "success", "samples": [{**sample, **change} for change, _ in changes.values()]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    records = list(read_records(str(tmp_path / "log.json")))
    for record, (_, message) in zip(records, changes.values(), strict=True):
        if message is not None:
            assert message in message_of(record)
    assert records[0].fields["scores"] == {"match": {"value": None}}
    assert records[3].prompt == Prompt(question="What is 6 times 7?")
    assert records[5].fields["question"] == "Why?"


def test_inspect_samples_with_log_probabilities_bring_their_tokens(tmp_path):
    log = json.loads((DATA / "inspect.json").read_text(encoding="utf-8"))
    log["samples"][0]["output"]["choices"][0]["logprobs"] = content(("4", [52]), ("2", [50]))
    (tmp_path / "log.json").write_text(json.dumps(log))
    first, second, _ = read_records(str(tmp_path / "log.json"))
    assert (first.token_strings, second.token_strings) == (["4", "2"], None)


def written_log(path, status, samples, form):
    if form == "json":
        path.write_text(json.dumps({"version": 2, "status": status, "samples": samples}))
        return
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", "{}")
        for number, sample in enumerate(samples):
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
        if status != "started":
            archive.writestr("header.json", json.dumps({"version": 2, "status": status}))


@pytest.mark.parametrize("form", ["json", "eval"])
@pytest.mark.parametrize("status", ["success", "started"])
def test_inspect_says_invalidated_samples_and_unfinished_logs(tmp_path, form, status):
    sample = json.loads((DATA / "inspect.json").read_text())["samples"][0]
    samples = [sample | {"id": 1, "invalidation": {"author": "a"}}, sample | {"id": 2, "invalidation": None}]
    written_log(tmp_path / f"log.{form}", status, samples, form)
    notes = []
    records = list(read_records(str(tmp_path / f"log.{form}"), note=notes.append))
    assert [record.id for record in records] == ["1", "2"]
    assert any('the status "started"' in note for note in notes) == (status == "started")
    assert any("1 sample was invalidated" in note for note in notes)
