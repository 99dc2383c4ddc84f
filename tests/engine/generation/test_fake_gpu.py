"""Generation on a GPU that computes nothing: devices, dtypes and shapes, and what a step waits for."""

import numpy as np
import pytest
import torch

from tests.engine.fake_gpu import DEVICE, fake_gpu, llama_8b, moved, split
from tests.engine.generation.test_decoder import OTHERS, requests, text_of
from tests.tiny import FAMILIES, tiny_model
from tokur_cli.engine.generation.cache import RollingCache, kept_bytes
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.guided.particles import Guide, ParticleFilter
from tokur_cli.engine.generation.guided.resampling import Resampling
from tokur_cli.engine.generation.paged import PagedCache
from tokur_cli.engine.generation.sampling import Sampling, choose_tokens
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.uncertainty.growing import GrowingScorer
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Scorer, batch_bytes
from tokur_cli.engine.varlen import PAGE
from tokur_cli.scores.guides import GuideScore

ASKED = requests(5, samples=(0, 1))
SAMPLINGS = {
    "greedy": Sampling(),
    "all tokens": Sampling(temperature=0.7),
    "top-k": Sampling(temperature=0.7, top_k=5),
    "top-p": Sampling(temperature=0.7, top_p=0.9),
    "min-p": Sampling(temperature=0.7, min_p=0.1),
}


def decode(model, steps, sampling=Sampling(), **options):  # noqa: B008 (immutable)
    decoder = Decoder(model, text_of, sampling, end_ids=frozenset(), max_new_tokens=steps, **options)
    responses = list(decoder.run(ASKED))
    assert sorted((r.index, r.sample) for r in responses) == [(i, n) for i in range(5) for n in (0, 1)]
    assert all(len(r.token_ids) == steps for r in responses)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "dtype"),
    [
        ("llama", torch.bfloat16),
        ("llama", torch.float32),
        ("gpt2", torch.bfloat16),
        ("gemma2", torch.bfloat16),
        ("mistral-sliding", torch.float16),
    ],
)
def test_families_decode_on_a_gpu_in_batches_that_rows_leave_and_join(family, dtype, monkeypatch):
    if family in OTHERS:
        monkeypatch.setitem(FAMILIES, family, OTHERS[family])
    model = tiny_model(family)
    with fake_gpu(monkeypatch, (8, 0)):
        decode(moved(model, dtype), 3, max_rows=4, cache_bytes=10**6)


@pytest.mark.parametrize(
    ("family", "sampling"), [*(("llama", sampling) for sampling in SAMPLINGS), ("gemma2", "top-p")]
)
def test_nothing_waits_but_the_reading_of_tokens_while_the_next_step_is_asked_for(family, sampling, monkeypatch):
    """Prompts join meanwhile, and rows leave: the context ends responses to prompts of different lengths."""
    model = tiny_model(family, num_hidden_layers=1)
    asked = [DecodingRequest(index, str(index), [7] * length, [0]) for index, length in enumerate((2, 4, 6, 7))]
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        decoder = Decoder(
            moved(model, torch.bfloat16), text_of, SAMPLINGS[sampling], end_ids=frozenset(), max_new_tokens=100,
            context_length=10, max_rows=2,
        )  # fmt: skip
        list(decoder.run(asked[:1]))
        operations.forget()
        responses = list(decoder.run(asked))
        *waits, last = operations.waits
    assert sorted(len(response.token_ids) for response in responses) == [3, 4, 6, 8]
    assert len(waits) >= 8
    a_step = 100  # operations at least
    assert min(made - done for done, made in waits) > a_step
    assert last[1] - last[0] < a_step, "nothing is asked for after the last token"


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_what_a_step_sends_to_the_gpu_does_not_grow_with_its_layers(family, monkeypatch):
    sent = {}
    for layers in (1, 2):
        for steps in (2, 4):
            model = tiny_model(family, num_hidden_layers=layers)
            with fake_gpu(monkeypatch, (8, 0)) as operations:
                decode(moved(model, torch.bfloat16), steps)
                sent[layers, steps] = operations.sent
    assert sent[1, 4] - sent[1, 2] == sent[2, 4] - sent[2, 2]


def kernels_of_a_step(layers, joins, capability, monkeypatch):
    """Kernels of a step of a model of Llama 3.1 8B's shapes after these joins: (prompts' lengths, samples) each."""
    model = llama_8b(layers)
    with fake_gpu(monkeypatch, capability) as operations, torch.inference_mode():
        cache = PagedCache(moved(model, torch.bfloat16), None)
        for lengths, samples in joins:
            cache.join([[7] * length for length in lengths], [samples] * len(lengths))
        ids = torch.empty(len(cache._lengths), dtype=torch.long, device=DEVICE)
        cache.step(ids)  # which may make room
        operations.forget()
        cache.step(ids)
        return operations.kernels, len(operations.of("_varlen_attn"))


@pytest.mark.parametrize("capability", [(9, 0), (7, 5)], ids=["varlen", "operations"])
def test_a_steps_kernels_are_few_and_independent_of_questions_and_joins(capability, monkeypatch):
    """The budget is 60 a layer; with flash attention, that is called once a layer."""
    batches = {
        "one question": [([200], 64)],
        "questions": [([*range(300, 60, -20)], 1)],
        "joined one after another": [([length], 1) for length in range(300, 60, -20)],
    }
    counts = set()
    for joins in batches.values():
        (one, _), (two, calls) = (kernels_of_a_step(layers, joins, capability, monkeypatch) for layers in (1, 2))
        assert calls == (2 if capability >= (8, 0) else 0)
        counts.add((two - one, 2 * one - two))
    assert len(counts) == 1
    of_layer, beside_them = counts.pop()
    assert of_layer <= 60
    assert beside_them <= 40


def test_rows_that_leave_cost_a_page_table_whatever_the_layers(monkeypatch):
    """Nothing is computed or sent when they leave; with the next step the table and the lengths are."""
    sent = set()
    for layers in (1, 3):
        model = tiny_model("llama", num_hidden_layers=layers)
        with fake_gpu(monkeypatch, (8, 0)) as operations, torch.inference_mode():
            cache = PagedCache(moved(model, torch.bfloat16), None)
            cache.join([[7] * 300, [8] * 20], [3, 2])
            cache.step(torch.empty(5, dtype=torch.long, device=DEVICE))
            operations.forget()
            cache.gather([4, 0])
            assert (operations.kernels, operations.sent) == (0, 0)
            cache.step(torch.empty(2, dtype=torch.long, device=DEVICE))
            sent.add(operations.sent)
    assert sent == {2}


def test_rows_of_other_families_leave_with_one_copy_whatever_the_layers(monkeypatch):
    sent = set()
    for layers in (1, 3):
        model = tiny_model("gemma2", num_hidden_layers=layers)
        with fake_gpu(monkeypatch, (8, 0)) as operations, torch.inference_mode():
            cache = RollingCache(moved(model, torch.bfloat16), None)
            cache.join([[7] * 30, [8] * 20], [3, 2])
            operations.forget()
            cache.gather([4, 0])
            sent.add(operations.sent)
    assert sent == {1}


def test_a_batchs_peak_stays_within_its_budget(monkeypatch):
    """Llama 3.1 8B's shapes: room for 40 responses, to 64 questions that join as others end.

    Beside the pages, of which an eighth is spare and the first is empty, are the prompts that are processed together,
    the logits, and a layer's pages while there become more of them.
    """
    rows, layers = 40, 3
    model = llama_8b(layers)
    lengths = np.linspace(100, 240, 64).astype(int).tolist()
    asked = [DecodingRequest(index, str(index), [index] * length, [0]) for index, length in enumerate(lengths)]
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        moved(model, torch.bfloat16)
        a_page = PAGE * kept_bytes(model)[0]
        options = {"end_ids": frozenset(), "max_new_tokens": 16, "max_rows": 64, "cache_bytes": rows * a_page}
        decoder = Decoder(model, text_of, Sampling(0.8), **options)
        operations.forget()
        before, width = operations.live, []
        monkeypatch.setattr(decoder, "told", width.append)
        assert len(list(decoder.run(asked))) == 64
        taken = operations.peak - before
        prompts = batch_bytes(model, decoder.prefill_tokens, max(lengths), "cuda")
    assert max(width) == rows
    pages = (rows + 1) * a_page * 9 / 8
    assert rows * a_page < taken <= pages * (1 + 1 / layers) + prompts


def test_a_model_on_two_devices_decodes_with_one_crossing_of_its_states(monkeypatch):
    """Then the logits come back; for each layer, accelerate sends positions, and their cosines and sines."""
    crossed, sent = {}, {}
    for layers in (2, 4):
        for steps in (2, 4):
            model = tiny_model("llama", num_hidden_layers=layers, tie_word_embeddings=False)
            with fake_gpu(monkeypatch, (8, 0)) as operations:
                decode(split(model, torch.bfloat16, layers // 2), steps)
                crossed[layers, steps], sent[layers, steps] = len(operations.crossed), operations.sent
    assert {layers: (crossed[layers, 4] - crossed[layers, 2]) / 2 for layers in (2, 4)} == {2: 2 + 3, 4: 2 + 6}
    assert sent[2, 4] - sent[2, 2] == sent[4, 4] - sent[4, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_tokens_are_chosen_where_the_logits_are(sampling, dtype, monkeypatch):
    with fake_gpu(monkeypatch, (8, 0)):
        logits = torch.empty(256, 128_256, dtype=dtype, device=DEVICE)
        tokens = choose_tokens(logits, SAMPLINGS[sampling], [5] * 256)
        assert (tokens.shape, tokens.dtype, tokens.device) == ((256,), torch.long, DEVICE)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_particles_grow_on_a_gpu_and_are_scored_there(family, monkeypatch):
    model = tiny_model(family, num_hidden_layers=1)
    resumed, resume = [], PagedCache.resume
    monkeypatch.setattr(PagedCache, "resume", lambda cache, *rows: (resumed.append(rows), resume(cache, *rows)))
    with fake_gpu(monkeypatch, (8, 0)):
        model = moved(model, torch.bfloat16)
        sampling = Sampling(temperature=1.0)
        decoder = Decoder(model, text_of, sampling, end_ids=frozenset(), max_new_tokens=5, step_tokens=2)
        scorer = GrowingScorer(Scorer(model, Draws(build_posterior(model), 2)))
        guide = Guide(GuideScore("eu", "mean"), -1, Resampling())
        responses = list(ParticleFilter(decoder, scorer, guide).serve(ASKED[:2]))
    assert sorted((r.index, r.sample) for r in responses) == [(i, n) for i in range(2) for n in (0, 1)]
    assert all(len(r.token_ids) == 5 for r in responses)
    assert len(resumed) == (2 if family == "llama" else 0)  # the second and the third step begin where the first ended
