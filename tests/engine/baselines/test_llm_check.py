import numpy as np
import pytest
import torch

from tests.engine.more_families import more
from tests.tiny import FAMILIES, tiny_model
from tokur_cli.engine.baselines.layers import INSIDE, LayerView
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.records.errors import UsageError
from tokur_cli.scores.catalogue import choose_scores, compute_scores

SIZES = ((3, 5), (20, 1), (7, 40), (1, 12))  # (prompt, response); 40 tokens are more than the 32 hidden features
SCORES = choose_scores("llm_check_attention,llm_check_hidden,llm_check_logit_entropy")


def responses(sizes=SIZES):
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(0, 255, (prompt + tokens,), generator=generator).tolist() for prompt, tokens in sizes]
    return [TokenizedResponse(row[:prompt], row[prompt:]) for row, (prompt, _) in zip(rows, sizes, strict=True)]


def expected(model, response, layer):
    """LLM-Check's formulas on everything that transformers gives out, in float64."""
    model.set_attn_implementation("eager")
    ids = torch.tensor([[*response.prompt_ids, *response.response_ids]])
    start = len(response.prompt_ids)
    with torch.no_grad():
        outputs = model(input_ids=ids, output_attentions=True, output_hidden_states=True)
    heads = outputs.attentions[layer - 1][0].double().numpy()
    attention = sum(np.mean([np.log(head[t, t]) for t in range(start, ids.shape[1])]) for head in heads)
    states = outputs.hidden_states[layer][0, start:].double().numpy()
    features = states.shape[1]
    centring = np.eye(features) - np.ones((features, features)) / features
    gram = states @ centring @ states.T + 1e-3 * np.eye(len(states))
    entropies = []
    for t in range(start, ids.shape[1]):
        largest = np.sort(outputs.logits[0, t - 1].double().numpy())[-50:]
        p = np.exp(largest) / np.exp(largest).sum()
        entropies.append(-np.sum(p * np.log(p)))
    return {
        "llm_check_attention": attention,
        "llm_check_hidden": np.mean(np.log(np.linalg.eigvalsh(gram))),
        "llm_check_logit_entropy": np.mean(entropies),
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("batch_tokens", [1, 1000])
def test_features_are_those_of_everything_that_transformers_gives_out(family, batch_tokens):
    found = LayerView(tiny_model(family), 1, batch_tokens).features(responses(), INSIDE)
    for response, features in zip(responses(), found, strict=True):
        assert len(features["hidden_eigenvalues"]) == len(response.response_ids)
        oracle = expected(tiny_model(family).double(), response, 1)
        assert compute_scores(SCORES, features) == pytest.approx(oracle, rel=2e-4, abs=2e-4)


@pytest.mark.parametrize("family", ["mistral", "gemma3"])
def test_features_of_windowed_attention(family):
    model = tiny_model(family, sliding_window=6)
    (features, *_) = LayerView(model, 1, 1000).features(responses(((20, 15),)), INSIDE)
    oracle = expected(tiny_model(family, sliding_window=6).double(), *responses(((20, 15),)), 1)
    assert compute_scores(SCORES, features) == pytest.approx(oracle, rel=2e-4, abs=2e-4)


def test_features_of_a_layer_that_puts_out_a_list():
    model, ids = more("openai-gpt"), [1, 2, 3]
    (features,) = LayerView(model, 1, 100).features([TokenizedResponse(ids[:1], ids[1:])], ["last_state"])
    expected = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[1]
    assert features["last_state"] == pytest.approx(expected[0, -1].detach().numpy(), abs=1e-5)


def test_layer_view_layer_is_chosen_and_is_the_middle_one_by_default():
    model = tiny_model(num_hidden_layers=5)
    assert LayerView(model, None, 100).layer == 2
    numbers = {}
    for layer in (1, 3, 4):
        (features,) = LayerView(model, layer, 100).features(responses()[:1], INSIDE)
        numbers[layer] = compute_scores(SCORES, features)
        oracle = expected(tiny_model(num_hidden_layers=5).double(), responses()[0], layer)
        assert numbers[layer] == pytest.approx(oracle, rel=2e-4, abs=2e-4)
    assert len({scores["llm_check_attention"] for scores in numbers.values()}) == 3
    with pytest.raises(UsageError, match="no layer 6: the model has 5"):
        LayerView(model, 6, 100)


def test_features_leave_the_model_as_it_was():
    model = tiny_model()
    ids = torch.tensor([responses()[2].prompt_ids])
    before, attention = model(input_ids=ids).logits, model.config._attn_implementation
    LayerView(model, 1, 100).features(responses(), INSIDE)
    assert model.config._attn_implementation == attention == "sdpa"
    assert torch.equal(model(input_ids=ids).logits, before)
    assert not any(module._forward_hooks for module in model.modules())


def test_features_of_a_layer_that_hides_its_attention_is_refused_and_the_rest_still_found(monkeypatch):
    model = tiny_model()
    monkeypatch.setattr(type(model), "set_attn_implementation", lambda *_: None)  # as families do that have one only
    with pytest.raises(UsageError, match="does not show its attention"):
        LayerView(model, 1, 100).features(responses(), INSIDE)
    (features, *_) = LayerView(model, 1, 100).features(responses(), ["hidden_eigenvalues"])
    assert list(features) == ["hidden_eigenvalues"]


def test_features_of_states_beyond_the_numbers_of_the_dtype_have_no_eigenvalues():
    model = tiny_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[7] = torch.inf
    (features,) = LayerView(model, 1, 100).features([TokenizedResponse([3], [7, 5])], ["hidden_eigenvalues"])
    assert np.isnan(features["hidden_eigenvalues"]).all()
