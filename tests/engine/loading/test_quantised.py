"""Weights that a library of quantisation wraps: tensors of a type of its own, which knows few operations."""

import pytest
import torch
from torch import nn

from tests.tiny import tiny_model, tiny_tokenizer
from tokur_cli.engine.body import parts_of
from tokur_cli.engine.loading.models import _not_finite, load_language_model
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.projections import find_projections
from tokur_cli.engine.uncertainty.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError


class Int8Wrapped(torch.Tensor):
    """Integers and a scale a row, which stand for a float32 weight and know no operation but to be detached."""

    @staticmethod
    def __new__(cls, integers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=torch.float32)

    def __init__(self, integers, scale):
        self.integers, self.scale = integers, scale

    def __tensor_flatten__(self):
        return ["integers", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(**inner)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        if function is torch.ops.aten.detach.default:
            return cls(arguments[0].integers, arguments[0].scale)
        raise NotImplementedError(f"Int8Wrapped has no {function}")


def wrapped_model():
    model = tiny_model()
    parts_of(model)  # seen while it still runs
    projection = model.model.layers[1].self_attn.k_proj
    scale = projection.weight.abs().amax(1, keepdim=True) / 127
    wrapped = Int8Wrapped((projection.weight / scale).round().to(torch.int8), scale)
    projection.weight = nn.Parameter(wrapped, requires_grad=False)
    return model


def test_what_a_wrapped_weight_is_made_of_is_looked_at():
    model = wrapped_model()
    assert _not_finite(model) is None
    model.model.layers[1].self_attn.k_proj.weight.scale[3] = float("nan")
    assert _not_finite(model) == "model.layers.1.self_attn.k_proj.weight"


def test_a_wrapped_weight_is_not_perturbed():
    with pytest.raises(TokurError, match=r"layers\.1\.self_attn\.k_proj is quantised \(Int8Wrapped\)"):
        find_projections(wrapped_model())


def test_a_model_that_torchao_quantised_is_loaded_scored_and_not_perturbed(tmp_path):
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    from transformers import AutoModelForCausalLM, TorchAoConfig

    tiny_model("llama", hidden_size=64, intermediate_size=128).save_pretrained(tmp_path / "plain")
    config = TorchAoConfig(quantization.Int8WeightOnlyConfig(version=2))
    quantised = AutoModelForCausalLM.from_pretrained(
        tmp_path / "plain", quantization_config=config, dtype=torch.bfloat16
    )
    quantised.save_pretrained(tmp_path / "int8")
    tiny_tokenizer().save_pretrained(tmp_path / "int8")
    loaded = load_language_model(str(tmp_path / "int8"), dtype="bfloat16")
    loaded.probe.check_scoring(None)
    loaded.probe.check_generation()
    got = dict(Scorer(loaded.model, None).score([TokenizedResponse([5, 77, 130], [201, 33])]))[0]
    log_p = quantised(torch.tensor([[5, 77, 130, 201]])).logits[0, 2:].float().log_softmax(-1)
    assert got["logprob"] == pytest.approx(log_p[[0, 1], [201, 33]].detach().numpy(), abs=0.3)  # bfloat16
    with pytest.raises(TokurError, match=r"q_proj is quantised \(Int8Tensor\)"):
        build_posterior(loaded.model)
