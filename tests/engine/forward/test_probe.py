"""Every model is asked, before it is used, whether tokur's way through it leads to its own numbers."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.engine import oracle
from tests.engine.more_families import MORE, REFUSED, model_of, more
from tests.tiny import quieten, tiny_model, tiny_tokenizer
from tokur_cli.engine.forward import body
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.forward.prefix_tree import _LeafLayer
from tokur_cli.engine.forward.probe import probe_model
from tokur_cli.engine.generation.cache import KVCache, RollingLayer
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

# Positions that count what is in the cache; no cache, or one of its own
CANNOT_GENERATE = {"bart", "bigbird_pegasus", "trocr", "openai-gpt", "minimax"}


def responses():
    rng = np.random.default_rng(0)
    return [
        TokenizedResponse(rng.integers(0, 256, prompt).tolist(), rng.integers(0, 256, response).tolist())
        for prompt, response in ((5, 9), (1, 4), (12, 20), (3, 1))
    ]


def any_model(family):
    return more(family) if family in MORE else tiny_model(family)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", *MORE])
def test_probe_passes_a_family_whose_numbers_are_those_of_transformers(family):
    """OPT's forward pass calls a module within its base model: taken apart at the base model it was off by nats."""
    model = any_model(family)
    probe = probe_model("tiny", model, tiny_tokenizer())
    probe.check_scoring(None)
    for index, quantities in Scorer(model, None).score(responses()):
        response = responses()[index]
        log_p = oracle.log_probabilities(model, response.prompt_ids, response.response_ids)
        for name, values in oracle.reference_quantities(log_p, [], response.response_ids).items():
            assert quantities[name] == pytest.approx(values, abs=1e-3), name
    low = probe_model("tiny", any_model(family).bfloat16(), tiny_tokenizer())  # rounding is no reason to refuse
    has_attention = family not in ("mamba", "mamba2", "bert")
    low.check_scoring(build_posterior(low.model) if has_attention else None)
    if family in CANNOT_GENERATE:
        with pytest.raises(
            TokurError, match=rf"^tiny \({model.config.model_type}\): .*; generation with .* --backend vllm"
        ):
            probe.check_generation()
        return
    probe.check_generation()
    low.check_generation()
    asked = [DecodingRequest(index, f"q{index}", r.prompt_ids, (0,)) for index, r in enumerate(responses())]
    for got in Decoder(model, str, Sampling(), end_ids=frozenset(), max_new_tokens=8, max_rows=3).serve(asked):
        ids = torch.tensor([asked[got.index].prompt_ids])
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, eos_token_id=None)
        assert got.token_ids == whole[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize("family", REFUSED)
def test_check_scoring_refuses_a_family_that_would_be_incorrect(family):
    model = model_of(*REFUSED[family])
    said = rf"^tiny \({family}\): .*; scoring with this family isn't supported \(transformers \d"
    if family == "bert":
        said = r"^tiny \(bert\): its batches differ from its single texts by .* nats a token; scoring"
    with pytest.raises(TokurError, match=said):
        probe_model("tiny", model, tiny_tokenizer()).check_scoring(None)


def test_check_scoring_notices_another_body_than_the_models_own(monkeypatch):
    """The base model in place of OPT's decoder, as it was before."""
    model = more("opt")
    parts = body.parts_of(model)
    assert model.get_submodule(parts.body) is model.model.decoder
    monkeypatch.setattr("tokur_cli.engine.forward.probe.watch", lambda model, ids: model(input_ids=ids).logits)
    monkeypatch.setitem(body._seen, model, body.Parts("model", parts.working))
    with pytest.raises(TokurError, match="isn't supported"):
        probe_model("tiny", model, tiny_tokenizer()).check_scoring(None)


def no_numbers(monkeypatch):
    own = KVCache.step
    monkeypatch.setattr(KVCache, "step", lambda *step: own(*step) * torch.nan)


def other_keys(monkeypatch):
    own = RollingLayer.update
    monkeypatch.setattr(RollingLayer, "update", lambda self, keys, *of, **_: own(self, keys.roll(1, dims=-1), *of))


def other_rows(monkeypatch):
    own = KVCache.admit
    monkeypatch.setattr(KVCache, "admit", lambda self, texts, *of, **more: own(self, texts[::-1], *of, **more))


@pytest.mark.parametrize(
    ("family", "wrong"), [("llama", no_numbers), ("gemma2", other_keys), ("jamba", other_rows), ("mamba", other_rows)]
)
def test_check_generation_notices_a_cache_that_is_incorrect(family, wrong, monkeypatch):
    probe = probe_model("tiny", any_model(family), tiny_tokenizer())
    probe.check_generation()
    wrong(monkeypatch)
    with pytest.raises(TokurError, match=rf"\({family}\): .* nats a token; generation"):
        probe.check_generation()


def scaled(factor):
    """Products of queries and keys that are so many times what they should be, where responses go on from a prefix."""

    def wrong(monkeypatch):
        own = _LeafLayer.update

        def update(self, *states, **more):
            keys, values = own(self, *states, **more)
            return keys * factor, values

        monkeypatch.setattr(_LeafLayer, "update", update)

    return wrong


def uncapped(monkeypatch):
    """The head without what the model does after it."""

    @contextmanager
    def logits_from(model, outputs):
        yield model.get_output_embeddings()

    monkeypatch.setattr("tokur_cli.engine.forward.probe.logits_from", logits_from)


def rolled(monkeypatch):
    """Each position's change of its projections given to the next one."""
    own = Draws.coefficients
    monkeypatch.setattr(Draws, "coefficients", lambda self, *of: own(self, *of).roll(1, dims=2))


def everywhere(monkeypatch):
    """Draws that reach the rows of the mean weights."""
    monkeypatch.setattr("tokur_cli.engine.forward.hooks._add", lambda *of: of[-1] + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("family", "wrong"),
    [("llama", scaled(1.1)), ("llama", scaled(0.9)), ("gemma2", uncapped), ("gpt2", rolled), ("llama", everywhere)],
    ids=["scale 1.1", "scale 0.9", "no cap", "rolled draws", "draws everywhere"],
)
def test_check_scoring_refuses_a_way_that_is_slightly_wrong(family, wrong, dtype, monkeypatch):
    model = tiny_model(family, **{"final_logit_softcapping": 5.0} if family == "gemma2" else {}).to(dtype)
    probe = probe_model("tiny", model, tiny_tokenizer())
    posterior = build_posterior(model)
    probe.check_scoring(posterior)
    wrong(monkeypatch)
    with pytest.raises(TokurError, match=r"own forward pass differs from the model's by .* nats a token; scoring"):
        probe.check_scoring(posterior)


@pytest.mark.parametrize("factor", [32, 128])
def test_check_scoring_hears_a_draw_above_the_rounding_of_a_deep_model(factor, monkeypatch):
    """Where a batch is rounded as a single text is, their distance says nothing: on an H100 SmolLM2 was refused."""
    model = tiny_model(num_hidden_layers=8)
    quieten(model, factor)
    probe, posterior = probe_model("tiny", model.bfloat16(), tiny_tokenizer()), build_posterior(model)
    probe = replace(probe, log_p=probe._both_ways(None)[0][0])
    probe.check_scoring(posterior)
    rolled(monkeypatch)
    with pytest.raises(TokurError, match="under a draw"):
        probe.check_scoring(posterior)


def test_probe_model_is_content_with_a_tokenizer_of_few_words():
    for ids in ([], [7], [9, 9]):
        probe_model("tiny", tiny_model(), lambda text, ids=ids, **_: {"input_ids": ids}).check_scoring(None)
