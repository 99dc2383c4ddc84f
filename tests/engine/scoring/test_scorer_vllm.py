"""Hidden states from vLLM: a stand-in for it that runs transformers and PEFT, and the real one on several families."""

import importlib.util
import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.helpers import install_vllm
from tests.tiny import tiny_model_folder
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.engine.scoring.vllm import VllmScorer
from tokur_cli.records.errors import TokurError

BLOCK = 16  # positions that vLLM keeps together
DRAWS = 3
ASKED = {"batch_tokens": 8192, "on_demand": ("eu_kl", "eu_fisher"), "compare": True, "alternatives": 3}


def responses():
    """Some after one prompt, two of which begin alike for longer than a block; one after a single token."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, 256, 150).tolist()
    lengths = ((150, 40), (150, 30), (20, 60), (1, 5))
    some = [TokenizedResponse(prompt[:first], rng.integers(0, 256, size).tolist()) for first, size in lengths]
    return [*some, TokenizedResponse(prompt, [*some[0].response_ids[:35], 7, 8, 9])]


class StandIn:
    """vLLM's pooling runner: states of the positions that an earlier prompt did not bring."""

    def __init__(self, model, **settings):
        from transformers import AutoModelForCausalLM

        self.folder, self.settings, self.kept, self.calls = model, settings, [], 0
        self.load = lambda: AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        self.models = {None: self.load()}
        self.spoiled = lambda states, adapter: states

    def reset_prefix_cache(self):
        self.kept.clear()

    def adapted(self, adapter):
        from peft import PeftModel

        if adapter not in self.models:
            self.models[adapter] = PeftModel.from_pretrained(self.load(), adapter).base_model.model
        return self.models[adapter]

    def encode(self, prompts, params, *, lora_request, pooling_task, use_tqdm):
        assert (params.task, pooling_task, params.use_activation, use_tqdm) == ("token_embed", "token_embed", False, 0)
        assert len({adapter is None for adapter in lora_request}) == 1, "vLLM confuses them on a CPU"
        outputs = []
        for prompt, adapter in zip(prompts, lora_request, strict=True):
            ids, path = prompt["prompt_token_ids"], adapter and adapter.path
            with torch.inference_mode():
                states = self.adapted(path).model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            common = [
                sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(ids, other, strict=False)))
                for other, of in self.kept
                if of == path
            ]
            kept = 0 if params.skip_reading_prefix_cache else min(max(common, default=0), len(ids) - 1) // BLOCK * BLOCK
            self.kept.append((ids, path))
            self.calls += 1
            outputs.append(SimpleNamespace(outputs=SimpleNamespace(data=self.spoiled(states, path)[kept:])))
        return outputs


@pytest.fixture
def vllm(monkeypatch):
    """The stand-in as the module ``vllm``; what its engine is and does can be changed before it starts."""
    started = SimpleNamespace(spoiled=lambda states, adapter: states)

    def start(**settings):
        started.engine = StandIn(**settings)
        started.engine.spoiled = started.spoiled
        return started.engine

    install_vllm(monkeypatch, start, "vllm.config", "vllm.lora", "vllm.lora.request")
    modules = sys.modules
    modules["vllm"].PoolingParams = modules["vllm.config"].PoolerConfig = SimpleNamespace
    modules["vllm.lora.request"].LoRARequest = lambda name, number, path: SimpleNamespace(number=number, path=path)
    return started


def scorers(folder, sigma=0.02, draws=DRAWS, **more):
    """What scores by vLLM, and what makes the same of the whole model."""
    return [scorer(folder, by_vllm, sigma, draws, **more) for by_vllm in (True, False)]


def scorer(folder, by_vllm, sigma=0.02, draws=DRAWS, dtype="float32", **more):
    loaded = load_language_model(ModelRequest(str(folder), dtype=dtype))
    drawn = Draws(build_posterior(loaded.model, PosteriorSettings(sigma=sigma)), draws) if draws else None
    more = {"sampling": "shared", "batch_tokens": 8192} | more | (ASKED if draws else {})
    if by_vllm:
        return VllmScorer(loaded, drawn, resources={"kv_cache_memory_bytes": 1 << 26}, tell=pytest.fail, **more)
    return Scorer(loaded.model, drawn, **more)


def worst_differences(by_vllm, whole):
    expected, found = dict(whole.score(responses())), dict(by_vllm.score(responses()))
    assert found.keys() == expected.keys()
    names = expected[0].keys()
    assert all(quantities.keys() == names for quantities in found.values())
    return {name: max(np.abs(found[i][name] - expected[i][name]).max() for i in expected) for name in names}


@pytest.mark.parametrize("sampling", ["shared", "joint"])
def test_vllm_scorer_gives_the_numbers_of_the_whole_model(vllm, tmp_path, sampling):
    by_vllm, whole = scorers(tiny_model_folder(tmp_path), sampling=sampling)
    for name, difference in worst_differences(by_vllm, whole).items():
        assert difference < 1e-3, name
    engine = vllm.engine
    assert engine.settings["max_lora_rank"] == 8
    assert (engine.settings["max_loras"], engine.settings["max_cpu_loras"]) == (DRAWS, DRAWS)
    again = 1 + DRAWS  # for the response that begins as another one: vLLM gave only its last states
    assert engine.calls == (1 + DRAWS) * (1 + len(responses())) + again


def test_vllm_scorer_gives_the_same_bits_whatever_is_wanted(vllm, tmp_path):
    by_vllm, _ = scorers(tiny_model_folder(tmp_path))
    everything = dict(by_vllm.score(responses()))
    some = dict(by_vllm.score(responses(), [False, True, False, True, False]))
    assert some.keys() == {1, 3}
    for index, found in some.items():
        assert all((found[name] == values).all() for name, values in everything[index].items())


@pytest.mark.parametrize(
    ("spoiled", "said"),
    [
        (lambda states, adapter: 1.5 * states, "under the mean weights"),
        (lambda states, adapter: states * torch.nan, "under the mean weights"),
        (lambda states, adapter: states.roll(1) if adapter else states, "under a draw"),
    ],
)
def test_vllm_scorer_refuses_a_family_whose_numbers_differ(vllm, tmp_path, spoiled, said):
    vllm.spoiled = spoiled
    with pytest.raises(TokurError, match=rf"\(llama\): {said}, vLLM's predictions are .* leave --backend vllm out"):
        scorers(tiny_model_folder(tmp_path))


@pytest.mark.parametrize("sigma", [0.02, 0.0005])
def test_vllm_scorer_refuses_a_family_of_which_vllm_leaves_adapters_out(vllm, tmp_path, monkeypatch, sigma):
    """Also where the draws move the model by less than what rounding is allowed."""
    monkeypatch.setattr(StandIn, "adapted", lambda self, adapter: self.models[None])
    with pytest.raises(TokurError, match="under a draw"):
        scorers(tiny_model_folder(tmp_path), sigma)


PACKS = torch.backends.cpu.get_cpu_capability() == "AVX512"  # else vLLM has no product with weights of 4 bits on a CPU
# In a process of its own: vLLM changes signal handlers, threads and classes of transformers. Its attention on a CPU has
# heads of 32 features and more
REAL = {
    "capped": ("gemma3", {"head_dim": 32, "sliding_window": 16, "final_logit_softcapping": 3.0}),
    "fused": ("phi3", {"hidden_size": 128}),
}
COMPARE = """
import sys
from pathlib import Path
import numpy as np
from tests.engine.scoring.test_scorer_vllm import PACKS, REAL, in_4_bits, responses, scorer, scorers, worst_differences
from tests.tiny import tiny_model_folder
for name, (family, sizes) in REAL.items():
    place = Path(sys.argv[1], name)
    place.mkdir()
    folder = tiny_model_folder(place, family, **sizes)
    differences = worst_differences(*scorers(folder, sampling="joint" if name == "fused" else "shared"))
    print("FOUND", name, max(differences, key=differences.get), max(differences.values()))
if not PACKS:
    sys.exit()
folder = in_4_bits(tiny_model_folder(Path(sys.argv[1]), hidden_size=128, head_dim=32, intermediate_size=256))
by_vllm, whole = scorers(folder, 0.1, dtype="bfloat16")
exact = dict(scorer(folder, False, 0.1).score(responses()))
for way, scores in (("vLLM", by_vllm), ("transformers", whole)):
    found = dict(scores.score(responses()))
    for name in ("logprob", "entropy", "au", "eu"):
        print("PACKED", way, name, np.mean([np.abs(found[i][name] - exact[i][name]).mean() for i in exact]))
"""


def in_4_bits(folder, group=32):
    """Make a folder's linear maps 4 bits wide, in the packed layout of compressed-tensors, and return it."""
    file = folder / "model.safetensors"
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(file).items()}
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        weight = tensors.pop(name).float()
        parts = weight.unflatten(1, (-1, group))
        scale = (parts.abs().amax(-1) / 7).to(torch.bfloat16)
        whole = 8 + (parts / scale.float()[..., None]).round().clamp(-8, 7).to(torch.int64).flatten(1)
        packed = (whole.unflatten(1, (-1, 8)) << 4 * torch.arange(8)).sum(-1)
        stem = name.removesuffix("weight")
        tensors[f"{stem}weight_packed"] = (packed - (packed >= 2**31) * 2**32).to(torch.int32)
        tensors[f"{stem}weight_scale"], tensors[f"{stem}weight_shape"] = scale, torch.tensor(weight.shape)
    save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": group}
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ["lm_head"],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
@pytest.mark.usefixtures("all_threads")
def test_vllm_scorer_gives_the_numbers_of_transformers_by_the_real_vllm(tmp_path):
    run = [sys.executable, "-c", COMPARE, str(tmp_path)]
    done = subprocess.run(run, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert len(found) == len(REAL)
    for name, quantity, difference in found:
        assert float(difference) < 2e-3, (name, quantity)
    packed = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("PACKED")]
    off = {(way, name): float(distance) for way, name, distance in packed}
    assert len(off) == 8 * PACKS
    for name in {name for _, name in off}:
        assert 0 < off["vLLM", name] < 1.3 * off["transformers", name], name  # which rounds to bfloat16, too
