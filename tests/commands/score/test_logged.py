"""``score --from-logprobs``: by hand and on real logs."""

import json
import math

import pytest

from tests.helpers import parsed, write_lines
from tests.records.reading import DATA

VLLM = DATA / "vllm_logprobs.jsonl"


def test_from_logprobs_confidence_is_of_the_twenty_likeliest_where_they_are_known(run_tokur, tmp_path):
    """OpenAI lists them, whatever was written; vLLM puts what was written first, maybe in place of the last."""
    likeliest = [{"token": f"t{k}", "logprob": -k * math.log(2)} for k in range(1, 22)]
    tokens = [
        likeliest[0] | {"top_logprobs": likeliest[:20]},
        {"token": "x", "logprob": -9999.0, "top_logprobs": likeliest[:20]},
        likeliest[4] | {"top_logprobs": [likeliest[4], *likeliest[5:], *likeliest[:4]]},
        likeliest[20] | {"top_logprobs": [likeliest[20], *likeliest[:20]]},
        likeliest[20] | {"top_logprobs": [likeliest[20], *likeliest[:19]]},
    ]
    row = {"question": "?", "response": "t1xt5t21t21", "logprobs": {"content": tokens}}
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "--from-logprobs")
    assert (code, "not finite" in err) == (0, True), err
    tokur = parsed(out)[0]["tokur"]
    *known, unknown = tokur["tokens"]["deepconf"]
    assert (known, unknown) == (pytest.approx([10.5 * math.log(2)] * 4), None)
    assert [number is None for number in tokur["tokens"]["logprob"]] == [False, True, False, False, False]
    assert {name for name, value in tokur["scores"].items() if value is not None} == {"neg_length"}


def test_from_logprobs_a_real_log_of_vllm_is_scored_and_its_tokens_are_found_in_the_text(run_tokur):
    """Among them characters of several tokens, which vLLM spells empty but for the last."""
    _, out, _ = run_tokur("score", VLLM, "--from-logprobs", "--skip-invalid")
    rows = {row["custom_id"]: row for row in map(json.loads, VLLM.read_text(encoding="utf-8").splitlines())}
    scored = parsed(out)
    assert len(scored) >= 5
    for record in scored:
        choice = rows[record["custom_id"]]["response"]["body"]["choices"][record["tokur"]["sample"]]
        numbers = [token["logprob"] for token in choice["logprobs"]["content"]]
        assert record["tokur"]["scores"]["ll_sum"] == pytest.approx(math.fsum(numbers))
        assert record["tokur"]["scores"]["deepconf"] is None
        spelled = "".join(record["response"][start:end] for start, end in record["tokur"]["tokens"]["offsets"])
        assert spelled == record["response"]


@pytest.mark.parametrize(
    ("response", "tokens", "offsets"),
    [
        ("a😀b", ["a", "\ufffd", "\ufffd", "b"], [[0, 1], [1, 2], [1, 2], [2, 3]]),
        ("a 😀", ["a", " \ufffd", "\ufffd", ""], [[0, 1], [1, 3], [1, 3], [3, 3]]),
        ("é😀.é", ["\ufffd", "\ufffd", "\ufffd", ".", "\ufffd"], [[0, 2], [0, 2], [0, 2], [2, 3], [3, 4]]),
    ],
)
def test_from_logprobs_tokens_whose_bytes_a_service_replaced_share_what_is_between_their_neighbours(
    run_tokur, tmp_path, response, tokens, offsets
):
    listed = [{"token": token, "logprob": -1.0, "bytes": list(token.encode())} for token in tokens]
    row = {"question": "?", "response": response, "logprobs": listed}
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "--from-logprobs")
    assert code == 0, err
    assert parsed(out)[0]["tokur"]["tokens"]["offsets"] == offsets
    assert parsed(out)[0]["tokur"]["scores"]["ll_sum"] == -len(tokens)


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
    for record, first in zip(parsed(out), scored[:2], strict=True):  # in another batch
        assert record["tokur"]["scores"] == pytest.approx(first["tokur"]["scores"], rel=1e-5, abs=1e-5)


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
