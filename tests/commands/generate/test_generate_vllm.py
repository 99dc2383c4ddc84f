import importlib.util

import pytest

from tests.helpers import parsed, sample_lines, write_lines
from tests.tiny import tiny_vllm_folder

TWICE = "tokur generate: questions that stand more than once get the same responses: -n asks for more\n"
LOADING = "tokur generate: loading {}\n"

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")


@needs_vllm
@pytest.mark.real_model
@pytest.mark.usefixtures("all_threads")
def test_generate_vllm_writes_the_same_greedy_records(run_tokur, in_one_process, tmp_path):
    path = write_lines(tmp_path / "q.jsonl", sample_lines("questions.jsonl", 6))
    options = ["--dtype", "float32", "--max-new-tokens", "24", "--stop", "\n", "--set", "max_memory=1"]
    _, ours, _ = run_tokur("generate", path, *options)
    code, theirs, err = in_one_process("generate", path, *options, "--backend", "vllm")
    assert (code, err) == (0, LOADING.format("smollm2-135m-instruct"))
    for mine, other in zip(parsed(ours), parsed(theirs), strict=True):
        assert other["tokur"].pop("generation") == {**mine["tokur"].pop("generation"), "backend": "vllm"}
        assert other == mine


@needs_vllm
@pytest.mark.slow
@pytest.mark.usefixtures("all_threads")
def test_generate_vllm_samples_depend_on_seed_question_and_sample(in_one_process, tmp_path):
    """Also where there are more prompts than fit one step; vLLM would split one, which no seed survives on a CPU."""
    folder, rows = tiny_vllm_folder(tmp_path), sample_lines("questions.jsonl", 48)
    options = ["--dtype", "float32", "--max-new-tokens", "6", "--temperature", "1.0", "--set", "max_memory=1"]
    path = write_lines(tmp_path / "q.jsonl", [*rows, *rows[::-1]])
    code, out, err = in_one_process("generate", path, "-m", folder, "-n", "2", "--backend", "vllm", *options)
    assert (code, err) == (0, f"{LOADING.format(folder)}{TWICE}")
    found = {(r["id"], r["tokur"]["sample"], r["tokur"]["seed"], r["response"]) for r in parsed(out)}
    assert out.count("\n") == 4 * 48
    assert len(found) == 2 * 48, "those of the same question and sample are equal, wherever they stand"
    assert len({text for *_, text in found}) > 60
