"""Scoring on a GPU that computes nothing: devices, dtypes and shapes, which kernels, and what is waited for."""

import numpy as np
import pytest
import torch

from tests.engine.fake_gpu import DEVICE, fake_gpu, moved
from tests.engine.uncertainty.test_packing import grouped_responses
from tests.tiny import tiny_model
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.uncertainty import prefixes
from tokur_cli.engine.uncertainty.packing import longest_packed
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Scorer, TokenizedResponse
from tokur_cli.engine.uncertainty.vocabulary import COMPARISONS, token_quantities
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES

FLASH, EFFICIENT = "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"
ON_CPU = "_scaled_dot_product_flash_attention_for_cpu"
INPUTS = 6  # tensors of a batch: ids, steps, positions, rows, columns, targets


@pytest.fixture(autouse=True)
def _share_the_shortest_prefixes(monkeypatch):
    monkeypatch.setattr(prefixes, "LEAST_SAVING", 1)
    monkeypatch.setattr(prefixes, "LEAST_PIECE", 1)


def score(scorer, responses=None):
    responses = responses or grouped_responses()
    results = dict(scorer.score(responses))
    assert sorted(results) == [*range(len(responses))]
    for index, quantities in results.items():
        for values in quantities.values():
            assert values.shape == (len(responses[index].response_ids),)
            assert values.dtype == np.float32
    return set(results[0])


def test_it_refuses_what_a_gpu_refuses(monkeypatch):
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        one = torch.zeros(2, 3, device=DEVICE)
        with pytest.raises(RuntimeError, match="device"):
            one + torch.zeros(2, 3)
        with pytest.raises(RuntimeError, match="device"):
            one.index_select(0, torch.tensor([0]))
        with pytest.raises(AssertionError, match="mm of"):
            one.bfloat16() @ one.T
        with pytest.raises(RuntimeError, match=r"size|broadcast"):
            one + torch.zeros(4, 3, device=DEVICE)
        assert operations.read == 0
        assert not one.any()
        assert operations.read == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "capability", "kernel", "key_heads"),
    [
        (torch.bfloat16, (8, 0), FLASH, 2),
        (torch.float16, (9, 0), FLASH, 2),
        (torch.bfloat16, (7, 5), EFFICIENT, 4),
        (torch.float16, (7, 0), EFFICIENT, 4),
        (torch.float32, (9, 0), EFFICIENT, 4),
    ],
)
def test_attention_takes_the_best_kernel_of_the_gpu(dtype, capability, kernel, key_heads, monkeypatch):
    """Grouped heads are repeated only for the kernel that does not know them."""
    model = tiny_model("llama", num_hidden_layers=1)
    with fake_gpu(monkeypatch, capability) as operations:
        model = moved(model, dtype)
        draws = Draws(build_posterior(model), 2)
        operations.forget()
        score(Scorer(model, draws, batch_tokens=60))
        called = {name for name, _ in operations.calls}
        assert called & {FLASH, EFFICIENT, ON_CPU} == {kernel}
        for query, key, value in operations.of(kernel):
            assert query[1] == 4
            assert key[1] == value[1] == key_heads
            assert key[2:] == value[2:]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "gemma3", "gemma2"])
def test_families_go_through_a_gpu_and_are_waited_for_once_a_batch(family, monkeypatch):
    model = tiny_model(family)
    batches_run = []
    whole_batch = Scorer._score_batch
    monkeypatch.setattr(Scorer, "_score_batch", lambda *all_: batches_run.append(1) or whole_batch(*all_))
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        model = moved(model, torch.bfloat16)
        assert (longest_packed(model) == 0) == (family == "gemma2")
        for budget in (10**6, 120):
            scorer = Scorer(model, Draws(build_posterior(model), 2), batch_tokens=budget)
            operations.forget()
            batches_run.clear()
            assert score(scorer) == QUANTITIES.keys() - ON_DEMAND
            assert (len(batches_run) > 1) == (budget == 120)
            assert operations.read == len(QUANTITIES.keys() - ON_DEMAND) * len(batches_run)
        assert (FLASH in dict(operations.calls)) == (family != "gemma2")


def test_stretches_of_like_length_are_given_to_a_gpu_together(monkeypatch):
    """With nothing in common, a call of the kernel for each block of at most a fifth of padding."""
    model = tiny_model("llama", num_hidden_layers=1)
    lengths = [40, 40, 40, 33, 32, 31, 26, 12, 10, 3]  # of the prompt; the forward pass has one position more
    responses = [TokenizedResponse([first, *range(length - 1)], [1, 2]) for first, length in enumerate(lengths)]
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        score(Scorer(moved(model, torch.bfloat16), None), responses)
    blocks = [(query[0], query[2]) for query, _, _ in operations.of(FLASH)]
    assert blocks == [(5, 41), (2, 32), (2, 13), (1, 4)]


def test_responses_of_one_length_take_few_kernels_a_layer(monkeypatch):
    """The budget is 70."""
    responses = [TokenizedResponse([first, *range(99)], [1, 2] * 25) for first in range(32)]
    found = []
    for layers in (1, 2):
        model = tiny_model("llama", num_hidden_layers=layers)
        with fake_gpu(monkeypatch, (8, 0)) as operations:
            model = moved(model, torch.bfloat16)
            scorer = Scorer(model, Draws(build_posterior(model), 2), batch_tokens=2**16)
            score(scorer, responses)
            operations.forget()
            score(scorer, responses)
            found.append(operations.kernels)
    assert 0 < found[1] - found[0] <= 70


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
def test_what_a_batch_copies_to_the_gpu_does_not_grow_with_its_layers(family, monkeypatch):
    """Copying waits for what was asked before: nothing may be copied layer by layer."""
    copied = []
    for layers in (1, 2):
        model = tiny_model(family, **{"n_layer" if family == "gpt2" else "num_hidden_layers": layers})
        with fake_gpu(monkeypatch, (8, 0)) as operations:
            model = moved(model, torch.bfloat16)
            scorer = Scorer(model, Draws(build_posterior(model), 2), batch_tokens=10**6)
            score(scorer)  # bases and noise are copied once
            operations.forget()
            score(scorer)
            copied.append(operations.sent)
    blocks = copied[0] - (INPUTS if family != "gemma2" else INPUTS - 1)
    assert copied[0] == copied[1]
    assert blocks == 0 if family == "gemma2" else blocks % 3 == 0, "three for each block of stretches"


@pytest.mark.parametrize(
    ("sampling", "estimator", "compare"),
    [("joint", "paper", False), ("shared", "kl", True), ("joint", "kl", False), ("stepwise", "fisher", True)],
)
def test_every_sampling_and_estimator_runs_on_a_gpu(sampling, estimator, compare, monkeypatch):
    model = tiny_model("llama", num_hidden_layers=1)
    with fake_gpu(monkeypatch, (8, 0)):
        model = moved(model, torch.float16)
        draws = Draws(build_posterior(model), 2)
        scorer = Scorer(model, draws, sampling=sampling, estimator=estimator, compare=compare)
        assert score(scorer) == {*(QUANTITIES.keys() - ON_DEMAND), *(COMPARISONS if compare else ())}


def test_heads_of_a_size_that_the_kernels_do_not_take_are_padded(monkeypatch):
    for head, longest in ((8, None), (28, 0), (256, None), (264, 0), (12, 0)):
        model = tiny_model("llama", head_dim=head, num_hidden_layers=1)
        assert longest_packed(model) is None, "on a CPU all are packed"
        with fake_gpu(monkeypatch, (8, 0)) as operations:
            model = moved(model, torch.bfloat16)
            assert longest_packed(model) == longest
            if head == 12:
                score(Scorer(model, None))
                assert FLASH not in dict(operations.calls)


@pytest.mark.parametrize("joint", [False, True])
def test_the_vocabulary_is_reduced_in_blocks_of_256_megabytes(joint, monkeypatch):
    members, tokens, size = 3, 2000, 128_256
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        head = torch.empty(64, size, dtype=torch.bfloat16, device=DEVICE)
        hidden = torch.empty(members, tokens, 64, dtype=torch.bfloat16, device=DEVICE)
        targets, starts = (torch.zeros(tokens, dtype=torch.long, device=device) for device in (DEVICE, "cpu"))
        results = token_quantities(lambda states: states @ head, hidden, targets, starts, joint=joint)
        assert all(values.shape == (tokens,) and values.device.type == "cpu" for values in results.values())
        reduced = [shape for (shape,) in operations.of("_softmax") if shape[-1] == size]
    assert sum(shape[1] for shape in reduced) == tokens
    most = max(shape[1] for shape in reduced)
    token_bytes = members * size * 4
    assert most * token_bytes <= 2**28 < (most + 1) * token_bytes
    assert len(reduced) <= 2 + 2 * tokens // most, "few and large ones"
