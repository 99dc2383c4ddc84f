"""``score --from-logprobs``, beside the model that the log-probabilities came from."""

import json
import math
import string

import numpy as np
import pytest

from tests.helpers import parsed, records, write_lines
from tests.readmes import ROOT
from tests.records.reading import DATA

EXACT = ("ll", "ll_sum", "deepconf", "deepconf_sum", "deepconf_group", "deepconf_bottom10", "deepconf_tail",
         "neg_length", "llm_check_perplexity")  # fmt: skip
VLLM = ROOT / "tests" / "data" / "formats" / "vllm_logprobs.jsonl"


@pytest.fixture(scope="module")
def served(tiny_folder):
    """Records with the tokens and the whole distributions of a model: [(record, ids, (T, V) log p)], in float64."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    model = AutoModelForCausalLM.from_pretrained(tiny_folder).float().eval()
    letters = {tokenizer.convert_tokens_to_ids(letter): letter for letter in string.ascii_letters + string.digits}

    def logprobs_after(ids):
        with torch.inference_mode():
            return model(torch.tensor([ids])).logits[0].double().log_softmax(-1).numpy()

    found = []
    for record in records(9):
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": record["question"]}], add_generation_prompt=True, return_dict=False
        )
        ids = tokenizer(record["response"], add_special_tokens=False)["input_ids"]
        if len(found) % 3 == 0:  # as sampled: each token among the 15 likeliest
            ids = []
            while len(ids) < 6:
                likeliest = np.argsort(-logprobs_after(prompt + ids)[-1])
                ids.append(next((index for index in likeliest[:15].tolist() if index in letters), ord("a") - 33))
            record["response"] = "".join(letters[index] for index in ids)
        found.append((record, ids, logprobs_after(prompt + ids)[len(prompt) - 1 : -1]))
    return found


def listed(text, ids, logprobs, manner, count=20):
    """The tokens of a text of one-byte tokens as a service lists them."""
    for character, index, row in zip(text, ids, logprobs, strict=True):
        order = np.argsort(-row)[:count].tolist()
        if manner == "vllm":  # the sampled token comes first, and the list is cut off after so many
            order = [index, *(other for other in order if other != index)][:count]
        top = [{"token": f"t{other}", "logprob": float(row[other])} for other in order]
        known = manner == "vllm" or index in order
        yield {
            "token": f"t{index}",
            "logprob": float(row[index]) if known else -9999.0,
            "bytes": list(character.encode()),
            "top_logprobs": top,
        }


def batch_row(record, ids, logprobs, manner):
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": record["response"]},
        "logprobs": {"content": list(listed(record["response"], ids, logprobs, manner))},
        "finish_reason": "stop",
    }
    body = {"model": "served", "choices": [choice]}
    return {"custom_id": record["id"], "response": {"status_code": 200, "body": body}, "error": None}


@pytest.fixture
def scored(run_tokur, tmp_path, served):
    def score(manner):
        rows = [batch_row(record, ids, logprobs, manner) for record, ids, logprobs in served]
        code, out, err = run_tokur("score", write_lines(tmp_path / "batch.jsonl", rows), "--from-logprobs")
        assert code == 0
        assert ("not finite" in err) == (manner == "openai")
        return parsed(out)

    return score


@pytest.mark.parametrize("manner", ["openai", "vllm"])
def test_from_logprobs_scores_are_those_of_the_model_wherever_they_can_be_known(
    run_tokur, tiny_folder, tmp_path, served, scored, manner
):
    given = [record | {"tokur": {"model": str(tiny_folder), "token_ids": ids}} for record, ids, _ in served]
    path = write_lines(tmp_path / "in.jsonl", given)
    code, out, _ = run_tokur("score", path, "-m", tiny_folder, "--dtype", "float32", "--scores", "default")
    assert code == 0
    known = 0
    for record, exact, (_, ids, logprobs) in zip(scored(manner), parsed(out), served, strict=True):
        scores, exact = record["tokur"]["scores"], exact["tokur"]["scores"]
        order = np.argsort(-logprobs)[:, :20]
        unlisted = [index not in row for index, row in zip(ids, order, strict=True)]
        told = {name: scores[name] for name in EXACT if scores[name] is not None}
        for name, value in told.items():
            assert value == pytest.approx(exact[name], rel=1e-4), name
        if manner == "vllm" or not any(unlisted):
            assert {"ll", "ll_sum", "llm_check_perplexity", "neg_length"} <= told.keys()
        if manner == "openai":
            assert ("ll" in told) == (not any(unlisted)), "-9999 is no log-probability"
        if manner == "openai" or not any(unlisted):
            known += "deepconf" in told
        assert {name for name in scores if scores[name] is not None} <= set(EXACT)
        assert record["tokur"]["tokens"]["offsets"] == [[place, place + 1] for place in range(len(ids))]
        assert record["tokur"]["run"] == {"computed_from": "logprobs", "version": record["tokur"]["run"]["version"]}
    assert known


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
