"""Responses in logs that spell their tokens are scored by exactly those, once each."""

import json

import pytest

from tests.helpers import parsed, write_lines
from tests.records.reading import DATA

END = 258


def rows(model, choices):
    """Output of a batch, one choice a row, and its requests."""
    for number, choice in enumerate(choices):
        body = {"model": model, "choices": [{"index": 0, "finish_reason": "stop", **choice}]}
        yield {"id": f"r-{number}", "custom_id": f"q-{number}", "response": {"status_code": 200, "body": body}}


def batch(tmp_path, model, choices):
    requests = [
        {"custom_id": f"q-{number}", "body": {"messages": [{"role": "user", "content": "Hi"}]}}
        for number in range(len(choices))
    ]
    given = write_lines(tmp_path / "batch.jsonl", rows(str(model), choices))
    return [given, "--requests", write_lines(tmp_path / "requests.jsonl", requests), "-m", model]


def chat(text, *tokens):
    content = [{"token": token, "bytes": list(token.encode()), "logprob": -0.5} for token in tokens]
    return {"message": {"role": "assistant", "content": text}, "logprobs": {"content": content} if content else None}


CHOICES = [
    chat("ne", "n", "e", "<|im_end|>"),  # as vLLM writes it
    chat("ne", "n", "e"),
    chat("ne", "ne"),  # of another vocabulary
    chat("ne"),
]


def test_logged_tokens_count_once_and_records_without_them_are_counted(run_tokur, tiny_folder, tmp_path):
    code, out, err = run_tokur("score", *batch(tmp_path, tiny_folder, CHOICES))
    assert code == 0, err
    assert err.count("\n") == 1
    assert "some responses are tokenized again" in err
    scored = parsed(out)
    ids = scored[0]["tokur"]["token_ids"]
    assert (len(ids), ids[-1]) == (3, END)
    assert scored[1]["tokur"]["token_ids"] == ids
    assert ["token_strings" in record["tokur"] for record in scored] == [False, False, True, False]
    assert len({json.dumps(record["tokur"]["scores"]["ll"]) for record in scored}) == 1, "the text has but these tokens"
    again = write_lines(tmp_path / "again.jsonl", out.encode().splitlines(keepends=True)[:2])
    code, out, err = run_tokur("score", again, "-m", tiny_folder)
    assert (code, err) == (0, "")
    assert [record["tokur"]["scores"] for record in parsed(out)] == [record["tokur"]["scores"] for record in scored[:2]]


@pytest.mark.slow
@pytest.mark.real_model
@pytest.mark.usefixtures("all_threads")
def test_logged_tokens_what_vllm_wrote_is_scored_by_the_ids_that_vllm_reports(run_tokur, tmp_path):
    """A real log with both ids and log-probabilities: without the ids, the log-probabilities give the same.

    But for responses with a character of several tokens, of which vLLM spells all but the last by nothing.
    """
    log = [json.loads(line) for line in (DATA / "vllm_logprobs.jsonl").read_text(encoding="utf-8").splitlines()]
    choices = [choice for row in log for choice in row["response"]["body"]["choices"]]
    reported = [choice.pop("token_ids") for choice in choices]
    told = [all(token["token"] for token in choice["logprobs"]["content"]) for choice in choices]
    assert told.count(False) == 2
    given = write_lines(tmp_path / "batch.jsonl", log)
    options = ["--requests", DATA / "vllm_logprobs_requests.jsonl", "--dtype", "float32", "--scores", "ll"]
    code, out, err = run_tokur("score", given, *options)
    assert code == 0, err
    assert "some responses are tokenized again" in err
    scored = parsed(out)
    for record, choice, ids, is_told in zip(scored, choices, reported, told, strict=True):
        assert record["tokur"].get("token_ids") == (ids if is_told else None)
        if is_told:  # the log's own log-probabilities are of the same model, in float32 too
            theirs = [token["logprob"] for token in choice["logprobs"]["content"]]
            assert record["tokur"]["tokens"]["logprob"] == pytest.approx(theirs, abs=2e-3)
