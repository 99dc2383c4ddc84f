import copy
import re

import pytest
import torch
import transformers

from tests.engine import oracle
from tests.engine.more_families import MORE, model_of, more
from tests.tiny import FAMILIES, SIZES, tiny_model
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.projections import count_layers, find_projections
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

WITHOUT_BOTH = {"mamba", "mamba2", "bert"}
FUSED = ["codegen", "gpt_bigcode", "gpt_bigcode-multi-head", "openai-gpt", "persimmon", "gpt_neox_japanese", "dbrx"]
FUSED += ["phi4_multimodal"]

LATENT = {"deepseek_v2": "q_proj", "kimi_linear": "q_proj"}  # by what their queries are named
LATENT |= {"deepseek_v3": "q_b_proj.q_proj", "glm4_moe_lite": "q_b_proj.q_proj"}
HYBRID = ["olmo_hybrid", "jamba", "falcon_h1", "zamba", "zamba2"]
WITH_TOWERS = ["gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "mistral3", "internvl"]

MORE_FUSED = {
    "bloom": ("BloomConfig", {"vocab_size": 259, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("MptConfig", {"vocab_size": 259, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 512}),
    "jetmoe": ("JetMoeConfig", {"vocab_size": 259, "hidden_size": 32, "num_hidden_layers": 2, "kv_channels": 8}),
    "falcon": ("FalconConfig", SIZES | {"multi_query": False, "new_decoder_architecture": False, "bias": True}),
    "falcon-multi-query": ("FalconConfig", SIZES | {"multi_query": True, "new_decoder_architecture": False}),
    "falcon-new": ("FalconConfig", SIZES | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}),
}


def any_tiny_model(family, monkeypatch):
    if family in MORE:
        return more(family)
    if family in MORE_FUSED:
        monkeypatch.setitem(FAMILIES, family, MORE_FUSED[family])
    return tiny_model(family)


def change(model, part, silent=False):
    """Replace a projection's weight by other numbers, or weight and bias by zeros."""
    for projection in find_projections(model, part):
        rows = slice(None) if projection.rows is None else projection.rows
        weight = projection.module.weight
        weight = weight.T if type(projection.module).__name__ == "Conv1D" else weight
        weight[rows] = 0 if silent else torch.randn_like(weight[rows])
        if silent and getattr(projection.module, "bias", None) is not None:
            projection.module.bias[rows] = 0
    return model


@pytest.mark.parametrize("family", [*FAMILIES, *MORE_FUSED, *FUSED])
def test_find_projections_queries_and_keys_by_what_they_do(family, monkeypatch):
    """With silent queries no key matters, and the other way round; the values matter then, and nothing without them."""
    model = any_tiny_model(family, monkeypatch)
    ids = torch.arange(20)[None] * 7 % 250
    logits = {}
    with torch.no_grad():
        pairs = (("q_proj", "k_proj"), ("k_proj", "q_proj"), ("q_proj", "v_proj"), ("v_proj", "q_proj"))
        if family == "jetmoe":  # whose queries are experts'
            pairs = (("k_proj", "v_proj"), ("v_proj", "k_proj"))
        for silent, changed in pairs:
            still = change(copy.deepcopy(model), silent, silent=True)
            logits["before"] = still(ids).logits
            logits["after"] = change(still, changed)(ids).logits
            moved = (logits["before"] - logits["after"]).abs().max()
            assert moved > 1e-2 if changed == "v_proj" else moved < 1e-5, (silent, changed)
        without_queries = change(copy.deepcopy(model), pairs[0][0], silent=True)
        assert not torch.allclose(model(ids).logits, without_queries(ids).logits, atol=1e-2)


def test_find_projections_targets_are_ends_of_names_or_globs():
    model = tiny_model("llama")
    model.config.v_head_dim = 8  # as models have it that have no latent attention
    assert [p.name for p in find_projections(model, "layers.1.self_attn.q_proj")] == ["model.layers.1.self_attn.q_proj"]
    assert len(find_projections(model, "model.layers.0.*")) == 7
    assert len(find_projections(model, "q_proj, v_proj")) == 4


def test_find_projections_of_some_layers_are_none_that_stand_outside():
    model = model_of(MORE["opt"][0], MORE["opt"][1] | {"word_embed_proj_dim": 16})
    assert {p.layer[1] for p in find_projections(model, "*", "1:")} == {1}


@pytest.mark.parametrize("more", [1, -1])
def test_find_projections_fused_weight_of_another_width_than_its_layout_has_is_refused(more):
    model = tiny_model("phi3")
    model.config.num_key_value_heads += more
    with pytest.raises(TokurError, match="qkv_proj has 64 output features, which its family's layout does not"):
        find_projections(model)


def test_find_projections_of_unknown_targets_names_what_there_is():
    with pytest.raises(TokurError, match=r"named wq; .*down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"):
        find_projections(tiny_model("llama"), "wq,k_proj")
    with pytest.raises(TokurError, match="is named ,; it has"):
        find_projections(tiny_model("llama"), ",")


@pytest.mark.parametrize("family", [*FAMILIES, *(family for family in MORE if family not in WITHOUT_BOTH)])
def test_score_over_one_token_queries_and_keys_change_nothing(family):
    """A softmax over one key is 1, however large the draw."""
    model = more(family) if family in MORE else tiny_model(family)
    posterior = build_posterior(model, PosteriorSettings(sigma=3.0))
    got = dict(Scorer(model, Draws(posterior, 2), sampling="shared").score([TokenizedResponse([77], [5])]))[0]
    assert got["eu"][0] < 1e-5
    assert got["tu"] == pytest.approx(got["entropy"], abs=1e-4)
    longer = dict(Scorer(model, Draws(posterior, 2), sampling="shared").score([TokenizedResponse([77, 9, 3], [5])]))[0]
    assert longer["eu"][0] > 1e-4, "and over three they do"


GATED = ["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"]


@pytest.mark.parametrize("family", GATED)
def test_find_projections_leave_a_gate_beside_the_queries_alone(family):
    """With a closed query, q_proj's other rows are the output gate: they matter over a single token, queries don't."""
    model = more(family)
    queries, gate = (find_projections(model, name)[0] for name in ("q_proj", "q_proj.output_gate"))
    assert queries.name == queries.module_name == gate.module_name == "model.layers.1.self_attn.q_proj"
    assert sorted([*queries.rows.tolist(), *gate.rows.tolist()]) == list(range(queries.module.out_features))
    ids = torch.tensor([[77]])
    before = model(ids).logits
    for projection, matters in ((queries, False), (gate, True)):
        changed = copy.deepcopy(model)
        weight = changed.get_submodule(projection.module_name).weight
        weight[projection.rows] = torch.randn(weight[projection.rows].shape, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(changed(ids).logits, before, atol=1e-5) != matters


@pytest.mark.parametrize(
    "family", [*GATED, *FUSED, *WITH_TOWERS, *LATENT, *HYBRID, "opt", "bart", "llama4_text", "mllama", "bloom"]
)
def test_score_draws_of_other_families_equal_brute_force(family):
    model = more(family)
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=1))
    response = TokenizedResponse([5, 77, 130, 9, 44], [201, 33, 120, 64, 18, 250])
    got = dict(Scorer(model, Draws(posterior, 2), sampling="shared").score([response]))[0]
    prompt, ids = response.prompt_ids, response.response_ids
    draws = [oracle.log_probabilities(oracle.fixed_draw(model, posterior, m), prompt, ids) for m in range(2)]
    base = oracle.log_probabilities(copy.deepcopy(model).double(), prompt, ids)
    for name, values in oracle.reference_quantities(base, draws, ids).items():
        assert got[name] == pytest.approx(values, abs=1e-3), name


@pytest.mark.parametrize("family", WITH_TOWERS)
def test_find_projections_none_of_a_tower_for_images_is_perturbed(family):
    model = more(family)
    assert any(re.search(r"(vision_tower|visual).*(q_proj|qkv)$", name) for name, _ in model.named_modules())
    assert {p.name.split("language_model.")[-1] for p in find_projections(model)} == {
        f"layers.{layer}.self_attn.{part}" for layer in (0, 1) for part in ("q_proj", "k_proj")
    }
    with pytest.raises(TokurError, match="no projection"):
        find_projections(model, "*vision_tower*,*visual*")


def test_find_projections_linear_attention_is_perturbed_only_where_it_is_named():
    model = more("olmo_hybrid")
    assert {p.layer[1] for p in find_projections(model)} == {1}
    assert count_layers(model, find_projections(model)) == (1, 2)
    assert {p.layer[1] for p in find_projections(model, "*.q_proj")} == {0, 1}
    assert len(find_projections(model, "linear_attn.q_proj")) == 1
    model = more("qwen3_5_text")
    sizes = [(p.name, p.size) for p in find_projections(model)]
    model.config = transformers.Qwen3_5Config(text_config=model.config.to_dict())  # that of a model for images, too
    assert [(p.name, p.size) for p in find_projections(model)] == sizes


@pytest.mark.parametrize(
    ("family", "weight"), [("phi3", "qkv_proj"), ("gpt2", "c_attn"), ("falcon", "query_key_value"), ("mpt", "Wqkv")]
)
def test_find_projections_fused_weight_of_unknown_layout_is_refused_by_its_name(family, weight, monkeypatch):
    model = any_tiny_model(family, monkeypatch)
    model.config.model_type = "unheard-of"
    for targets in (weight, "*"):
        with pytest.raises(
            TokurError, match=rf"{weight} seems to hold queries, keys or values in one weight.*unheard-of"
        ):
            find_projections(model, targets)
    with pytest.raises(TokurError, match=rf"\(unheard-of\) is named q_proj, k_proj; it has .*{weight}.* --targets"):
        find_projections(model)


@pytest.mark.parametrize("sampling", ["shared", "stepwise"])
@pytest.mark.parametrize("family", LATENT)
def test_build_posterior_tells_keys_from_values_in_latent_attention(family, sampling):
    """Their module is given a dimension more, that of its one head; over one token, only the values matter."""
    model = more(family)
    assert {p.name.rpartition("self_attn.")[2] for p in find_projections(model)} == {LATENT[family], "kv_b_proj.k_proj"}
    for targets, matters in (("k_proj", False), ("v_proj", True)):
        draws = Draws(build_posterior(model, PosteriorSettings(sigma=3.0, targets=targets)), 2)
        short, longer = TokenizedResponse([77], [5]), TokenizedResponse([77, 9, 3], [5, 6, 9])
        got = dict(Scorer(model, draws, sampling=sampling).score([short, longer]))
        assert (got[0]["eu"][0] > 1e-4) == matters
        assert got[1]["eu"].min() > 1e-5


def test_find_projections_of_a_state_space_layer_is_named_with_what_stands_before_it():
    model = more("mamba")
    with pytest.raises(TokurError, match=r"named in_proj; it has mixer\.in_proj, mixer\.out_proj"):
        find_projections(model, "in_proj")
    assert len(find_projections(model, "mixer.in_proj")) == 2


def test_score_projection_that_is_given_its_tokens_in_a_heap_is_refused():
    model = tiny_model()
    for layer in model.model.layers:
        inner = layer.mlp.forward
        layer.mlp.forward = lambda hidden, inner=inner: inner(hidden.flatten(0, 1)).view(hidden.shape)
    draws = Draws(build_posterior(model, PosteriorSettings(targets="up_proj")), 2)
    with pytest.raises(TokurError, match=r"layers\.0\.mlp\.up_proj is not given its inputs token by token.*--targets"):
        dict(Scorer(model, draws).score([TokenizedResponse([77, 9, 3], [5, 6, 9])]))
