"""Scoring on a GPU that computes nothing: devices, dtypes and shapes, which kernels, and what is waited for."""

import numpy as np
import pytest
import torch

from tests.engine.fake_gpu import DEVICE, fake_gpu, llama_8b, moved, split
from tests.engine.uncertainty.test_packing import grouped_responses
from tests.tiny import tiny_model
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.uncertainty import prefixes
from tokur_cli.engine.uncertainty.packing import longest_packed
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Scorer, TokenizedResponse, batch_bytes
from tokur_cli.engine.uncertainty.vocabulary import COMPARISONS, token_quantities
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES

FLASH, EFFICIENT, PAGED = "_flash_attention_forward", "_efficient_attention_forward", "_varlen_attn"
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
        for query, key, value, *_ in operations.of(kernel):
            assert query[-2:] == (4, key[-1])
            assert key == value
            assert key[-2] == key_heads


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


RNG = np.random.default_rng(0)
HEADER, *QUESTIONS = (RNG.integers(0, 256, count).tolist() for count in (1000, *[600] * 8))
LENGTHS = RNG.integers(100, 900, 32).tolist()
BATCHES = {
    "one length": [TokenizedResponse([first, *range(99)], [1] * 500) for first in range(32)],
    "lengths": [TokenizedResponse([first, *range(99)], [1] * length) for first, length in enumerate(LENGTHS)],
    "samples": [TokenizedResponse(QUESTIONS[n // 4], [n] * length) for n, length in enumerate(LENGTHS)],
    "samples that begin alike": [
        TokenizedResponse(QUESTIONS[n // 16], [1] * 100 + [n // 8] * 100 + [n // 2] * 100 + [n] * length)
        for n, length in enumerate(LENGTHS)
    ],
    "a header": [TokenizedResponse([*HEADER, *QUESTIONS[n // 4][:100]], [n] * 300) for n in range(32)],
}


def kernels_of_a_layer(dtype, capability, monkeypatch, batches=BATCHES):
    """Of a model of Llama 3.1 8B's shapes under three members: batch → (kernels, calls of attention among them)."""
    monkeypatch.setattr(Scorer, "reduced", lambda _, responses, *of: [{}] * len(responses))  # the body alone
    found = []
    for layers in (1, 2):
        found.append({})
        model = llama_8b(layers)
        with fake_gpu(monkeypatch, capability) as operations:
            model = moved(model, dtype)
            draws = Draws(build_posterior(model), 2)
            for name, responses in batches.items():
                # In several batches, what comes before them is computed ahead
                scorer = Scorer(model, draws, batch_tokens=3 * 1500 if name == "a header" else 2**17)
                list(scorer.score(responses))  # bases and noise are copied once
                operations.forget()
                list(scorer.score(responses))
                calls = sum(len(operations.of(kernel)) for kernel in (FLASH, EFFICIENT, PAGED))
                found[-1][name] = np.array([operations.kernels, calls]) / len(operations.of("embedding"))
    return {name: (found[1][name] - found[0][name]).tolist() for name in batches}


@pytest.mark.parametrize(("dtype", "capability"), [(torch.bfloat16, (9, 0)), (torch.float16, (7, 5))])
def test_a_batch_takes_few_kernels_a_layer_whatever_its_lengths_and_prefixes(dtype, capability, monkeypatch):
    """The budget is 70; attention is called once."""
    for name, (kernels, calls) in kernels_of_a_layer(dtype, capability, monkeypatch).items():
        assert 0 < kernels <= 70, name
        assert calls == 1, name


def test_short_answers_below_a_long_header_take_no_more(monkeypatch):
    """Of 4,100 positions before each of 200 answers, all but the last few are in pages that stand once."""
    header, *questions = (RNG.integers(0, 256, count).tolist() for count in (4000, *[100] * 200))
    responses = [TokenizedResponse([*header, *question], [9, 9]) for question in questions]
    found = kernels_of_a_layer(torch.bfloat16, (9, 0), monkeypatch, {"answers": responses})
    kernels, calls = found["answers"]
    assert kernels <= 70
    assert calls == 2, "1 GB is copied at a time"


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
def test_what_a_batch_copies_to_the_gpu_does_not_grow_with_its_layers(family, monkeypatch):
    """And waits for nothing: the results alone are waited for."""
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
            assert len(operations.waits) == operations.read > 0
    # Padded rows have no positions; a call of packed attention has paths, and where queries and keys end
    assert copied == [INPUTS - 1 if family == "gemma2" else INPUTS + 3] * 2


@pytest.mark.parametrize("longest", [250, 400])
def test_a_batchs_peak_is_what_a_dry_run_says(longest, monkeypatch):
    """Llama 3.1 8B's shapes, 32 responses of 250, or of 250 to 400 tokens, under two draws."""
    lengths = np.linspace(250, longest, 32).astype(int)
    responses = [TokenizedResponse([first, *range(99)], [1] * length) for first, length in enumerate(lengths)]
    model = llama_8b(3)  # a third layer takes no more than the second
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        scorer = Scorer(moved(model, torch.bfloat16), Draws(build_posterior(model), 2), batch_tokens=2**16)
        score(scorer, responses)
        operations.forget()
        before = operations.live
        score(scorer, responses)
        taken = operations.peak - before
        said = batch_bytes(model, 3 * sum(response.length for response in responses), 99 + longest, "cuda")
    assert 0.9 * said <= taken <= 1.05 * said


@pytest.mark.parametrize("estimator", ["paper", "kl", "fisher"])
def test_operations_pass_over_a_logit_as_often_as_is_said(estimator, monkeypatch):
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        logits = torch.empty(3, 2000, 128_256, dtype=torch.bfloat16, device=DEVICE)
        targets, starts = (torch.zeros(2000, dtype=torch.long, device=device) for device in (DEVICE, "cpu"))
        operations.forget()
        token_quantities(lambda states: states, logits, targets, starts, estimator=estimator)
        passed = operations.passed / logits.numel()
    assert passed < (101 if estimator == "fisher" else 85)


def test_a_model_on_two_devices_is_scored_with_one_crossing_of_its_states(monkeypatch):
    """Beside them go, for each layer, what accelerate sends it: positions, and their cosines and sines."""
    sent, crossed = set(), []
    for layers in (2, 4):
        model = tiny_model("llama", num_hidden_layers=layers, tie_word_embeddings=False)
        with fake_gpu(monkeypatch, (8, 0)) as operations:
            model = split(model, torch.bfloat16, layers // 2)
            scorer = Scorer(model, Draws(build_posterior(model), 2), batch_tokens=10**6)
            score(scorer)
            operations.forget()
            score(scorer)
            sent.add(operations.sent)
            crossed.append(operations.crossed)
            width = model.config.hidden_size
    assert len(sent) == 1
    assert all(sum(len(shape) == 3 and shape[-1] == width for shape in shapes) == 1 for shapes in crossed)
    assert len(crossed[1]) - len(crossed[0]) == 3


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
