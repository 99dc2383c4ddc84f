import copy

import pytest
import torch

from tests.tiny import FAMILIES, SIZES, tiny_model
from tokur_cli.engine.projections import find_projections
from tokur_cli.records.errors import TokurError

MORE_FUSED = {
    "bloom": ("BloomConfig", {"vocab_size": 259, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("MptConfig", {"vocab_size": 259, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 512}),
    "falcon": ("FalconConfig", SIZES | {"multi_query": False, "new_decoder_architecture": False, "bias": True}),
    "falcon-multi-query": ("FalconConfig", SIZES | {"multi_query": True, "new_decoder_architecture": False}),
    "falcon-new": (
        "FalconConfig",
        SIZES | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True},
    ),
}


def any_tiny_model(family, monkeypatch):
    if family in MORE_FUSED:
        monkeypatch.setitem(FAMILIES, family, MORE_FUSED[family])
    return tiny_model(family)


def silence(model, part):
    """Set every row and bias of a projection to zero."""
    for projection in find_projections(model, part):
        rows = slice(None) if projection.rows is None else projection.rows
        weight = projection.module.weight
        weight = weight.T if type(projection.module).__name__ == "Conv1D" else weight
        weight[rows] = 0
        if getattr(projection.module, "bias", None) is not None:
            projection.module.bias[rows] = 0
    return model


def change(model, part):
    """Replace a projection's weight by other numbers."""
    for projection in find_projections(model, part):
        rows = slice(None) if projection.rows is None else projection.rows
        weight = projection.module.weight
        weight = weight.T if type(projection.module).__name__ == "Conv1D" else weight
        weight[rows] = torch.randn_like(weight[rows])
    return model


@pytest.mark.parametrize("family", [*FAMILIES, *MORE_FUSED])
def test_queries_and_keys_are_found_by_what_they_do(family, monkeypatch):
    """With silent queries no key matters, and the other way round; the values matter always."""
    model = any_tiny_model(family, monkeypatch)
    ids = torch.arange(20)[None] * 7 % 250
    logits = {}
    with torch.no_grad():
        for silent, changed in (("q_proj", "k_proj"), ("k_proj", "q_proj"), ("q_proj", "v_proj")):
            still = silence(copy.deepcopy(model), silent)
            logits["before"] = still(ids).logits
            logits["after"] = change(still, changed)(ids).logits
            moved = (logits["before"] - logits["after"]).abs().max()
            assert moved > 1e-2 if changed == "v_proj" else moved < 1e-5, (silent, changed)
        assert not torch.allclose(model(ids).logits, silence(copy.deepcopy(model), "q_proj")(ids).logits, atol=1e-2)


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi3", "gpt_neox"])
def test_default_finds_a_query_and_a_key_a_layer(family):
    names = [projection.name for projection in find_projections(tiny_model(family))]
    assert [name.rpartition(".")[2] for name in names] == ["q_proj", "k_proj"] * 2


def test_weight_is_out_by_in_for_every_layout():
    for family in ("llama", "gpt2", "gpt_neox"):
        model = tiny_model(family)
        x = torch.randn(3, 32)
        for projection in find_projections(model):
            output = projection.module(x)
            if getattr(projection.module, "bias", None) is not None:
                output = output - projection.module.bias
            rows = slice(None) if projection.rows is None else projection.rows
            assert torch.allclose(x @ projection.weight().T, output[:, rows], atol=1e-4)


def test_targets_are_ends_of_names_or_globs():
    model = tiny_model("llama")
    assert [p.name for p in find_projections(model, "layers.1.self_attn.q_proj")] == ["model.layers.1.self_attn.q_proj"]
    assert len(find_projections(model, "model.layers.0.*")) == 7
    assert len(find_projections(model, "q_proj, v_proj")) == 4


def test_unknown_targets_name_what_was_found():
    with pytest.raises(TokurError, match=r'"wq".*down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj'):
        find_projections(tiny_model("llama"), "wq,k_proj")
    with pytest.raises(TokurError, match="is named"):
        find_projections(tiny_model("llama"), ",")


def test_output_head_is_never_perturbed():
    assert not any("lm_head" in p.name for p in find_projections(tiny_model("llama", tie_word_embeddings=False), "*"))
