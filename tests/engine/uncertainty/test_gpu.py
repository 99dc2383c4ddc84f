"""What runs differently on a GPU: its attention kernel, the work's division, and the numbers in all.

The numbers are those of the CPU, whose own tests hold them against brute force.
"""

import json

import numpy as np
import pytest
import torch

from tests.engine.uncertainty.test_packing import PACKED, grouped_responses, packed_exact_and_masked
from tests.tiny import tiny_model
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.uncertainty import prefixes
from tokur_cli.engine.uncertainty.packing import longest_packed
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Scorer
from tokur_cli.engine.varlen import has_varlen, obstacle

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BOUNDS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("size", [8, 64, 96, 128, 256])
def test_attention_to_sequences_is_right_here(dtype, size):
    assert has_varlen(torch.device(DEVICE, 0), dtype, size), obstacle()


@pytest.mark.parametrize("dtype", BOUNDS)
def test_packed_attention_equals_attention_with_a_mask(dtype, monkeypatch):
    monkeypatch.setattr(prefixes, "LEAST_SAVING", 1)
    for got, expected, _ in packed_exact_and_masked(dtype, DEVICE):
        assert (got - expected).abs().max() < BOUNDS[dtype]


@pytest.mark.parametrize("sampling", ["shared", "joint", "stepwise"])
@pytest.mark.parametrize("budget", [10**6, 60])
@pytest.mark.parametrize("family", [*PACKED, "gemma2"])
def test_a_gpu_gives_the_numbers_of_the_cpu(family, budget, sampling, monkeypatch):
    monkeypatch.setattr(prefixes, "LEAST_SAVING", 1)
    monkeypatch.setattr(prefixes, "LEAST_PIECE", 1)
    responses = grouped_responses()
    found = []
    for device in ("cpu", DEVICE):
        model = tiny_model(family).to(device)
        assert (longest_packed(model) == 0) == (family == "gemma2")
        scorer = Scorer(
            model,
            Draws(build_posterior(model, PosteriorSettings(sigma=0.3)), 2),
            sampling=sampling,
            batch_tokens=budget,
        )
        found.append(dict(scorer.score(responses)))
    for index, expected in found[0].items():
        for name, values in expected.items():
            assert found[1][index][name] == pytest.approx(values, abs=1e-4, rel=1e-3), name


def test_bfloat16_errs_no_more_than_the_model_itself():
    responses = grouped_responses()
    model = tiny_model("llama").to(DEVICE)

    def own(response):
        ids = torch.tensor([[*response.prompt_ids, *response.response_ids]], device=DEVICE)
        with torch.no_grad():
            log_p = model(ids).logits[0].float().log_softmax(-1)
        return [log_p[place - 1, ids[0, place]].item() for place in range(len(response.prompt_ids), ids.shape[1])]

    exact = np.concatenate([own(response) for response in responses])
    model = model.bfloat16()
    found = dict(Scorer(model, None).score(responses))
    ours = np.concatenate([found[index]["logprob"] for index in range(len(responses))])
    theirs = np.concatenate([own(response) for response in responses])
    assert 0 < np.square(ours - exact).mean() < 1.5 * np.square(theirs - exact).mean()


def test_the_commands_run_on_a_gpu(run_tokur, tiny_folder, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": "1", "question": "What is 2 + 3?"}\n')
    written = []
    for device in ("cpu", DEVICE):
        place = ["--device-map", device, "--dtype", "float32", "-m", tiny_folder]
        made = tmp_path / f"{device}.jsonl"
        code, _, _ = run_tokur(
            "generate", tmp_path / "in.jsonl", *place, "--temperature", "0", "--max-new-tokens", "8", "-o", made
        )
        assert code == 0
        code, out, _ = run_tokur("score", made, *place)
        assert code == 0
        written.append(json.loads(out))
    assert written[0]["response"] == written[1]["response"]
    for name, value in written[0]["tokur"]["scores"].items():
        assert written[1]["tokur"]["scores"][name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
