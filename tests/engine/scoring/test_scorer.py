import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tests.engine import oracle
from tests.engine.more_families import GEMMA, MORE, model_of
from tests.tiny import FAMILIES, tiny_model
from tokur_cli.engine.forward.hooks import Draws, perturbed
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

SIGMA = 0.3
DRAWS = 3
DTYPES = torch.float64, torch.bfloat16


def some_responses(seed: int, sizes: Sequence[tuple[int, int]]) -> list[TokenizedResponse]:
    rng = np.random.default_rng(seed)
    return [TokenizedResponse(rng.integers(0, 256, p).tolist(), rng.integers(0, 256, t).tolist()) for p, t in sizes]


RESPONSES = some_responses(0, [(5, 7), (3, 12), (9, 1), (1, 4)])


def score(model, responses, *, sampling="stepwise", sigma=SIGMA, seed=1, draws=DRAWS, layers=None, **options):
    posterior = build_posterior(model, PosteriorSettings(sigma=sigma, seed=seed, layers=layers))
    scorer = Scorer(model, Draws(posterior, draws), sampling=sampling, **options)
    results = dict(scorer.score(responses))
    return [results[index] for index in range(len(responses))]


@pytest.mark.parametrize(
    ("family", "sampling", "layers"),
    [*((family, "stepwise", None) for family in FAMILIES), ("llama", "shared", "1:"), ("llama", "joint", None)],
)
def test_quantities_equal_brute_force_in_float64(family, sampling, layers):
    model = tiny_model(family)
    posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=1, layers=layers))
    exact = copy.deepcopy(model).double()
    for response, got in zip(RESPONSES, score(model, RESPONSES, sampling=sampling, layers=layers), strict=True):
        prompt, ids = response.prompt_ids, response.response_ids
        if sampling == "stepwise":
            draws = [
                oracle.stepwise_log_probabilities(
                    model, posterior, m, prompt, ids, oracle.same_projected_noise(posterior, m)
                )
                for m in range(DRAWS)
            ]
        else:
            draws = [
                oracle.log_probabilities(oracle.fixed_draw(model, posterior, m), prompt, ids) for m in range(DRAWS)
            ]
        base = oracle.log_probabilities(exact, prompt, ids)
        expected = oracle.reference_quantities(base, draws, ids, joint=sampling == "joint")
        assert got.keys() == expected.keys()
        for name, values in expected.items():
            assert got[name].dtype == np.float32
            assert np.abs(got[name] - values).max() < 1e-5, (name, got[name], values)
        assert expected["eu"].max() > 1e-3, "the draws must differ for this test to mean anything"


@pytest.mark.parametrize(
    "family", ["llama", *(pytest.param(family, marks=pytest.mark.slow) for family in ("gpt2", "gemma2"))]
)
def test_bfloat16_errs_no_more_than_passes_with_swapped_weights(family):
    """Which way a token's rounding strikes harder is chance: hence many tokens under many draws."""
    low = tiny_model(family).bfloat16()
    model = copy.deepcopy(low).float()
    responses = some_responses(3, [(5, 40), (3, 60), (9, 50)])
    ours, theirs = {name: [] for name in ("au", "eu")}, {name: [] for name in ("au", "eu")}
    for seed in range(12):
        posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=seed))
        exact, swapped = ([oracle.fixed_draw(model, posterior, m).to(dtype) for m in range(DRAWS)] for dtype in DTYPES)
        found = score(low, responses, sampling="shared", seed=seed)
        for response, got in zip(responses, found, strict=True):
            prompt, ids = response.prompt_ids, response.response_ids
            expected, plain = (
                oracle.reference_quantities(p[0], p, ids)
                for p in ([oracle.log_probabilities(m, prompt, ids) for m in draws] for draws in (exact, swapped))
            )
            for name in ours:
                ours[name].append(got[name] - expected[name])
                theirs[name].append(plain[name] - expected[name])
    for name in ours:
        error, plain_error = (np.sqrt(np.mean(np.concatenate(errors[name]) ** 2)) for errors in (ours, theirs))
        assert 0 < error < 1.15 * plain_error, name


WITH_MORE_THAN_ROWS = {
    "gemma4_text": ("Gemma4TextConfig", GEMMA | {"vocab_size_per_layer_input": 259, "hidden_size_per_layer_input": 8}),
    "gemma3n_text": (
        "Gemma3nTextConfig",
        GEMMA
        | {"vocab_size_per_layer_input": 259, "hidden_size_per_layer_input": 8, "laurel_rank": 4}
        | {"num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.0, 0.0]},
    ),
    **{family: MORE[family] for family in ("gpt_bigcode", "openai-gpt")},
}


@pytest.mark.parametrize("family", WITH_MORE_THAN_ROWS)
def test_score_upper_layers_alone_of_families_whose_layers_take_more_than_rows(family):
    model = model_of(*WITH_MORE_THAN_ROWS[family])
    posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=1, layers="1:"))
    drawn = [oracle.fixed_draw(model, posterior, member) for member in range(DRAWS)]
    exact = copy.deepcopy(model).double()
    for response, got in zip(RESPONSES, score(model, RESPONSES, sampling="shared", layers="1:"), strict=True):
        prompt, ids = response.prompt_ids, response.response_ids
        expected = oracle.reference_quantities(
            oracle.log_probabilities(exact, prompt, ids),
            [oracle.log_probabilities(one, prompt, ids) for one in drawn],
            ids,
        )
        for name in ("logprob", "tu", "au", "eu"):
            assert got[name] == pytest.approx(expected[name], abs=1e-4), name
        assert expected["eu"].max() > 1e-5


@pytest.mark.parametrize("estimator", ["kl", "fisher"])
@pytest.mark.parametrize("sampling", ["shared", "joint"])
def test_other_estimators_equal_brute_force_in_float64(sampling, estimator):
    model = tiny_model("llama")
    posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=1))
    drawn = [oracle.fixed_draw(model, posterior, member) for member in range(DRAWS)]
    exact = copy.deepcopy(model).double()
    found = score(model, RESPONSES, sampling=sampling, estimator=estimator)
    for response, got in zip(RESPONSES, found, strict=True):
        prompt, ids = response.prompt_ids, response.response_ids
        expected = oracle.reference_quantities(
            oracle.log_probabilities(exact, prompt, ids),
            [oracle.log_probabilities(one, prompt, ids) for one in drawn],
            ids,
            joint=sampling == "joint",
            estimator=estimator,
        )
        for name in ("tu", "au", "eu", "entropy", "logprob"):
            assert got[name] == pytest.approx(expected[name], abs=1e-5, rel=1e-5), name
        assert expected["eu"].max() > 1e-3


@pytest.mark.parametrize("sampling", ["stepwise", "shared", "joint"])
@pytest.mark.parametrize("estimator", ["paper", "kl", "fisher"])
def test_estimators_side_by_side_are_those_of_runs_of_their_own(sampling, estimator):
    model, further = tiny_model("llama"), ("eu_kl", "eu_fisher")
    alone = {
        f"eu_{name}": score(model, RESPONSES, sampling=sampling, estimator=name) for name in ("paper", "kl", "fisher")
    }
    both = score(model, RESPONSES, sampling=sampling, estimator=estimator, on_demand=further)
    for place, (found, plain) in enumerate(zip(both, alone[f"eu_{estimator}"], strict=True)):
        assert found.keys() == {*plain, *further}
        for name, values in plain.items():
            assert np.array_equal(found[name], values), name
        for name in further:
            assert np.array_equal(found[name], alone[name][place]["eu"]), name
    one = score(model, RESPONSES, sampling=sampling, on_demand={"eu_fisher"})[0]
    assert "eu_kl" not in one
    assert np.array_equal(one["eu_fisher"], both[0]["eu_fisher"])


def test_for_weak_perturbations_the_estimators_agree_but_for_the_papers_known_bias():
    """EU of M draws is (M − 1)/M of its limit; kl and fisher have no such factor."""
    model = tiny_model("llama")
    responses = some_responses(5, [(4, 12)] * 8)

    def total(estimator, draws, seeds):
        found = [
            result["eu"].sum(dtype=np.float64)
            for seed in range(seeds)
            for result in score(model, responses, sigma=0.01, seed=seed, draws=draws, estimator=estimator)
        ]
        return np.sum(found) / seeds

    kl, fisher = total("kl", 2, 12), total("fisher", 2, 12)
    assert kl == pytest.approx(fisher, rel=0.02)
    assert total("paper", 2, 12) / fisher == pytest.approx(1 / 2, rel=0.1)
    assert total("paper", 8, 6) / fisher == pytest.approx(7 / 8, rel=0.1)


@pytest.mark.slow
def test_stepwise_has_the_law_of_a_fresh_full_epsilon_at_each_step():
    """Mean and variance of EU over seeds, against an oracle that draws a whole ε for every step and matrix."""
    model = tiny_model("llama")
    response = some_responses(3, [(4, 4)])[0]
    prompt, ids = response.prompt_ids, response.response_ids
    seeds = 150
    generator = torch.Generator().manual_seed(0)
    ours, theirs = [], []
    for seed in range(seeds):
        ours.append(score(model, [response], seed=seed, draws=2, sigma=0.1)[0]["eu"])
        posterior = build_posterior(model, PosteriorSettings(sigma=0.1, seed=10_000 + seed))

        def full_epsilon(matrix, step, x):
            return 0.1 * torch.randn(matrix.inputs, 8, dtype=torch.float64, generator=generator)

        draws = [oracle.stepwise_log_probabilities(model, posterior, m, prompt, ids, full_epsilon) for m in range(2)]
        theirs.append(oracle.reference_quantities(draws[0], draws, ids)["eu"])
    ours, theirs = np.array(ours, dtype=np.float64), np.array(theirs)
    standard_error = np.sqrt((ours.var(0) + theirs.var(0)) / seeds)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4 * standard_error).all()
    # a variance's own standard error, from the fourth moment: distributions of EU have heavy tails
    errors = [np.sqrt(((x - x.mean(0)) ** 4).mean(0) - x.var(0) ** 2) / np.sqrt(seeds) for x in (ours, theirs)]
    assert (np.abs(ours.var(0) - theirs.var(0)) < 4 * np.hypot(*errors)).all()


@pytest.mark.parametrize("sampling", ["shared", "joint", "stepwise"])
def test_without_perturbation_all_uncertainty_is_the_base_entropy(sampling):
    for got in score(tiny_model("llama"), RESPONSES, sampling=sampling, sigma=0.0):
        assert np.abs(got["eu"]).max() < 2e-6
        assert got["tu"] == pytest.approx(got["entropy"], abs=5e-6)
        assert got["au"] == pytest.approx(got["entropy"], abs=5e-6)


@pytest.mark.parametrize("sampling", ["shared", "joint", "stepwise"])
def test_total_is_aleatoric_plus_epistemic_and_none_is_negative(sampling):
    for got in score(tiny_model("qwen2"), RESPONSES, sampling=sampling):
        assert np.array_equal(got["tu"], got["au"] + got["eu"])
        assert (got["eu"] >= 0).all()
        assert (got["au"] >= 0).all()


@pytest.mark.parametrize("sampling", ["shared", "joint", "stepwise"])
def test_numbers_depend_neither_on_the_batch_nor_on_the_order(sampling):
    model = tiny_model("llama")
    responses = some_responses(5, [(n % 7 + 1, n % 11 + 1) for n in range(20)])
    alone = [score(model, [response], sampling=sampling)[0] for response in responses]
    for budget in (1, 60, 300, 10**6):
        together = score(model, responses, sampling=sampling, batch_tokens=budget)
        backwards = score(model, responses[::-1], sampling=sampling, batch_tokens=budget)[::-1]
        for expected, *others in zip(alone, together, backwards, strict=True):
            for other in others:
                for name in expected:
                    assert other[name] == pytest.approx(expected[name], abs=1e-5)


def test_a_long_response_gets_the_numbers_that_it_has_alone_after_shorter_ones():
    """Tables of step noise are made for 256 steps at first and grow: lengths at and beyond their ends."""
    model = tiny_model("llama")
    responses = some_responses(9, [(3, 20), (3, 258), (3, 490)])
    posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=1))
    together = Scorer(model, Draws(posterior, 1))
    for response in responses:
        ((_, mine),) = together.score([response])
        ((_, alone),) = Scorer(model, Draws(posterior, 1)).score([response])
        assert mine["au"] == pytest.approx(alone["au"], abs=1e-5)
    # and no noise comes twice: by the 258th step a repeated table would begin again
    noise = posterior.step_noise(posterior.matrices[0], 0, 0, 512)
    table = together.draws.coefficients(posterior.matrices[0], torch.ones(1, 1, 512, 32), torch.arange(512)[None], 512)[
        0, 0
    ]  # (512, r′)
    assert table == pytest.approx(SIGMA * np.sqrt(32) * noise, abs=1e-5)


def test_fewer_draws_are_the_first_of_more():
    """With M = 1 there is no disagreement; the member's entropy is one of the two that M = 2 averages."""
    model = tiny_model("llama")
    one, two = (score(model, RESPONSES[:1], draws=m)[0] for m in (1, 2))
    assert np.abs(one["eu"]).max() < 1e-6
    posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=1))
    prompt, ids = RESPONSES[0].prompt_ids, RESPONSES[0].response_ids
    second = oracle.stepwise_log_probabilities(
        model, posterior, 1, prompt, ids, oracle.same_projected_noise(posterior, 1)
    )
    entropy = -(second.exp() * second).sum(-1).numpy()
    assert (one["au"] + entropy) / 2 == pytest.approx(two["au"], abs=1e-5)


def test_seeds_differ_and_repeat():
    model = tiny_model("llama")
    first, again, other = (score(model, RESPONSES, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a["eu"], b["eu"]) for a, b in zip(first, again, strict=True))
    assert not np.allclose(first[0]["eu"], other[0]["eu"])
    assert np.array_equal(first[0]["logprob"], other[0]["logprob"])


def test_without_draws_the_base_quantities_are_the_same():
    model = tiny_model("llama")
    plain = dict(Scorer(model, None).score(RESPONSES))
    for index, full in enumerate(score(model, RESPONSES)):
        assert plain[index].keys() == {"logprob", "entropy", "self_certainty", "deepconf"}
        for name, values in plain[index].items():
            assert full[name] == pytest.approx(values, abs=1e-5)


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
]


@pytest.mark.parametrize("failure", OUT_OF_MEMORY)
def test_too_little_memory_halves_the_batch_and_goes_on(failure, monkeypatch):
    model = tiny_model("llama")
    responses = some_responses(7, [(2, 5)] * 7 + [(2, 60)])
    expected = score(model, responses)
    sizes = []
    whole_batch = Scorer._score_batch

    def small_machine(self, batch, *others):
        sizes.append(len(batch))
        if len(batch) > 2 or any(len(response.response_ids) > 50 for response in batch):
            raise failure
        return whole_batch(self, batch, *others)

    monkeypatch.setattr(Scorer, "_score_batch", small_machine)
    got = score(model, responses, batch_tokens=10**6)
    assert sizes == [7, 3, 1, 2, 4, 2, 2, 1]  # the long response comes last
    assert isinstance(got[7], TokurError)
    assert "too little memory" in str(got[7])
    for mine, theirs in zip(got[:7], expected[:7], strict=True):
        assert mine["eu"] == pytest.approx(theirs["eu"], abs=1e-5)


def test_a_batch_that_was_halved_stays_halved(monkeypatch):
    model = tiny_model("llama")
    responses = some_responses(8, [(2, 5)] * 24)  # of 6 positions, under 1 + 3 members
    sizes = []
    whole_batch = Scorer._score_batch

    def small_machine(self, batch, *others):
        sizes.append(len(batch))
        if len(batch) > 4:
            raise MemoryError
        return whole_batch(self, batch, *others)

    monkeypatch.setattr(Scorer, "_score_batch", small_machine)
    got = score(model, responses, batch_tokens=8 * 6 * (1 + DRAWS))
    assert len(got) == 24
    assert sizes == [8, 4, 4, 4, 4, 4, 4]


def test_other_failures_are_not_taken_for_too_little_memory(monkeypatch):
    def broken(self, *batch):
        raise RuntimeError("index out of range")

    monkeypatch.setattr(Scorer, "_score_batch", broken)
    with pytest.raises(RuntimeError, match="index out of range"):
        score(tiny_model("llama"), RESPONSES)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_model_is_restored_to_the_bit_even_after_an_exception(family):
    model = tiny_model(family)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ids = torch.arange(10)[None]
    logits = model(ids).logits
    draws = Draws(build_posterior(model, PosteriorSettings(sigma=SIGMA)), 1)

    def interrupted():
        with perturbed(draws):
            assert not torch.equal(model(ids.repeat(2, 1)).logits[1], logits[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model(ids).logits, logits)
    assert "forward" not in model.base_model.__dict__


def test_a_family_that_caps_its_logits_is_scored_with_capped_logits():
    """Gemma 2 squashes logits after its head; the engine's logits are the model's own."""
    model = tiny_model("gemma2", final_logit_softcapping=2.0)
    got = score(model, RESPONSES, sampling="shared")[0]
    base = oracle.log_probabilities(copy.deepcopy(model).double(), RESPONSES[0].prompt_ids, RESPONSES[0].response_ids)
    assert got["logprob"] == pytest.approx(base[range(7), RESPONSES[0].response_ids].numpy(), abs=1e-5)


def test_each_batch_gives_the_next_response_at_the_latest(monkeypatch):
    responses = some_responses(3, [(4, 6)] * 24)
    model, batches = tiny_model("llama"), []
    draws = Draws(build_posterior(model, PosteriorSettings(sigma=SIGMA)), 2)
    scorer = Scorer(model, draws, batch_tokens=3 * 40)
    whole = scorer._score_batch
    monkeypatch.setattr(scorer, "_score_batch", lambda *batch: batches.append(batch) or whole(*batch))
    there = set()
    for index, _ in scorer.score(responses):
        there.add(index)
        if len(there) == sum(len(batch) for batch, _ in batches):
            assert set(range(len(batches))) <= there
    assert len(batches) > 5


def test_the_head_is_never_given_the_strides_of_a_batch():
    """PyTorch multiplies one position with those strides by a path that takes a hundred times as long in bfloat16."""
    model = tiny_model("llama", tie_word_embeddings=True)
    seen = []
    model.lm_head.register_forward_pre_hook(lambda _, given: seen.append((given[0].shape, given[0].stride())))
    list(Scorer(model, None).score(some_responses(0, [(5, 4), (9, 12)])))
    assert len(seen) > 2
    for (batch, rows, width), strides in seen:
        assert batch == 1
        assert strides == (rows * width, width, 1)
