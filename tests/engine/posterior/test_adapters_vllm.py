"""Adapters that tokur wrote, served by stock vLLM."""

import importlib.util
import json
import subprocess
import sys

import pytest
import torch

from tests.helpers import sample_lines
from tokur_cli.engine.forward.hooks import Draws, perturbed
from tokur_cli.engine.model.embedded import DEFAULT_MODEL
from tokur_cli.engine.model.load import describe_model, load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.engine.posterior.folder import keep_posterior
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
    pytest.mark.real_model,
    pytest.mark.usefixtures("all_threads"),
]

# In a process of its own: vLLM starts its engine once in a process
SERVE = """
import json, sys
from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest
job = json.load(sys.stdin)
engine = LLM(model=job["model"], dtype="bfloat16", enable_lora=True, max_lora_rank=8, max_loras=2,
             max_model_len=512, gpu_memory_utilization=0.5, enable_prefix_caching=False, enforce_eager=True,
             kv_cache_memory_bytes=1 << 28)
asked = SamplingParams(max_tokens=1, logprobs=5, temperature=0)
answers = []
for adapter in [None, *job["adapters"]]:
    lora = adapter and LoRARequest(adapter, 1 + job["adapters"].index(adapter), adapter)
    outputs = engine.generate([{"prompt_token_ids": ids} for ids in job["ids"]], asked, lora_request=lora)
    answers.append([{token: entry.logprob for token, entry in output.outputs[0].logprobs[0].items()}
                    for output in outputs])
json.dump(answers, open(job["out"], "w"))
"""


def test_stock_vllm_serves_the_draws(tmp_path):
    """Log-probabilities after sample texts under each draw agree to bfloat16's accuracy, and only under its own."""
    language_model = load_language_model(ModelRequest(DEFAULT_MODEL, dtype="float32"))
    model = language_model.model
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=2))
    folder = tmp_path / "posterior"
    keep_posterior(str(folder), model, posterior, draws=2, model_name=language_model.name, revision=None)
    rows = [json.loads(line) for line in sample_lines("responses.jsonl", 6)]
    texts = [
        row["tokur"]["prompt_token_ids"] + row["tokur"]["token_ids"][:length] for row in rows for length in (2, 9, 25)
    ]
    job = {
        "model": describe_model(ModelRequest(DEFAULT_MODEL, dtype="bfloat16")).place,
        "adapters": [str(folder / f"draw-{member}") for member in range(2)],
        "ids": texts,
        "out": str(tmp_path / "served.json"),
    }
    done = subprocess.run([sys.executable, "-c", SERVE], input=json.dumps(job), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    served = json.loads((tmp_path / "served.json").read_text())
    draws = Draws(posterior, 2)
    distances = torch.zeros(3, 3)  # of ours under a member from what was served under another
    for index, ids in enumerate(texts):
        with torch.inference_mode(), perturbed(draws):
            log_p = model(torch.tensor([ids]).repeat(3, 1)).logits[:, -1].log_softmax(-1)
        for other in range(3):
            tokens = [int(token) for token in served[other][index]]
            theirs = torch.tensor(list(served[other][index].values()))
            distances[:, other] += (log_p[:, tokens] - theirs).abs().mean(-1) / len(texts)
    assert distances.diagonal().max() < 0.1
    assert (distances + torch.eye(3) * 9).min() > 5 * distances.diagonal().max(), distances
