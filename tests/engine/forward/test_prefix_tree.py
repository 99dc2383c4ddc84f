"""Batches, a tree of prefixes and rescaled positions: the same numbers as each response alone, in any batch."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.more_families import GEMMA, MORE, SMALL, model_of
from tests.tiny import tiny_model
from tokur_cli.engine.baselines.layers import LayerView
from tokur_cli.engine.forward import prefix_tree
from tokur_cli.engine.forward.batching import HalvingBatches, available_bytes, is_out_of_memory, pass_positions
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.forward.prefix_tree import divide
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

WINDOW = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4}
PER_LAYER = {"vocab_size_per_layer_input": 259, "hidden_size_per_layer_input": 8}
TREE = {
    "mistral beyond its window": ("MistralConfig", SMALL | {"sliding_window": 6}),
    "gemma3 beyond its window": ("Gemma3TextConfig", GEMMA | WINDOW),
    "gemma4 with keys that layers share": (
        "Gemma4TextConfig",
        GEMMA | WINDOW | PER_LAYER | {"num_kv_shared_layers": 2},
    ),
    "gpt_oss": ("GptOssConfig", SMALL | WINDOW | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    **{family: MORE[family] for family in ("bloom", "llama4_text", "gemma3", "opt", "gpt_bigcode")},
}
PADDED = ("jamba", "qwen3_next", "deepseek_v3", "mamba2", "minimax", "openai-gpt")


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch):
    monkeypatch.setattr(prefix_tree, "MIN_PIECE", 4)


def grouped_responses() -> list[TokenizedResponse]:
    """Three questions under a header, some begin alike, one is there twice, one ends early, one is the header."""
    rng = np.random.default_rng(0)

    def ids(count):
        return rng.integers(0, 256, count).tolist()

    header = ids(13)
    questions = [header + ids(count) for count in (4, 4, 7)]
    start = ids(5)
    first = [start + ids(3), start + ids(6), start, start + ids(1), ids(2), start]
    return [
        *(TokenizedResponse(questions[0], response) for response in first),
        *(TokenizedResponse(questions[1], ids(count)) for count in (1, 1, 8)),
        TokenizedResponse(questions[2], ids(3)),
        TokenizedResponse(header, questions[0][13:] + start),
        TokenizedResponse(ids(3), ids(5)),
    ]


def score(model, responses, posterior, sampling="stepwise", shared=True, **options):
    scorer = Scorer(model, posterior and Draws(posterior, 2), sampling=sampling, min_saving=1, **options)
    scorer.shares_prefixes &= shared
    results = dict(scorer.score(responses))
    return [results[index] for index in range(len(responses))]


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "qwen3", *TREE])
def test_tree_gives_the_numbers_of_responses_that_share_nothing(family):
    model = model_of(*TREE[family]) if family in TREE else tiny_model(family)
    responses = grouped_responses()
    assert Scorer(model, None).shares_prefixes
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=1))
    alone = score(model, responses, posterior, shared=False)
    for budget in (10**6, 60):
        for got, expected in zip(score(model, responses, posterior, batch_tokens=budget), alone, strict=True):
            for name, values in expected.items():
                assert got[name] == pytest.approx(values, abs=2e-5, rel=1e-5), name


@pytest.mark.parametrize("family", PADDED)
def test_shares_prefixes_is_false_for_states_latent_keys_and_no_cache(family):
    assert not Scorer(model_of(*MORE[family]), None).shares_prefixes


def test_tree_runs_a_common_prefix_once():
    model = tiny_model("llama")
    shapes = []
    responses = [TokenizedResponse([*range(30), 40 + n // 4, *range(9)], [n] * 8) for n in range(8)]
    scorer = Scorer(model, Draws(build_posterior(model), 2), min_saving=8)
    assert scorer.shares_prefixes
    model.get_input_embeddings().register_forward_hook(lambda module, inputs, output: shapes.append(inputs[0].shape))
    list(scorer.score(responses))
    assert sum(length for rows, length in shapes if rows == 3) == 30 + 2 * 9  # but for the prompts' last tokens
    assert [tuple(shape) for shape in shapes if shape[0] > 3] == [(12, 8), (12, 8)]


def test_tree_gives_the_same_bits_whatever_is_wanted():
    model = tiny_model("llama")
    responses = grouped_responses()
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3))
    for budget in (60, 10**6):
        everything = score(model, responses, posterior, batch_tokens=budget)
        for index, expected in enumerate(everything):
            wanted = [place == index for place in range(len(responses))]
            scorer = Scorer(model, Draws(posterior, 2), batch_tokens=budget, min_saving=1)
            ((found, alone),) = scorer.score(responses, wanted)
            assert found == index
            assert all(np.array_equal(alone[name], expected[name]) for name in alone)


def test_tree_goes_on_from_the_window_before_with_the_bits_that_each_has_alone():
    model = tiny_model("llama")
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3))
    rng = np.random.default_rng(1)
    header, other = rng.integers(0, 256, (2, 30)).tolist()

    def window(header, size=6):
        return [TokenizedResponse(header + rng.integers(0, 256, 4).tolist(), [*range(5, 13)]) for _ in range(size)]

    windows = [window(header), window(header), window(header[:23] + other[23:]), window(other)]
    options = {"batch_tokens": 3 * 40, "min_saving": 24}
    scorer = Scorer(model, Draws(posterior, 2), **options)
    assert scorer.shares_prefixes
    computed = []
    model.get_input_embeddings().register_forward_hook(lambda *of: computed.append(of[1][0].numel()))
    for responses, ahead in zip(windows, (30, 0, 30 - 20, 30), strict=True):  # pieces end at 5, 10, …
        computed.clear()
        results = dict(scorer.score(responses))
        assert sum(computed) == 3 * (ahead + 6 * 11)
        alone = dict(Scorer(model, Draws(posterior, 2), **options).score(responses))
        for index, expected in alone.items():
            assert all(np.array_equal(results[index][name], values) for name, values in expected.items())


def test_tree_is_given_up_for_memory_and_computed_again(monkeypatch):
    model = tiny_model("llama")
    header = np.random.default_rng(2).integers(0, 256, 30).tolist()
    responses = [TokenizedResponse([*header, 7 + n], [*range(20 + n, 28 + n)]) for n in range(8)]
    scorer = Scorer(model, None, batch_tokens=40)
    expected = dict(scorer.score(responses))
    whole_batch, held = Scorer.states, []

    def small_machine(self, batch, path):
        held.append(self._tree.end)
        if len(held) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole_batch(self, batch, path)

    monkeypatch.setattr(Scorer, "states", small_machine)
    got = dict(scorer.score(responses))
    assert held[1:3] == [30, 0]
    for index, quantities in expected.items():
        assert got[index]["logprob"] == pytest.approx(quantities["logprob"], abs=1e-5)


WHERE = st.sampled_from([("cpu", 3), ("cuda", 3), ("cuda", 33)])
sequences_of_few_letters = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)


def walk(nodes, path=()):
    for node in nodes:
        yield path, node
        yield from walk(node.children, (*path, node))


@given(sequences_of_few_letters, st.integers(1, 9))
def test_divide_spells_every_sequence_and_gives_each_a_leaf(sequences, min_saving):
    numbers = {index: np.array(sequence, dtype=np.int64) for index, sequence in enumerate(sequences)}
    ends = {index: len(sequence) // 2 for index, sequence in enumerate(sequences)}
    leaves = []
    for path, node in walk(divide(numbers, ends, min_saving)):
        assert node.first == (path[-1].last if path else 0) <= node.last
        assert len({tuple(sequences[index][: node.last]) for index in node.sequence_ids}) == 1
        if node.children:
            assert (len(node.sequence_ids) - 1) * (node.last - node.first) >= min_saving
            below = itertools.chain(*(child.sequence_ids for child in node.children))
            assert sorted(below) == sorted(node.sequence_ids)
        else:
            leaves += node.sequence_ids
            assert node.first < node.last == len(sequences[node.sequence_ids[0]])
    assert sorted(leaves) == [*range(len(sequences))]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to get 9 bytes"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError(7), False),
        (KeyError("out of memory"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"), False),
    ],
)
def test_is_out_of_memory_knows_what_libraries_say(error, expected):
    assert is_out_of_memory(error) == expected


def test_available_bytes_are_those_of_the_fullest_device_and_no_other_is_asked(monkeypatch):
    """Asking a GPU opens a context there, which takes hundreds of megabytes."""
    free, asked = {0: 9 << 30, 1: 2 << 30, 2: 1 << 30}, []
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda gpu: (asked.append(gpu.index), (free[gpu.index], 9 << 30))[1]
    )
    devices = [torch.device(name) for name in ("cuda:0", "cuda:1", "meta", "cuda:0")]
    assert available_bytes(devices) == 2 << 30
    assert sorted(asked) == [0, 1]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(1, 3000), st.integers(0, 900), WHERE)
def test_padded_holds_every_sequence_once_in_rows_of_like_length(lengths, budget, before, where):
    costs = pass_positions(*where)
    batches = list(HalvingBatches(budget, costs).padded(dict(enumerate(lengths)), before))
    assert sorted(itertools.chain(*batches)) == [*range(len(lengths))]
    for batch in batches:
        longest, shortest = lengths[batch[0]], min(lengths[index] for index in batch)
        assert longest == max(lengths[index] for index in batch)
        padding = sum(longest - lengths[index] for index in batch)
        assert shortest >= 0.9 * longest or padding <= costs
        assert len(batch) == 1 or len(batch) * (longest + before // 8) <= budget


BEYOND = 64
DYNAMIC = {
    "max_position_embeddings": BEYOND,
    "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
}
LONG = {
    "max_position_embeddings": 512,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "original_max_position_embeddings": BEYOND,
        "short_factor": [1.0] * 4,
        "long_factor": [1.0, 2.0, 3.0, 8.0],
    },
}


def ids(count, seed):
    return np.random.default_rng(seed).integers(0, 250, count).tolist()


def alone(tokens, **fields):
    """log p (L, V) and states (L, d) of a new model in float64 that sees nothing else."""
    with torch.inference_mode():
        outputs = tiny_model("llama", **fields).double()(input_ids=torch.tensor([tokens]), output_hidden_states=True)
    return outputs.logits[0].log_softmax(-1), outputs.hidden_states


@pytest.mark.parametrize("fields", [DYNAMIC, LONG])
def test_rescaling_keeps_responses_within_the_length_apart_from_those_beyond_it(fields):
    scorer = Scorer(tiny_model("llama", **fields), None)
    for sizes in ([30, 55, 56, 150, 80], [55, 20]):  # 55 has the last length before the change, 56 the first after it
        sizes = [size for size in sizes if fields is LONG or 10 + size <= BEYOND + 1]  # all that its context holds
        responses = [TokenizedResponse(ids(10, n), ids(size, size)) for n, size in enumerate(sizes)]
        got = dict(scorer.score(responses))
        assert sorted(got) == list(range(len(sizes)))
        for index, response in enumerate(responses):
            log_p, _ = alone([*response.prompt_ids, *response.response_ids], **fields)
            if response.length == BEYOND:  # the last token, which is not computed, would be beyond it
                log_p, _ = alone([*response.prompt_ids, *response.response_ids[:-1]], **fields)
            chosen = log_p[9 : response.length].gather(-1, torch.tensor(response.response_ids)[:, None])[:, 0]
            np.testing.assert_allclose(got[index]["logprob"], chosen.numpy(), atol=2e-4)


def test_rescaling_keeps_hidden_states_apart():
    sequences = [ids(size, size) for size in (64, 200, 20, 65)]
    view = LayerView(tiny_model("llama", **LONG), 1, 10**4)
    found = view.features([TokenizedResponse(tokens[:1], tokens[1:]) for tokens in sequences], ["last_state"])
    for tokens, features in zip(sequences, found, strict=True):
        _, states = alone(tokens, **LONG)
        np.testing.assert_allclose(features["last_state"], states[1][0, -1].numpy(), atol=1e-4)


def test_rescaling_bounds_generation():
    """Responses that end there run along with others, without a step beyond it."""
    prompts = [ids(size, size) for size in (10, 40, 54, 100, 34)]
    options = {"end_ids": frozenset({*range(100)}), "max_new_tokens": 30}
    decoder = Decoder(tiny_model("llama", **LONG), str, Sampling(), **options)
    found = {}
    for result in decoder.serve(DecodingRequest(n, "", prompt, (0,)) for n, prompt in enumerate(prompts)):
        if isinstance(result, tuple):
            request, error = result
            assert isinstance(error, TokurError)
            found[request.index] = str(error)
        else:
            found[result.index] = result.token_ids
    for index, prompt in enumerate(prompts):
        if len(prompt) > 34:
            length = len(prompt) + 30
            assert f"prompt and response may have {length} tokens; with this model's " in found[index]
            assert "RoPE, at most 64: ask for fewer new tokens" in found[index]
            continue
        expected = []
        while len(expected) < 30 and not (expected and expected[-1] < 100):
            expected.append(int(alone([*prompt, *expected], **LONG)[0][-1].argmax()))
        assert found[index] == expected
