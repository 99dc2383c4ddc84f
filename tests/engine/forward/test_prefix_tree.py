"""The prefix tree: every response gets the numbers that it has alone, and what responses have in common runs once."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.more_families import GEMMA, MORE, SMALL, model_of
from tests.tiny import tiny_model
from tokur_cli.engine.forward import prefix_tree
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.forward.prefix_tree import divide, shares_prefixes
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse

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


def grouped_responses(seed: int = 0) -> list[TokenizedResponse]:
    """Three questions under a header, some begin alike, one is there twice, one ends early, one is the header."""
    rng = np.random.default_rng(seed)

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
    assert shares_prefixes(model)
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=1))
    alone = score(model, responses, posterior, shared=False)
    for budget in (10**6, 60):
        for got, expected in zip(score(model, responses, posterior, batch_tokens=budget), alone, strict=True):
            for name, values in expected.items():
                assert got[name] == pytest.approx(values, abs=2e-5, rel=1e-5), name


@pytest.mark.parametrize("family", PADDED)
def test_shares_prefixes_is_false_for_states_latent_keys_and_no_cache(family):
    assert not shares_prefixes(model_of(*MORE[family]))


def test_tree_runs_a_common_prefix_once():
    model = tiny_model("llama")
    shapes = []
    responses = [TokenizedResponse([*range(30), 40 + n // 4, *range(9)], [n] * 8) for n in range(8)]
    scorer = Scorer(model, Draws(build_posterior(model), 2), min_saving=8)
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
    whole_batch, held = Scorer._score_batch, []

    def small_machine(self, batch, path):
        held.append(self._tree.end)
        if len(held) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole_batch(self, batch, path)

    monkeypatch.setattr(Scorer, "_score_batch", small_machine)
    got = dict(scorer.score(responses))
    assert held[1:3] == [30, 0]
    for index, quantities in expected.items():
        assert got[index]["logprob"] == pytest.approx(quantities["logprob"], abs=1e-5)


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
