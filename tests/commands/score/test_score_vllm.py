"""``--backend vllm``: what it refuses, and its numbers beside those of transformers."""

import importlib.util

import numpy as np
import pytest

from tests.helpers import parsed, records, write_lines
from tests.tiny import tiny_vllm_folder

VLLM = ("--backend", "vllm")

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")


@needs_vllm
@pytest.mark.slow
@pytest.mark.usefixtures("all_threads")
def test_score_vllm_scores_what_is_unusual_as_transformers_does(run_tokur, in_one_process, tmp_path):
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
    folder, posterior = tiny_vllm_folder(tmp_path), tmp_path / "posterior"
    assert run_tokur("perturb", "-m", folder, "-o", posterior, "--draws", "3", "--sigma", "0.01", "--seed", "5")[0] == 0
    path = write_lines(tmp_path / "in.jsonl", rows)
    options = ["score", path, "-m", folder, "--dtype", "float32", "--sampling", "shared", "--posterior", posterior]
    options += ["--skip-invalid", "--scores", "default,eu_kl,eu_fisher", "--steps"]
    _, ours, said = run_tokur(*options)
    code, theirs, err = in_one_process(*options, *VLLM, "--set", "max_memory=0.1")
    assert (code, err) == (3, f"tokur score: loading {folder}\n{said}")
    assert [record["id"] for record in parsed(theirs)] == [
        row["id"] for row in rows if row["id"] not in ("bad", "empty", "too long")
    ]
    for mine, other in zip(parsed(ours), parsed(theirs), strict=True):
        assert other["tokur"].pop("run") == {**mine["tokur"].pop("run"), "backend": "vllm"}
        for name, values in mine["tokur"].pop("tokens").items():
            assert np.array(other["tokur"]["tokens"][name]) == pytest.approx(np.array(values), abs=2e-3), name
        scores = mine["tokur"].pop("scores")
        assert {name for name, value in scores.items() if value is not None} >= {"eu", "eu_kl", "eu_fisher", "ll"}
        assert other["tokur"].pop("scores").keys() == scores.keys()
        assert len(other["tokur"].pop("steps")) == len(mine["tokur"].pop("steps"))
        del other["tokur"]["tokens"]
        assert other == mine
