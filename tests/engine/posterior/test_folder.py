"""Folders of posteriors: stock PEFT computes what the engine does, and other weights are refused."""

import copy
import json
from types import SimpleNamespace

import pytest
import torch

from tests.engine import oracle
from tests.tiny import FAMILIES, tiny_model
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.model.find import Source
from tokur_cli.engine.posterior.folder import keep_posterior, load_posterior
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import DEFAULT_TARGETS, PosteriorSettings, read_description, refuse_existing
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

RESPONSE = TokenizedResponse([1, 2, 3, 4], [50, 60, 70, 80, 90])


def keep(folder, model, posterior, **options):
    source = Source("base", "tiny", revision="c0ffee")
    loaded = SimpleNamespace(model=model, name="tiny", identity={"revision": "c0ffee", "base": "base"}, source=source)
    keep_posterior(str(folder), loaded, posterior, 2, **options)


def peft_quantities(model, folder, response):
    """TU, AU and EU from plain forward passes of stock PEFT with the adapters of a folder."""
    peft = pytest.importorskip("peft")
    draws = []
    for member in range(2):
        adapted = peft.PeftModel.from_pretrained(copy.deepcopy(model), folder / f"draw-{member}").eval()
        draws.append(oracle.log_probabilities(adapted, response.prompt_ids, response.response_ids))
    return oracle.reference_quantities(draws[0], draws, response.response_ids)


@pytest.mark.parametrize(
    ("family", "targets"), [*((family, DEFAULT_TARGETS) for family in FAMILIES), ("phi3", "q_proj,k_proj,o_proj")]
)
def test_keep_posterior_writes_adapters_with_which_stock_peft_gives_the_shared_draws(family, targets, tmp_path):
    model = tiny_model(family)
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=4, targets=targets))
    keep(tmp_path / "posterior", model, posterior)
    got = dict(Scorer(model, Draws(posterior, 2), sampling="shared").score([RESPONSE]))[0]
    expected = peft_quantities(model, tmp_path / "posterior", RESPONSE)
    for name in ("tu", "au", "eu"):
        assert got[name] == pytest.approx(expected[name], abs=1e-4)
    assert expected["eu"].max() > 1e-3


@pytest.mark.parametrize(("layers", "targets"), [(None, ["q_proj"]), ("1:", ["model.layers.1.self_attn.q_proj"])])
def test_keep_posterior_names_targets_by_their_ends_where_these_tell_them(layers, targets, tmp_path):
    """As vLLM wants them."""
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model, PosteriorSettings(targets="q_proj", layers=layers)))
    config = json.loads((tmp_path / "posterior" / "draw-0" / "adapter_config.json").read_text())
    assert config["target_modules"] == targets
    assert (config["base_model_name_or_path"], config["revision"]) == ("base", "c0ffee")
    assert config == config | {"task_type": "CAUSAL_LM", "bias": "none", "lora_dropout": 0, "inference_mode": True}


def test_load_posterior_returns_the_one_that_was_made(tmp_path):
    model = tiny_model("llama")
    made = build_posterior(model, PosteriorSettings(rank=5, sigma=0.2, seed=7, targets="q_proj", layers="1:"))
    keep(tmp_path / "posterior", model, made, calibration={"sigma": 0.2, "tolerance": 0.05})
    read = load_posterior(str(tmp_path / "posterior"), model, "tiny")
    assert (read.rank, read.sigma, read.seed, read.targets, read.layers) == (5, 0.2, 7, "q_proj", "1:")
    said = read_description(str(tmp_path / "posterior"))
    assert said.calibration == {"sigma": 0.2, "tolerance": 0.05}
    assert (said.model, said.revision, said.base, said.draws, said.format) == ("tiny", "c0ffee", "base", 2, 1)
    for ours, theirs in zip(read.matrices, made.matrices, strict=True):
        assert ours.name == theirs.name
        assert torch.equal(ours.basis, theirs.basis)
        assert torch.equal(read.weight_noise(ours, 1), made.weight_noise(theirs, 1))
    with pytest.raises(TokurError, match="is of tiny, and the weights of low are not the ones"):
        load_posterior(str(tmp_path / "posterior"), tiny_model("llama", num_hidden_layers=1), "low")


@pytest.mark.parametrize(
    "place", ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj", "model.embed_tokens"]
)
def test_load_posterior_refuses_changed_weights_wherever_they_are(place, tmp_path):
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model))
    changed = copy.deepcopy(model)
    weight = changed.get_submodule(place).weight
    weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    with pytest.raises(TokurError, match="is of tiny, and the weights of other are not the ones"):
        load_posterior(str(tmp_path / "posterior"), changed, "other")


def test_keep_posterior_replaces_no_folder_that_holds_something(tmp_path):
    model, folder = tiny_model("llama"), tmp_path / "posterior"
    folder.mkdir()
    refuse_existing(str(folder))
    keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.1)))
    with pytest.raises(TokurError, match="cannot be written: Directory not empty"):
        keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.2)))
    with pytest.raises(TokurError, match="is there already"):
        refuse_existing(str(folder))
    assert read_description(str(folder)).sigma == 0.1
    assert [path.name for path in tmp_path.iterdir()] == ["posterior"]


def test_load_posterior_says_that_the_basis_is_missing(tmp_path):
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model))
    (tmp_path / "posterior" / "basis.safetensors").unlink()
    with pytest.raises(TokurError, match="cannot be read"):
        load_posterior(str(tmp_path / "posterior"), model, "tiny")
