"""``--dry-run`` tells what a run would do and take: counted anew, and compared with what the run does."""

import json
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from tests.commands.score.test_score import records, write_lines
from tokur_cli.commands.session import job
from tokur_cli.engine.scoring.scorer import Scorer

SAMPLED = ["-n", "3", "--temperature", "1", "--max-new-tokens", "20"]


@pytest.fixture
def given(tmp_path):
    return write_lines(tmp_path / "in.jsonl", records(40))


@pytest.fixture
def loads_nothing(monkeypatch):
    def load(*arguments):
        raise AssertionError("the weights are not needed")

    monkeypatch.setattr(job, "load", load)


def spread(lengths):
    found = sorted(lengths)
    return {"min": found[0], "median": found[(len(found) - 1) // 2], "max": found[-1], "sum": sum(found)}


def prompt_lengths(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chats = [[{"role": "user", "content": row["question"]}] for row in records(40)]
    return [len(tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]) for chat in chats]


def bytes_of_weights(folder, dtype):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    storages = {weight.untyped_storage().data_ptr(): weight.untyped_storage().nbytes() for weight in model.parameters()}
    return sum(storages.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_score_is_told_its_tokens_and_weights(run_tokur, tiny_folder, given, loads_nothing, dtype):
    code, out, err = run_tokur("score", "--dry-run", given, "-m", tiny_folder, "--dtype", dtype)
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert [told[name] for name in ("model", "dtype", "records", "written", "invalid")] == [
        str(tiny_folder), dtype, 40, 0, 0
    ]  # fmt: skip
    assert told["prompt_tokens"] == spread(prompt_lengths(tiny_folder))
    assert told["response_tokens"] == spread(len(row["response"]) for row in records(40))  # a token is a byte
    assert told["memory"]["weights"] == bytes_of_weights(tiny_folder, getattr(torch, dtype))
    assert "time" not in told


def test_the_batches_are_those_of_the_run(run_tokur, tiny_folder, given, monkeypatch):
    options = ["score", given, "-m", tiny_folder, "--batch-tokens", "600", "--draws", "3", "--sigma", "0.1"]
    passes = json.loads(run_tokur(*options, "--dry-run")[1])["passes"]
    calls = []
    computed = Scorer._score_batch
    monkeypatch.setattr(Scorer, "_score_batch", lambda *given: calls.append(given[0].num_rows) or computed(*given))
    assert run_tokur(*options)[0] == 0
    assert passes == {"batches": calls.count(4), "members": 4}  # another is the probe's, of one draw


def test_generate_is_told_its_responses_and_what_keys_and_values_take(run_tokur, tiny_folder, given, loads_nothing):
    code, out, err = run_tokur("generate", given, "-m", tiny_folder, *SAMPLED, "--dtype", "float32", "--dry-run")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["records"], told["rows"]) == (120, 120)
    assert told["response_tokens"] == {"max": 20, "sum_at_most": 2400}
    cache = DynamicCache()
    AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)(torch.tensor([[0]]), past_key_values=cache)
    token = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    longest = max(prompt_lengths(tiny_folder)) + 20
    assert told["memory"]["keys_and_values"] == 120 * longest * token
    few = ["--set", f"max_memory={10 * longest * token / 2**30}", "--dry-run"]
    told = json.loads(run_tokur("generate", given, "-m", tiny_folder, *SAMPLED, "--dtype", "float32", *few)[1])
    assert (told["rows"], told["memory"]["keys_and_values"]) == (10, 10 * longest * token)


def test_vllm_is_told_the_same_questions(run_tokur, tiny_folder, given, loads_nothing):
    vllm = ["--backend", "vllm", "--set", "max_memory=1", "--dry-run"]
    code, out, _ = run_tokur("generate", given, "-m", tiny_folder, *SAMPLED, *vllm)
    told = json.loads(out)
    assert (code, told["records"], told["memory"]["keys_and_values"]) == (0, 120, 2**30)
    assert told["prompt_tokens"] == spread(prompt_lengths(tiny_folder))


def test_scores_by_vllm_are_told_as_batches_of_its_own_memory(run_tokur, tiny_folder, given, loads_nothing):
    options = ["score", given, "-m", tiny_folder, "--batch-tokens", "600", "--draws", "3", "--sampling", "shared"]
    told = json.loads(run_tokur(*options, "--backend", "vllm", "--set", "max_memory=1", "--dry-run")[1])
    alone = json.loads(run_tokur(*options, "--dry-run")[1])
    assert told["passes"] == alone["passes"]
    assert told["memory"] == {
        **alone["memory"],
        "keys_and_values": 2**30,
        "free": told["memory"]["free"],
    }
    assert json.loads(run_tokur(*options, "--backend", "vllm", "--dry-run")[1])["memory"]["keys_and_values"] is None


@pytest.mark.parametrize(("command", "options"), [("score", []), ("generate", ["--max-new-tokens", "4"])])
def test_bad_records_are_reported_as_by_the_run(run_tokur, tiny_folder, tmp_path, command, options):
    rows = [b'{"id": "no text"}\n', *records(3), b"broken\n", {"id": "odd", "question": 1, "response": "a"}]
    given = write_lines(tmp_path / "in.jsonl", [*rows, *records(2, seed=1)])
    run = [command, given, "-m", tiny_folder, *options]
    code, _, expected = run_tokur(*run, "--skip-invalid")
    assert (code, expected.count("in.jsonl:")) == (3, 3)
    code, out, err = run_tokur(*run, "--skip-invalid", "--dry-run")
    assert (code, err) == (3, expected)
    assert (json.loads(out)["records"], json.loads(out)["invalid"]) == (5, 3)
    code, again, err = run_tokur(*run, "--dry-run")
    assert (code, json.loads(again)["invalid"]) == (1, 3)
    last = f"tokur {command}: a run ends at the first bad record: mend them, or give --skip-invalid"
    assert err.splitlines() == [*expected.splitlines()[:-1], last]
    only = write_lines(tmp_path / "only.jsonl", rows[:1])
    assert run_tokur(command, only, "--dry-run") == (3, "", run_tokur(command, only, "--skip-invalid")[2])


@pytest.mark.parametrize(
    ("command", "options", "missing"), [("score", [], 28), ("generate", ["-n", "2", *SAMPLED[2:]], 68)]
)
def test_what_is_written_already_is_told_and_stays(run_tokur, tiny_folder, given, tmp_path, command, options, missing):
    output = tmp_path / "out.jsonl"
    run = [command, given, "-m", tiny_folder, *options, "-o", output]
    assert run_tokur(*run)[0] == 0
    whole = output.read_bytes()
    output.write_bytes(b"".join(whole.splitlines(keepends=True)[:12]) + b'{"id": "q')
    before = output.read_bytes()
    told = json.loads(run_tokur(*run, "--resume", "--dry-run")[1])
    assert told["records"] - told["written"] == missing
    assert output.read_bytes() == before
    other = write_lines(tmp_path / "other.jsonl", records(40, seed=1))
    refused = [command, other, "-m", tiny_folder, *options, "-o", output, "--resume"]
    code, out, err = run_tokur(*refused, "--dry-run")
    assert (code, out, err) == (1, "", run_tokur(*refused)[2])
    assert run_tokur(*run, "--resume")[0] == 0
    assert output.read_bytes() == whole


@pytest.mark.parametrize("command", ["score", "generate"])
@pytest.mark.parametrize("typed", [["--dry-run", "8"], ["--dry-run=8"]])
def test_a_few_records_are_done_to_reckon_the_time_of_all(run_tokur, tiny_folder, given, tmp_path, command, typed):
    output = tmp_path / "out.jsonl"
    code, out, err = run_tokur(command, given, "-m", tiny_folder, "-o", output, *typed)
    assert (code, err) == (0, "")
    told = json.loads(out)["time"]
    assert told["tried"] == 8
    work = prompt_lengths(tiny_folder)
    if command == "score":
        work = [prompt + len(row["response"]) for prompt, row in zip(work, records(40), strict=True)]
    share = sum(work) / sum(work[:8])
    assert told["all"] == pytest.approx(told["seconds"] * share, abs=0.5 + 0.05 * share)
    assert not output.exists()


def test_a_model_that_does_not_fit_is_refused_as_by_the_run(run_tokur, tiny_folder, given, monkeypatch):
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda: {"cpu": 10_000})
    assert run_tokur("score", given, "-m", tiny_folder)[0] == 1
    code, out, _ = run_tokur("score", given, "-m", tiny_folder, "--dry-run")
    assert (code, json.loads(out)["records"]) == (1, 40)


def test_on_a_terminal_it_is_said_in_words(run_tokur, tiny_folder, given, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = run_tokur("score", given, "-m", tiny_folder, "--dry-run", "4", "--dtype", "float32")[1].splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "model", "records", "prompt tokens", "response tokens", "passes", "memory", "time"
    ]  # fmt: skip
    assert all(len(line) <= 120 for line in lines[1:])
