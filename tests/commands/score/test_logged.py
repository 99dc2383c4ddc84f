"""``score --from-logprobs``, beside the model that the log-probabilities came from."""

import json
import math
import string
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import parsed, records, write_lines
from tests.readmes import ROOT

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
def test_scores_are_those_of_the_model_wherever_they_can_be_known(
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


def test_scoring_again_in_another_way_leaves_nothing_of_the_first(run_tokur, tiny_folder, tmp_path, served):
    record, ids, logprobs = served[0]
    row = record | {"logprobs": {"content": list(listed(record["response"], ids, logprobs, "openai"))}}
    path = write_lines(tmp_path / "row.jsonl", [row])
    by_model = ("-m", tiny_folder, "--scores", "ll", "--steps", "sentences")
    seen = []
    for options in (("--from-logprobs",), by_model, ("--from-logprobs",)):
        code, out, _ = run_tokur("score", path, *options)
        assert code == 0
        path = write_lines(tmp_path / f"{len(seen)}.jsonl", parsed(out))
        seen.append({"steps", "step_by"} & parsed(out)[0]["tokur"].keys())
    assert seen == [set(), {"steps", "step_by"}, set()]


def test_a_sampled_token_that_may_stand_first_for_itself_is_not_taken_for_one_of_the_likeliest(run_tokur, tmp_path):
    """With vLLM's 20 tokens the 20th may be one of any rank; a 21st settles it."""
    rest = [math.log(0.9 / 20) - number / 1000 for number in range(20)]

    def confidence(top):
        token = {"token": "a", "logprob": top[0], "top_logprobs": [{"token": str(v), "logprob": v} for v in top]}
        token["top_logprobs"][0]["token"] = "a"
        row = {"question": "?", "response": "a", "logprobs": {"content": [token]}}
        _, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "--from-logprobs")
        return parsed(out)[0]["tokur"]["scores"]["deepconf"]

    assert confidence([-9.0, *rest[:19]]) is None
    assert confidence([-9.0, *rest]) == pytest.approx(-np.mean(rest))
    assert confidence([rest[4], *rest[:4], *rest[5:]]) == pytest.approx(-np.mean(rest))


def test_a_real_log_of_vllm_is_scored_and_its_tokens_are_found_in_the_text(run_tokur):
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


def test_bytes_of_one_character_share_its_span(run_tokur, tmp_path):
    tokens = [[110], [240, 159], [145, 169], [226, 128, 141, 240], [159, 148, 172], [33], [10]]
    content = [{"token": "?", "logprob": -1.0, "bytes": data} for data in tokens]
    row = {"question": "?", "response": "n👩\u200d🔬!", "logprobs": {"content": content}}
    _, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "--from-logprobs")
    assert parsed(out)[0]["tokur"]["tokens"]["offsets"] == [[0, 1], [1, 2], [1, 2], [2, 4], [3, 4], [4, 5], [5, 5]]


@pytest.mark.parametrize(
    ("response", "tokens", "offsets"),
    [
        ("a😀b", ["a", "\ufffd", "\ufffd", "b"], [[0, 1], [1, 2], [1, 2], [2, 3]]),
        ("a 😀", ["a", " \ufffd", "\ufffd", ""], [[0, 1], [1, 3], [1, 3], [3, 3]]),
        ("é😀.é", ["\ufffd", "\ufffd", "\ufffd", ".", "\ufffd"], [[0, 2], [0, 2], [0, 2], [2, 3], [3, 4]]),
    ],
)
def test_tokens_whose_bytes_a_service_replaced_share_what_is_between_their_neighbours(
    run_tokur, tmp_path, response, tokens, offsets
):
    listed = [{"token": token, "logprob": -1.0, "bytes": list(token.encode())} for token in tokens]
    row = {"question": "?", "response": response, "logprobs": listed}
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "--from-logprobs")
    assert code == 0, err
    assert parsed(out)[0]["tokur"]["tokens"]["offsets"] == offsets
    assert parsed(out)[0]["tokur"]["scores"]["ll_sum"] == -len(tokens)


def test_completions_spell_parts_of_a_character_as_escaped_bytes(run_tokur, tmp_path):
    logprobs = {"tokens": ["a", r"bytes:\xf0\x9f", r"bytes:\x98\x80"], "token_logprobs": [-1, -2, -3]}
    row = {"question": "?", "response": "a😀", "logprobs": logprobs}
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "--from-logprobs")
    assert code == 0, err
    assert parsed(out)[0]["tokur"]["tokens"]["offsets"] == [[0, 1], [1, 2], [1, 2]]


def test_completions_and_lists_are_read_too(run_tokur, tmp_path):
    top = [{" a": -0.1, " b": -3.0}, {"c": -0.2}]
    completion = {"tokens": [" a", "c"], "token_logprobs": [-0.1, -0.2], "top_logprobs": top}
    listed = [{"token": " a", "logprob": -0.1}, {"token": "c", "logprob": -0.2}]
    rows = [
        {"question": "?", "response": " ac", "choices": [{"text": " ac", "logprobs": completion}]},
        {"question": "?", "response": " ac", "logprobs": listed},
    ]
    _, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "--from-logprobs")
    assert [record["tokur"]["scores"]["ll"] for record in parsed(out)] == [pytest.approx(-0.15)] * 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, 'has no "logprobs": ask the service for them'),
        ({"logprobs": {"content": []}}, '"logprobs" holds no tokens'),
        ({"logprobs": {"content": "a"}}, '"logprobs" is an object without a list of tokens'),
        ({"logprobs": [{"token": "a", "logprob": "low"}]}, "token 1: logprob is a string, not a number"),
        ({"logprobs": [{"token": "a", "logprob": 0.5}]}, "token 1: logprob is 0.5, which is the logarithm of no"),
        ({"logprobs": [{"token": "b", "logprob": -1.0}]}, "are of another text than its response"),
        ({"logprobs": [7]}, 'token 1: is no object with "token" and "logprob"'),
        ({"logprobs": {"tokens": ["a"], "token_logprobs": 3}}, '"logprobs.token_logprobs" is a number, not a list'),
        ({"logprobs": {"tokens": ["a"], "top_logprobs": 3}}, '"logprobs.top_logprobs" is no list of objects'),
        ({"logprobs": {"tokens": ["a"], "top_logprobs": [["a"]]}}, '"logprobs.top_logprobs" is no list of objects'),
        ({"logprobs": {"tokens": ["token_id:64"], "token_logprobs": [-1]}}, "name tokens by their ids"),
        ({"logprobs": [{"token": "\ufffd", "logprob": -1}, {"token": "b", "logprob": -1}]}, "of another text"),
    ],
)
def test_a_log_that_cannot_be_used_is_a_bad_record(run_tokur, tmp_path, row, said):
    path = write_lines(tmp_path / "in.jsonl", [{"question": "?", "response": "a"} | row])
    code, out, err = run_tokur("score", path, "--from-logprobs")
    assert (code, out) == (1, "")
    assert said in err
    assert "in.jsonl:1" in err


def test_neither_torch_nor_a_model_is_loaded():
    program = (
        "import sys; sys.argv = ['tokur', 'score', sys.argv[1], '--from-logprobs', '--skip-invalid']\n"
        "from tokur_cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys()\n"
    )
    found = subprocess.run([sys.executable, "-c", program, VLLM], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert '"computed_from":"logprobs"' in found.stdout


def test_a_run_that_was_cut_off_goes_on(run_tokur, tmp_path, served):
    rows = [batch_row(record, ids, logprobs, "vllm") for record, ids, logprobs in served]
    given, output = write_lines(tmp_path / "batch.jsonl", rows), tmp_path / "out.jsonl"
    run_tokur("score", given, "--from-logprobs", "-o", output)
    whole = output.read_bytes()
    output.write_bytes(whole[: len(whole) // 2])
    assert run_tokur("score", given, "--from-logprobs", "-o", output, "--resume")[0] == 0
    assert output.read_bytes() == whole
    code, _, err = run_tokur("score", given, "--from-logprobs", "--no-tokens", "-o", output, "--resume")
    assert code == 1
    assert "tokens true, but this run has tokens false" in err


def test_the_other_commands_take_such_records_and_evaluate_does_not_mix_them_unsaid(run_tokur, tmp_path, scored):
    labelled = [record | {"correct": number % 2 == 0} for number, record in enumerate(scored("vllm"))]
    logged = write_lines(tmp_path / "logged.jsonl", labelled)
    code, out, err = run_tokur("evaluate", logged, "--bootstrap", "0", "--scores", "all")
    assert code == 0
    assert "skipped for deepconf" in err
    assert "may not be comparable" not in err
    assert {"ll", "ll_sum"} <= {row["score"] for row in parsed(out)} <= set(EXACT)
    code, out, _ = run_tokur("select", logged, "--by", "ll")
    assert code == 0
    assert len(parsed(out)) == len(labelled)
    code, _, err = run_tokur("select", logged)
    advice = err.rpartition("--by one of ")[2]
    assert advice.startswith("ll, ll_sum, ")
    assert "eu" not in advice
    assert run_tokur("heatmap", logged, "--limit", "1")[0] == 0
    exact = [record | {"tokur": record["tokur"] | {"run": {"model": "served", "seed": None}}} for record in labelled]
    mixed = write_lines(tmp_path / "mixed.jsonl", [*labelled, *exact])
    _, _, err = run_tokur("evaluate", mixed, "--bootstrap", "0")
    assert "9 records were scored by the log-probabilities that they came with, 9 by a model here" in err


def chat_tokens(*tokens):
    return {"content": [{"token": text, "logprob": logprob, "top_logprobs": top} for text, logprob, top in tokens]}


def top(**logprobs):
    return [{"token": token, "logprob": logprob} for token, logprob in logprobs.items()]


@pytest.mark.parametrize(
    ("response", "logprobs", "message"),
    [
        ("A 1", chat_tokens(("A", 0.0, []), (" 1", 0.0, [])), "is 0 for every token"),
        ("A 1", chat_tokens(("A", 0.0, []), (" ", -9999.0, []), ("1", 0, top(x=-9999.0))), "is 0 for every token"),
        ("A 1", chat_tokens(("A", -0.3, top(A=-0.3, b=-0.5)), (" 1", -0.1, [])), "sum to 1.35"),
        (
            "A 1",
            chat_tokens(("A", -0.7, [*top(A=-0.7), *top(A=-0.7)]), (" 1", -0.1, [])),
            "lists the token 'A' 2 times",
        ),
        ("Say A", {"tokens": ["Say", " A"], "token_logprobs": [None, -0.2]}, "none for its first token"),
    ],
)
def test_logged_logprobs_that_are_no_log_probabilities_are_refused(run_tokur, tmp_path, response, logprobs, message):
    row = {"question": "q", "response": response, "logprobs": logprobs}
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "--from-logprobs")
    assert (code, out) == (1, "")
    assert message in err


def test_logged_logprobs_of_a_certain_response_are_scored(run_tokur, tmp_path):
    certain = chat_tokens(("A", 0.0, top(A=0.0, B=-21.0)), (" 1", 0.0, top(x=-30.0)))
    rows = [
        {"question": "q", "response": text, "logprobs": lp}
        for text, lp in [("A 1", certain), ("A", chat_tokens(("A", 0.0, [])))]
    ]
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "--from-logprobs")
    assert (code, err) == (0, "")
    assert [record["tokur"]["scores"]["ll"] for record in parsed(out)] == [0, 0]
