"""Quantised weights: by bitsandbytes, GPTQ and torchao."""

import copy
import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.engine import oracle
from tests.engine.loading import LORA, load, plain_model, save_adapter
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.model.linear import weight_of
from tokur_cli.engine.posterior import basis
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.projections import find_projections
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

bitsandbytes = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
transformers = pytest.importorskip("transformers")

RESPONSE = TokenizedResponse([5, 77, 130, 9], [201, 33, 34, 60])
OTHERS = [TokenizedResponse([8, 9, 200 - n], [n, n + 1, n + 2, 40, 41]) for n in range(3)]
FOUR_BITS = {"load_in_4bit": True, "bnb_4bit_compute_dtype": torch.float32}
KINDS = {
    "nf4": FOUR_BITS | {"bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    "int8": {"load_in_8bit": True},
}


def quantise(model, kind, folder):
    """Save a model and its tokenizer, quantised by bitsandbytes; return it in float64, with the library's weights."""
    model.save_pretrained(folder / "plain")
    config = transformers.BitsAndBytesConfig(**KINDS[kind])
    small = type(model).from_pretrained(folder / "plain", quantization_config=config, dtype=torch.float32)
    small.save_pretrained(folder / kind)
    tiny_tokenizer().save_pretrained(folder / kind)
    whole = copy.deepcopy(model).double()
    for name, module in small.named_modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            weight = bitsandbytes.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
        elif isinstance(module, bitsandbytes.nn.Linear8bitLt):
            weight = bitsandbytes.functional.int8_vectorwise_dequant(module.weight.CB, module.weight.SCB)
        else:
            continue
        whole.get_submodule(name).weight = nn.Parameter(weight.double(), requires_grad=False)
    return whole


def scored(model, draws, responses):
    return [
        result for _, result in sorted(Scorer(model, draws, sampling="shared").score(responses), key=lambda r: r[0])
    ]


def beside_the_oracle(loaded, whole, posterior):
    """Return what is scored, what it is for the whole model in float64, and how far the product itself is off."""
    loaded.probe.check_scoring(posterior)
    loaded.probe.check_generation()
    (got,) = scored(loaded.model, Draws(posterior, 2), [RESPONSE])
    ids = RESPONSE.prompt_ids, RESPONSE.response_ids
    mean = oracle.log_probabilities(whole, *ids)
    drawn = [oracle.log_probabilities(oracle.fixed_draw(whole, posterior, member), *ids) for member in range(2)]
    expected = oracle.reference_quantities(mean, drawn, RESPONSE.response_ids)
    errs = float((oracle.log_probabilities(loaded.model, *ids) - mean).abs().max())  # of the product itself
    return got, expected, errs


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("kind", KINDS)
def test_weight_of_is_that_that_the_library_dequantises(kind, family, tmp_path):
    """Whatever the biases are: Qwen2's are thousands of times as large as its weights."""
    whole = quantise(plain_model(family), kind, tmp_path)
    loaded = load(tmp_path / kind)
    for projection in find_projections(loaded.model, "q_proj,k_proj,down_proj"):
        weight = whole.get_submodule(projection.module_name).weight
        assert projection.size == tuple(weight.shape)
        # On some processors bitsandbytes multiplies in bfloat16, with scales in bfloat16
        assert projection.weight().double() == pytest.approx(weight.numpy(), rel=2**-6, abs=1e-6)
        inputs = weight.shape[1]
        columns = weight_of("", projection.module, torch.float32, [3, inputs - 1])
        assert torch.equal(columns, projection.weight()[:, [3, inputs - 1]])
        digest, module = basis.weight_digest(loaded.model, [projection]), projection.module
        scales = module.state.SCB if kind == "int8" else module.weight.quant_state.absmax
        scales[-1] += 20
        assert basis.weight_digest(loaded.model, [projection]) != digest


@pytest.mark.parametrize("kind", KINDS)
def test_score_is_that_of_the_dequantised_weights_with_the_draws_written_into_them(kind, tmp_path):
    whole = quantise(plain_model(), kind, tmp_path)
    loaded = load(tmp_path / kind)
    posterior = build_posterior(loaded.model, PosteriorSettings(sigma=1.5, rank=4))
    got, expected, errs = beside_the_oracle(loaded, whole, posterior)
    assert errs < 0.05
    for name in ("logprob", "entropy", "tu", "au", "eu"):
        assert got[name] == pytest.approx(expected[name], abs=(1 if name == "eu" else 3) * errs + 1e-5), name
    assert expected["eu"].max() > 3 * errs + 1e-3, "draws move it by more than rounding does"


@pytest.mark.parametrize("kind", KINDS)
def test_score_what_is_computed_beside_a_token_changes_nothing(kind, tmp_path):
    """bitsandbytes' own product of 8 bits rounds inputs by what stands in the batch's other rows."""
    quantise(plain_model(), kind, tmp_path)
    loaded = load(tmp_path / kind)
    loaded.model.model.layers[0].input_layernorm.weight[5] *= 40  # a feature that is large in some rows
    draws = Draws(build_posterior(loaded.model, PosteriorSettings(sigma=1.5, rank=4)), 2)
    (alone,) = scored(loaded.model, draws, [RESPONSE])
    together = scored(loaded.model, draws, [RESPONSE, *OTHERS])[0]
    for name in ("logprob", "entropy", "eu"):
        assert together[name] == pytest.approx(alone[name], abs=0.02), name


def test_merge_adapter_stands_beside_quantised_weights_and_its_basis_is_that_of_both(tmp_path, monkeypatch):
    whole = quantise(plain_model(), "nf4", tmp_path)
    beside = save_adapter(tmp_path / "adapter", ("LoraConfig", LORA), tmp_path / "nf4", plain_model())
    loaded = load(tmp_path / "adapter")
    for name, module in beside.base_model.model.named_modules():
        if hasattr(module, "get_delta_weight"):
            whole.get_submodule(name).weight += module.get_delta_weight("default").detach().double()
    posterior = build_posterior(loaded.model, PosteriorSettings(sigma=1.5, rank=4))
    assert [matrix.name for matrix in posterior.matrices][:2] == [
        "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"
    ]  # fmt: skip
    got, expected, _ = beside_the_oracle(loaded, whole, posterior)
    for name in ("logprob", "entropy", "tu", "au", "eu"):
        assert got[name] == pytest.approx(expected[name], abs=0.02 if name == "eu" else 0.05), name
    assert expected["eu"].max() > 0.05
    monkeypatch.setattr(basis, "_SAMPLED", 2)
    digest = basis.weight_digest(loaded.model, posterior.matrices)
    posterior.matrices[0].module.base_layer.weight.view(-1)[5] ^= 1
    assert basis.weight_digest(loaded.model, posterior.matrices) != digest
    save_adapter(
        tmp_path / "ia3", ("IA3Config", {"target_modules": ["k_proj"], "feedforward_modules": []}), model=plain_model()
    )
    with pytest.raises(TokurError, match=r"can't be put into .*beside them only LoRA"):
        load(tmp_path / "nf4", adapter=str(tmp_path / "ia3"))


@pytest.mark.parametrize(("quantize", "kind"), [("4bit", "nf4"), ("8bit", "int8")])
def test_load_checkpoint_is_quantised_while_it_loads(quantize, kind, tmp_path):
    quantise(plain_model(), kind, tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path / "plain")
    loaded = load(tmp_path / "plain", quantize=quantize)
    assert loaded.identity["quantize"] == quantize
    ids = torch.tensor([[5, 77, 130, 201]])
    torch.testing.assert_close(loaded.model(ids).logits, load(tmp_path / kind).model(ids).logits, rtol=0, atol=1e-4)
    with pytest.raises(TokurError, match=f"quantised already: leave --quantize {quantize} out"):
        load(tmp_path / kind, quantize=quantize)


def packed_in_int32(numbers):
    """Put eight numbers of 4 bits, (n, 8k), into each int32, (n, k), the first one lowest."""
    eight = numbers.long().view(len(numbers), -1, 8)
    return (eight << 4 * torch.arange(8)).sum(-1).to(torch.uint32).view(torch.int32)


def gptq(folder, order):
    """Save a tiny model in GPTQ's layout, groups of 4 bits with a scale and a zero point; return it in float64.

    The layout is the one that AutoGPTQ began, whose zero points are one less than those that are meant.
    """
    group, whole, tensors = 32, plain_model().double(), {}
    for name, weight in plain_model().state_dict().items():
        if "proj" not in name:
            tensors[name] = weight.half()
            continue
        inputs = weight.shape[1]
        group_of = torch.arange(inputs) // group
        if order == "shuffled":  # as where the columns that matter most were quantised first
            group_of = group_of[torch.randperm(inputs, generator=torch.Generator().manual_seed(0))]
        members = torch.stack([weight[:, group_of == each] for each in range(inputs // group)])  # (groups, out, group)
        lowest, highest = members.amin(2), members.amax(2)
        scales = ((highest - lowest) / 15).half()
        zeros = (-lowest / scales).round()
        levels = (weight / scales[group_of].T + zeros[group_of].T).round().clamp(0, 15)
        exact = (levels - zeros[group_of].T).double() * scales[group_of].T.double()
        module = name.removesuffix(".weight")
        whole.get_submodule(module).weight = nn.Parameter(exact, requires_grad=False)
        tensors |= {
            f"{module}.qweight": packed_in_int32(levels).T.contiguous(),
            f"{module}.qzeros": packed_in_int32(zeros - 1),
            f"{module}.scales": scales,
            f"{module}.g_idx": group_of.int(),
        }
    config = plain_model().config.to_dict() | {"architectures": ["LlamaForCausalLM"], "dtype": "float16"}
    config["quantization_config"] = {
        "quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": order == "shuffled", "sym": False,
        "checkpoint_format": "gptq", "backend": "torch",
    }  # fmt: skip
    tiny_tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return whole


@pytest.mark.parametrize("order", ["given", "shuffled"])
def test_score_of_a_checkpoint_by_gptq_with_draws(order, tmp_path):
    pytest.importorskip("gptqmodel", reason="gptqmodel is not installed")
    pytest.importorskip("optimum", reason="optimum is not installed")
    whole = gptq(tmp_path, order)
    loaded = load(tmp_path, dtype="float32")
    for projection in find_projections(loaded.model, "q_proj,k_proj,down_proj"):
        expected = whole.get_submodule(projection.module_name).weight
        assert projection.weight().double() == pytest.approx(expected.numpy(), rel=2**-9, abs=1e-5)
    posterior = build_posterior(loaded.model, PosteriorSettings(sigma=1.5, rank=4))
    got, expected, errs = beside_the_oracle(loaded, whole, posterior)
    assert errs < 0.05
    for name in ("logprob", "entropy", "tu", "au", "eu"):
        assert got[name] == pytest.approx(expected[name], abs=errs), name
    assert expected["eu"].max() > 3 * errs


def test_load_refuses_by_name_what_transformers_passes_over(tmp_path):
    """It would read the integers or the float8 as the weights themselves."""
    plain_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "FP8"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(TokurError, match=r"is quantised by modelopt, which transformers \S+ does not load"):
        load(tmp_path)


TORCHAO = {
    "int8": lambda of: of.Int8WeightOnlyConfig(version=2),
    "float8": lambda of: of.Float8WeightOnlyConfig(),
    "int4": lambda of: of.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=of.granularity.PerGroup(32)),
}


@pytest.mark.parametrize("kind", TORCHAO)
def test_score_of_what_torchao_quantised_with_draws(kind, tmp_path):
    of = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    plain = plain_model()
    plain.save_pretrained(tmp_path / "plain")
    config = transformers.TorchAoConfig(TORCHAO[kind](of))
    small = type(plain).from_pretrained(tmp_path / "plain", quantization_config=config, dtype=torch.bfloat16)
    small.save_pretrained(tmp_path / kind)
    tiny_tokenizer().save_pretrained(tmp_path / kind)
    loaded = load(tmp_path / kind, dtype="bfloat16")
    whole = plain.double()
    for name, module in small.named_modules():
        if isinstance(module, nn.Linear) and hasattr(module.weight, "dequantize"):
            whole.get_submodule(name).weight = nn.Parameter(module.weight.dequantize().double(), requires_grad=False)
    assert not torch.equal(
        whole.model.layers[0].self_attn.q_proj.weight, plain_model().double().model.layers[0].self_attn.q_proj.weight
    )
    posterior = build_posterior(loaded.model, PosteriorSettings(sigma=1.5, rank=4), cache=tmp_path / "bases")
    got, expected, errs = beside_the_oracle(loaded, whole, posterior)
    for name in ("logprob", "entropy", "tu", "au", "eu"):
        assert got[name] == pytest.approx(expected[name], abs=3 * errs + 1e-5), name
