import copy
import platform
from pathlib import Path

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from torch import nn

from tests.engine.loading import load
from tests.tiny import tiny_model, tiny_model_folder
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.model import linear
from tokur_cli.engine.model.linear import ReorderedHead, ReorderedLinear, reorder_weights
from tokur_cli.engine.posterior.basis import weight_digest
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.projections import find_projections
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse

needs_bfloat16 = pytest.mark.skipif(
    not linear.multiplies_bfloat16_fast("cpu"), reason="this processor does not multiply bfloat16"
)
FAMILIES = "llama", "gemma2", "gpt2"
RESPONSES = [TokenizedResponse(range(5, 5 + prompt), range(60, 60 + length)) for prompt, length in ((7, 40), (3, 9))]


def two_models(family):
    """The same weights, as they were and reordered."""
    model = tiny_model(family).bfloat16()
    reordered = copy.deepcopy(model)
    reorder_weights(reordered)
    return model, reordered


def kinds(model):
    return {name: type(module) for name, module in model.named_modules() if isinstance(module, nn.Linear)}


@needs_bfloat16
@pytest.mark.parametrize("family", FAMILIES)
def test_reorder_weights_scores_and_generated_tokens_are_the_same_to_the_last_bit(family):
    model, reordered = two_models(family)
    changed = {name for name, kind in kinds(reordered).items() if kind is ReorderedLinear}
    assert changed == kinds(model).keys() - ({"lm_head"} if model.config.tie_word_embeddings else set())
    assert (type(reordered.get_output_embeddings()) is ReorderedHead) == model.config.tie_word_embeddings
    digests = {weight_digest(each, find_projections(each)) for each in (model, reordered)}
    assert len(digests) == 1, "its parameters are what was there"
    requests = [DecodingRequest(index, str(index), range(9, 9 + 4 * index), range(3)) for index in (1, 2)]
    found = []
    for each in (model, reordered):
        scores = dict(Scorer(each, Draws(build_posterior(each), 2)).score(RESPONSES))
        decoder = Decoder(each, str, Sampling(temperature=0.8), end_ids=frozenset(), max_new_tokens=12)
        found.append((scores, {(r.index, r.sample): r.token_ids for r in decoder.serve(requests)}))
    (expected, expected_tokens), (got, got_tokens) = found
    for index, quantities in expected.items():
        assert quantities["eu"].max() > 1e-3
        assert all((got[index][name] == values).all() for name, values in quantities.items())
    assert got_tokens == expected_tokens
    assert len(got_tokens) == 6


def test_reorder_weights_the_file_that_weights_came_from_is_let_go(tmp_path):
    folder = tiny_model_folder(tmp_path, tie_word_embeddings=True)
    loaded = load(folder).model
    assert ReorderedLinear in kinds(loaded).values()
    assert str(folder) not in Path("/proc/self/maps").read_text()
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


def test_reorder_weights_a_tied_head_is_copied_where_memory_has_room(monkeypatch):
    model = tiny_model("llama", tie_word_embeddings=True)
    exact = copy.deepcopy(model)
    with monkeypatch.context() as patched:
        patched.setattr(linear, "available_bytes", lambda devices: 4 * model.lm_head.weight.nbytes)
        reorder_weights(model)
        assert type(model.lm_head) is nn.Linear
    reorder_weights(model)
    assert type(model.lm_head) is ReorderedHead
    ids = torch.arange(9)[None]
    assert model.lm_head.weight is model.model.embed_tokens.weight
    torch.testing.assert_close(model(ids).logits, exact(ids).logits)


@needs_bfloat16
def test_reorder_weights_what_is_shared_hooked_quantised_or_computed_otherwise_stays_as_it_is():
    class Quantised(torch.Tensor):
        dtype = torch.bfloat16

    class Scaled(nn.Linear):
        def forward(self, input):
            return 2 * super().forward(input)

    model = nn.ModuleDict({
        "embedding": nn.Embedding(8, 4), "tied": nn.Linear(4, 8, bias=False), "own": nn.Linear(4, 4),
        "scaled": Scaled(4, 4), "hooked": nn.Linear(4, 4), "exact": nn.Linear(4, 4), "quantised": nn.Linear(4, 4),
    }).bfloat16()  # fmt: skip
    model["tied"].weight = model["embedding"].weight
    add_hook_to_module(model["hooked"], ModelHook())
    model["quantised"].weight = nn.Parameter(Quantised(torch.zeros(4, 4)), requires_grad=False)
    model["exact"].double()
    reorder_weights(model)
    expected = dict.fromkeys(("tied", "hooked", "exact", "quantised"), nn.Linear)
    expected |= {"own": ReorderedLinear, "scaled": Scaled}
    assert kinds(model) == expected


@needs_bfloat16
def test_load_reorders_what_the_processor_multiplies(tmp_path, monkeypatch):
    folder = tiny_model_folder(tmp_path)

    def loaded(dtype):
        return set(kinds(load(folder, dtype=dtype).model).values())

    assert {dtype: loaded(dtype) for dtype in ("bfloat16", "float32", "float16")} == {
        "bfloat16": {ReorderedLinear}, "float32": {ReorderedLinear}, "float16": {nn.Linear}
    }  # fmt: skip
    monkeypatch.setattr(linear, "multiplies_bfloat16_fast", lambda device_type: False)
    assert loaded("bfloat16") == {nn.Linear}
    assert loaded("float32") == {ReorderedLinear}
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert loaded("float32") == {nn.Linear}
