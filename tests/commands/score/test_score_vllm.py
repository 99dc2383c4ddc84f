"""``--backend vllm``: what it refuses, and its numbers beside those of transformers."""

import importlib.util

import numpy as np
import pytest

from tests.helpers import finish, parsed, records, sample_lines, write_lines
from tests.tiny import tiny_model_folder, tiny_tokenizer

VLLM = ("--backend", "vllm")

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")


@needs_vllm
@pytest.mark.real_model
@pytest.mark.usefixtures("all_threads")
def test_score_vllm_scores_the_samples_as_transformers_does(run_tokur, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", sample_lines("responses.jsonl", 4))
    asked = ["--dtype", "float32", "--sampling", "shared", "--scores", "default,eu_kl,eu_fisher", "--steps"]
    _, ours, _ = run_tokur("score", path, *asked)
    options = [*asked, *VLLM, "--set", "max_memory=0.5"]
    code, theirs, err = finish(["score", path, *options])
    assert (code, err) == (0, "tokur score: loading smollm2-135m-instruct\n")
    for mine, other in zip(parsed(ours), parsed(theirs), strict=True):
        assert other["tokur"].pop("run") == {**mine["tokur"].pop("run"), "backend": "vllm"}
        tokens = zip(*(one["tokur"].pop("tokens").items() for one in (mine, other)), strict=True)
        for (name, values), (_, found) in tokens:
            assert np.array(found) == pytest.approx(np.array(values), abs=2e-4), name
        for name, value in mine["tokur"].pop("scores").items():
            assert other["tokur"]["scores"][name] == (None if value is None else pytest.approx(value, abs=5e-3)), name
        assert len(other["tokur"].pop("steps")) == len(mine["tokur"].pop("steps"))
        del other["tokur"]["scores"]
        assert other == mine


@pytest.fixture
def folder(tmp_path):
    """A tiny model with heads as large as vLLM takes them on a CPU, and a long context."""
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 8192}
    tokenizer, place = tiny_tokenizer(), tiny_model_folder(tmp_path, **sizes)
    tokenizer.model_max_length = 8192
    tokenizer.save_pretrained(place)
    return place


@needs_vllm
@pytest.mark.slow
@pytest.mark.usefixtures("all_threads")
def test_score_vllm_scores_what_is_unusual_as_transformers_does(run_tokur, folder, tmp_path):
    """Samples that begin alike, Chinese, a long response, bad ones; with draws from a folder."""
    alike = "What is 7 times 8? Think it through. " * 3
    rows = [
        *records(24),
        {"id": "bad", "question": "What?"},
        *({"id": "samples", "sample": i, "question": alike, "response": f"{alike[:50]}It is {i}."} for i in range(3)),
        {"id": "chinese", "question": "七乘八等于多少？", "response": "七乘八等于五十六。🙂"},
        {"id": "empty", "question": "Why?", "response": ""},
        {"id": "too long", "question": "Why?", "response": "a" * 8192},
        {"id": "long", "question": "Go on", "response": "".join(map(str, range(2300)))[:8000]},
    ]
    posterior = tmp_path / "posterior"
    assert run_tokur("perturb", "-m", folder, "-o", posterior, "--draws", "3", "--sigma", "0.01", "--seed", "5")[0] == 0
    path = write_lines(tmp_path / "in.jsonl", rows)
    options = ["score", path, "-m", folder, "--dtype", "float32", "--sampling", "shared", "--posterior", posterior]
    options.append("--skip-invalid")
    _, ours, said = run_tokur(*options)
    code, theirs, err = finish([*options, *VLLM, "--set", "max_memory=0.1"])
    assert (code, err) == (3, f"tokur score: loading {folder}\n{said}")
    assert [record["id"] for record in parsed(theirs)] == [
        row["id"] for row in rows if row["id"] not in ("bad", "empty", "too long")
    ]
    for mine, other in zip(parsed(ours), parsed(theirs), strict=True):
        for name, values in mine["tokur"]["tokens"].items():
            assert np.array(other["tokur"]["tokens"][name]) == pytest.approx(np.array(values), abs=2e-3), name
