"""What runs differently on a GPU: its attention kernels, stretches in padded blocks, and the numbers in all.

The numbers are those of the CPU, whose own tests hold them against brute force.
"""

import json

import numpy as np
import pytest
import torch

from tests.engine.test_packing import PACKED, grouped_responses, plain_attention
from tests.tiny import tiny_model
from tokur_cli.engine import common_beginnings
from tokur_cli.engine.common_beginnings import divide
from tokur_cli.engine.packing import Layout, PackedAttention, attend, longest_packed
from tokur_cli.engine.perturbed import Draws
from tokur_cli.engine.posterior import build_posterior
from tokur_cli.engine.scoring import Scorer

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BOUNDS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("causal", [True, False])
def test_fused_attention_returns_the_logarithm_of_its_denominator(dtype, causal):
    generator = torch.Generator().manual_seed(0)
    for heads, key_heads, n in ((4, 2, 1), (3, 3, 33), (9, 3, 130)):
        m = n if causal else 47
        query = torch.randn(2, heads, n, 16, generator=generator).to(DEVICE, dtype)
        key, value = torch.randn(2, 2, key_heads, m, 16, generator=generator).to(DEVICE, dtype)
        seen = torch.ones(n, m, dtype=torch.bool, device=DEVICE)
        output, logarithm = attend(query, key, value, causal=causal, scale=0.3)
        expected, expected_logarithm = plain_attention(query, key, value, seen.tril() if causal else seen, 0.3)
        assert (output - expected).abs().max() < BOUNDS[dtype]
        assert (logarithm - expected_logarithm).abs().max() < 1e-3


@pytest.mark.parametrize("dtype", BOUNDS)
def test_packed_attention_equals_attention_with_a_mask(dtype, monkeypatch):
    monkeypatch.setattr(common_beginnings, "LEAST_SAVING", 1)
    layout = Layout(divide({index: response.identity() for index, response in enumerate(grouped_responses())}))
    seen = torch.zeros(layout.length, layout.length, dtype=torch.bool)
    for index in range(len(grouped_responses())):
        where = torch.from_numpy(layout.where(index))
        for n, place in enumerate(where):
            seen[place, where[: n + 1]] = True
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, 4, layout.length, 16, generator=generator).to(DEVICE, dtype)
    key, value = torch.randn(2, 3, 2, layout.length, 16, generator=generator).to(DEVICE, dtype)
    got, _ = PackedAttention(layout)(torch.nn.Identity(), query, key, value, None, scaling=0.25)
    expected, _ = plain_attention(query, key, value, seen.to(DEVICE), 0.25)
    assert (got.transpose(1, 2) - expected).abs().max() < BOUNDS[dtype]


@pytest.mark.parametrize("sampling", ["shared", "joint", "stepwise"])
@pytest.mark.parametrize("budget", [10**6, 60])
@pytest.mark.parametrize("family", [*PACKED, "gemma2"])
def test_a_gpu_gives_the_numbers_of_the_cpu(family, budget, sampling, monkeypatch):
    monkeypatch.setattr(common_beginnings, "LEAST_SAVING", 1)
    monkeypatch.setattr(common_beginnings, "LEAST_PIECE", 1)
    responses = grouped_responses()
    found = []
    for device in ("cpu", DEVICE):
        model = tiny_model(family).to(device)
        assert (longest_packed(model) == 0) == (family == "gemma2")
        scorer = Scorer(model, Draws(build_posterior(model, sigma=0.3), 2), sampling=sampling, batch_tokens=budget)
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
