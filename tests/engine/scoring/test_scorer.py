import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tests.engine import oracle
from tests.engine.more_families import GEMMA, MORE, model_of
from tests.engine.oracle import reference_quantities
from tests.tiny import tiny_model
from tokur_cli.engine.forward.hooks import Draws, Steps, perturbed
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring import quantities
from tokur_cli.engine.scoring.quantities import token_quantities
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES

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


PER_LAYER = {"vocab_size_per_layer_input": 259, "hidden_size_per_layer_input": 8}
ODD = {  # layers that take more than rows, which --layers must not mind
    "gemma4_text": ("Gemma4TextConfig", GEMMA | PER_LAYER),
    **{family: MORE[family] for family in ("gpt_bigcode", "openai-gpt", "deepseek_v3")},
}


@pytest.mark.parametrize(
    ("family", "sampling", "layers"),
    [
        *((family, "stepwise", None) for family in ("llama", "gpt2", "gemma2", "qwen3", "phi3", "gpt_neox")),
        *(("llama", "shared", "1:"), ("llama", "joint", None)),
        *((family, "shared", "1:") for family in ODD),
    ],
)
def test_score_equals_brute_force_in_float64(family, sampling, layers):
    model = model_of(*ODD[family]) if family in ODD else tiny_model(family)
    posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=1, layers=layers))
    for response, got in zip(RESPONSES, score(model, RESPONSES, sampling=sampling, layers=layers), strict=True):
        expected = oracle.scored(model, posterior, response, sampling, DRAWS)
        assert got.keys() == expected.keys()
        for name, values in expected.items():
            assert got[name].dtype == np.float32
            assert got[name] == pytest.approx(values, abs=1e-4 if family in ODD else 1e-5, rel=2e-6), name
        assert expected["eu"].max() > 1e-5, "the draws must differ for this test to mean anything"


@pytest.mark.parametrize(
    "family", ["llama", *(pytest.param(family, marks=pytest.mark.slow) for family in ("gpt2", "gemma2"))]
)
def test_score_in_bfloat16_errs_no_more_than_passes_with_swapped_weights(family):
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


@pytest.mark.parametrize(("sampling", "estimator"), [("shared", "kl"), ("joint", "fisher")])
def test_score_of_other_estimators_equals_brute_force_and_stands_beside_the_papers(sampling, estimator):
    model = tiny_model("llama")
    posterior = build_posterior(model, PosteriorSettings(sigma=SIGMA, seed=1))
    alone = score(model, RESPONSES, sampling=sampling, estimator=estimator)
    beside = score(model, RESPONSES, sampling=sampling, on_demand={f"eu_{estimator}"})
    for response, got, more in zip(RESPONSES, alone, beside, strict=True):
        expected = oracle.scored(model, posterior, response, sampling, DRAWS, estimator)
        for name in ("tu", "au", "eu", "entropy", "logprob"):
            assert got[name] == pytest.approx(expected[name], abs=1e-5, rel=1e-5), name
        assert np.array_equal(more[f"eu_{estimator}"], got["eu"])
        assert more["eu"] == pytest.approx(oracle.scored(model, posterior, response, sampling, DRAWS)["eu"], abs=1e-5)


@pytest.mark.slow
def test_score_stepwise_has_the_law_of_a_fresh_full_epsilon_at_each_step():
    """Mean and variance of EU over seeds, against an oracle that draws a whole ε for every step and matrix."""
    model = tiny_model("llama")
    response = some_responses(3, [(4, 4)])[0]
    prompt, ids = response.prompt_ids, response.response_ids
    seeds = 60
    generator = torch.Generator().manual_seed(0)
    ours, theirs = [], []
    for seed in range(seeds):
        ours.append(score(model, [response], seed=seed, draws=2, sigma=0.1)[0]["eu"])
        posterior = build_posterior(model, PosteriorSettings(sigma=0.1, seed=10_000 + seed))

        def full_epsilon(matrix, step, x):
            return 0.1 * torch.randn(matrix.size[1], 8, dtype=torch.float64, generator=generator)

        draws = [oracle.stepwise_log_probabilities(model, posterior, m, prompt, ids, full_epsilon) for m in range(2)]
        theirs.append(oracle.reference_quantities(draws[0], draws, ids)["eu"])
    ours, theirs = np.array(ours, dtype=np.float64), np.array(theirs)
    standard_error = np.sqrt((ours.var(0) + theirs.var(0)) / seeds)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4 * standard_error).all()
    # a variance's own standard error, from the fourth moment: distributions of EU have heavy tails
    errors = [np.sqrt(((x - x.mean(0)) ** 4).mean(0) - x.var(0) ** 2) / np.sqrt(seeds) for x in (ours, theirs)]
    assert (np.abs(ours.var(0) - theirs.var(0)) < 4 * np.hypot(*errors)).all()


@pytest.mark.parametrize("sampling", ["joint", "stepwise"])
def test_score_depends_neither_on_the_batch_nor_on_the_order(sampling):
    model = tiny_model("llama")
    responses = some_responses(5, [(n % 7 + 1, n % 11 + 1) for n in range(20)])
    alone = [score(model, [response], sampling=sampling)[0] for response in responses]
    for budget in (1, 60, 10**6):
        together = score(model, responses, sampling=sampling, batch_tokens=budget)
        backwards = score(model, responses[::-1], sampling=sampling, batch_tokens=budget)[::-1]
        for expected, *others in zip(alone, together, backwards, strict=True):
            for other in others:
                assert np.array_equal(other["tu"], other["au"] + other["eu"])
                for name in expected:
                    assert other[name] == pytest.approx(expected[name], abs=1e-5)


def test_score_of_a_long_response_is_what_it_is_alone_after_shorter_ones():
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
    matrix = posterior.matrices[0]
    table = together.draws.coefficients(matrix, torch.ones(1, 1, 512, 32), Steps.of(torch.arange(512)[None]))[0, 0]
    assert table == pytest.approx(SIGMA * np.sqrt(32) * posterior.step_noise(matrix, 0, 512), abs=1e-5)


@pytest.mark.parametrize(
    "failure",
    [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_score_halves_batches_for_good_where_memory_does_not_suffice(failure, monkeypatch):
    model = tiny_model("llama")
    responses = some_responses(8, [(2, 5)] * 24 + [(2, 60)])  # of 6 positions, under 1 + 3 rows
    expected = score(model, responses)
    sizes = []
    whole_batch = Scorer.states

    def small_machine(self, batch, *others):
        sizes.append(len(batch))
        if len(batch) > 4 or len(batch[0].response_ids) > 50:
            raise failure
        return whole_batch(self, batch, *others)

    monkeypatch.setattr(Scorer, "states", small_machine)
    *got, error = score(model, responses, batch_tokens=8 * 6 * (1 + DRAWS))
    assert sizes == [8, 4, 4, 4, 4, 4, 4, 1, 1]
    assert isinstance(error, TokurError)
    assert "too little memory for 61 tokens" in str(error)
    for mine, theirs in zip(got, expected, strict=False):
        assert mine["eu"] == pytest.approx(theirs["eu"], abs=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_perturbed_leaves_the_model_as_it_was_even_after_an_exception(family):
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


def test_score_gives_the_next_response_with_each_batch_at_the_latest(monkeypatch):
    responses = some_responses(3, [(4, 6)] * 24)
    model, batches = tiny_model("llama"), []
    draws = Draws(build_posterior(model, PosteriorSettings(sigma=SIGMA)), 2)
    scorer = Scorer(model, draws, batch_tokens=3 * 40)
    whole = scorer.states
    monkeypatch.setattr(scorer, "states", lambda *batch: batches.append(batch) or whole(*batch))
    there = set()
    for index, _ in scorer.score(responses):
        there.add(index)
        if len(there) == sum(len(batch) for batch, _ in batches):
            assert set(range(len(batches))) <= there
    assert len(batches) > 5


def test_run_body_never_gives_the_head_the_strides_of_a_batch():
    """PyTorch multiplies one position with those strides by a path that takes a hundred times as long in bfloat16."""
    model = tiny_model("llama", tie_word_embeddings=True)
    seen = []
    model.lm_head.register_forward_pre_hook(lambda _, given: seen.append((given[0].shape, given[0].stride())))
    list(Scorer(model, None).score(some_responses(0, [(5, 4), (9, 12)])))
    assert len(seen) > 2
    for (batch, rows, width), strides in seen:
        assert batch == 1
        assert strides == (rows * width, width, 1)


def reduce(logits: torch.Tensor, targets: list[int], counts: list[int], joint: bool = False, **options):
    """Quantities of given logits (1 + M, N, V): the hidden states are the logits themselves."""
    before = torch.zeros(len(counts), len(logits) - 1, dtype=torch.float64) if joint else None
    got = token_quantities(lambda states: states, logits, torch.tensor(targets), counts, before=before, **options)
    if joint:
        of_targets = logits.double().log_softmax(-1)[1:, range(len(targets)), targets].T
        np.testing.assert_allclose(got.pop("draw_log_p"), of_targets, atol=1e-5)
    return {name: values.double().numpy() for name, values in got.items()}


@pytest.mark.parametrize("vocabulary_size", [21, 507, 100_003])
@pytest.mark.parametrize("block_tokens", [1, 3, 1000])
@pytest.mark.parametrize("joint", [False, True])
def test_token_quantities_in_blocks_of_any_size_are_those_of_float64(vocabulary_size, block_tokens, joint, monkeypatch):
    monkeypatch.setattr(quantities, "_ROWS", 4 * min(2, block_tokens))
    monkeypatch.setitem(quantities._BLOCK_BYTES, "cpu", 4 * 4 * vocabulary_size * block_tokens)
    monkeypatch.setitem(quantities._REDUCED_BYTES, "cpu", 4 * 4 * vocabulary_size * min(2, block_tokens))
    generator = torch.Generator().manual_seed(vocabulary_size)
    sizes = [4, 1, 6]
    logits = 5 * torch.randn(4, sum(sizes), vocabulary_size, generator=generator)
    targets = torch.randint(vocabulary_size, (sum(sizes),), generator=generator).tolist()
    got = reduce(logits, targets, sizes, joint)
    assert list(got) == ["logprob", "entropy", "tu", "au", "eu", "self_certainty", "deepconf"]
    assert set(got) == QUANTITIES.keys() - ON_DEMAND
    log_p = logits.double().log_softmax(-1)
    for first, size in zip((0, 4, 5), sizes, strict=True):
        part = slice(first, first + size)
        expected = reference_quantities(log_p[0, part], list(log_p[1:, part]), targets[part], joint=joint)
        for name, values in expected.items():
            assert got[name][part] == pytest.approx(values, abs=4e-6), name


@pytest.mark.parametrize(
    ("device", "threads", "block", "reduced"), [("cpu", 3, 24 * 2**20, 5 * 2**19), ("meta", 1, 2**28, 2**28)]
)
@pytest.mark.parametrize(("rows", "size"), [(1, 30_011), (1, 300_011), (4, 300_011), (1000, 30_011)])
def test_block_sizes_are_the_largest_within_their_bytes(device, threads, block, reduced, rows, size, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    logits = torch.empty(rows, 1, size, dtype=torch.bfloat16, device=device)
    expected = max(block // logits.nbytes, 96 // rows, 1), max(threads * reduced // (2 * logits.nbytes), 1)
    assert quantities._block_sizes(logits) == expected


@pytest.mark.parametrize("draws", [0, 2])
def test_token_quantities_margin_is_the_difference_of_the_two_largest_probabilities(draws):
    logits = 3 * torch.randn(1 + draws, 50, 300, generator=torch.Generator().manual_seed(1))
    got = reduce(logits, [0] * 50, [50], on_demand={"margin"})["margin"]
    largest = logits[0].double().softmax(-1).sort(-1, descending=True).values
    assert got == pytest.approx((largest[:, 0] - largest[:, 1]).numpy(), abs=1e-6)


@pytest.mark.parametrize("draws", [1, 3, 96])
def test_token_quantities_compare_draws_as_float64_does(draws):
    generator = torch.Generator().manual_seed(draws)
    logits = torch.randn(1 + draws, 300, 9, generator=generator)
    targets = torch.randint(9, (300,), generator=generator)
    got = reduce(logits, targets.tolist(), [300], compare=True)
    base, *others = logits.double().log_softmax(-1).numpy()
    likeliest, places = base.argmax(-1), targets.numpy()
    expected = {
        "au": [-np.sum(np.exp(other) * other, -1) for other in others],
        "kl": [np.sum(np.exp(base) * (base - other), -1) for other in others],
        "top1_agreement": [other.argmax(-1) == likeliest for other in others],
        "accuracy": [other.argmax(-1) == places for other in others],
        "base_accuracy": [likeliest == places],
    }
    assert set(got) == (QUANTITIES.keys() - ON_DEMAND) | expected.keys()
    assert got["eu"].any() == (draws > 1)
    for name, values in expected.items():
        assert got[name] == pytest.approx(np.mean(values, axis=0), abs=1e-6), name


@pytest.mark.parametrize("wanted", ["eu_kl", "eu_fisher"])
def test_token_quantities_leave_out_entries_of_probability_zero(wanted):
    logits = torch.randn(3, 2, 40)
    padded = torch.cat([logits, torch.full((3, 2, 10), -torch.inf)], dim=-1)
    got, expected = (reduce(some, [1, 2], [2], on_demand={wanted}) for some in (padded, logits))
    for name in expected.keys() - {"self_certainty"}:
        assert got[name] == pytest.approx(expected[name], abs=1e-6), name
    assert np.isinf(got["self_certainty"]).all(), "the mean of log p over the vocabulary is −∞"


@pytest.mark.parametrize("block_tokens", [1, 2, 1000])
@pytest.mark.parametrize("broken", [torch.nan, -torch.inf])
def test_token_quantities_joint_weights_know_nothing_of_earlier_responses(broken, block_tokens, monkeypatch):
    monkeypatch.setattr(quantities, "_ROWS", 3 * block_tokens)
    monkeypatch.setitem(quantities._BLOCK_BYTES, "cpu", 3 * 4 * 40 * block_tokens)
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 7, 40, generator=generator)
    logits[:, 1, 3] = broken  # of the second token, which is token 3
    got = reduce(logits, [2, 3, 4, 5, 6, 7, 8], [3, 3, 1], joint=True)
    assert np.isnan(got["eu"][2]), "no draw made the first response possible"
    log_p = logits.double().log_softmax(-1)
    for part in (slice(3, 6), slice(6, 7)):
        expected = reference_quantities(
            log_p[0, part], list(log_p[1:, part]), [5, 6, 7, 8][part.start - 3 : part.stop - 3], joint=True
        )
        for name, values in expected.items():
            assert got[name][part] == pytest.approx(values, abs=2e-5), name


def test_token_quantities_show_a_broken_model():
    logits = torch.randn(3, 2, 40)
    logits[:, 1, 3] = torch.nan
    got = reduce(logits, [1, 2], [2])
    for name, values in got.items():
        assert np.isfinite(values[0]), name
        assert np.isnan(values[1]), name


def test_token_quantities_of_nearly_equal_draws_disagree_by_rounding():
    """Epistemic uncertainty is a small difference of large entropies."""
    generator = torch.Generator().manual_seed(0)
    for spread in (0.5, 2.0, 6.0):
        logits = (spread * torch.randn(1, 32, 49_152, generator=generator)).repeat(3, 1, 1)
        logits += 1e-6 * torch.randn(logits.shape, generator=generator)
        got = reduce(logits, [0] * 32, [32], on_demand={"eu_kl"})
        assert all(0 <= got[name].min() <= got[name].max() < 4e-6 for name in ("eu", "eu_kl"))


def test_token_quantities_by_fisher_are_never_below_zero():
    """A draw that sets all logits off alike, but for one of a token that the mean weights exclude, changes nothing."""
    logits = (20 * torch.randn(1, 64, 500, generator=torch.Generator().manual_seed(0))).repeat(2, 1, 1)
    logits[1].scatter_(-1, logits[0].argmin(-1, keepdim=True), 3 + logits[0].amax(-1, keepdim=True))
    eu = reduce(logits, [0] * 64, [64], estimator="fisher")["eu"]
    assert 0 <= eu.min() <= eu.max() < 1e-5


def test_places_of_largest_are_found_wherever_they_stand():
    generator = torch.Generator().manual_seed(0)
    for size in (25, 5120, 5121, 6143, 20_000):
        values = torch.randn(4, size, generator=generator)
        values[1, -30:] += 10  # all in the last groups and what is left over
        values[2, 64:128] += 10  # more than 20 in one group
        values[3] = 0
        got = values.gather(1, quantities.places_of_largest(values, 20))
        assert torch.equal(got, values.sort(descending=True).values[:, :20])


@pytest.mark.parametrize(("vocabulary_size", "joint", "estimator"), [(9, True, "paper"), (6001, False, "fisher")])
def test_token_quantities_alternatives_are_the_likeliest_of_float64(vocabulary_size, joint, estimator, monkeypatch):
    monkeypatch.setitem(quantities._BLOCK_BYTES, "cpu", 4 * 4 * vocabulary_size * 3)
    generator = torch.Generator().manual_seed(vocabulary_size)
    logits = 4 * torch.randn(4, 11, vocabulary_size, generator=generator)
    targets = torch.randint(vocabulary_size, (11,), generator=generator).tolist()
    options = {"joint": joint, "estimator": estimator}
    got = reduce(logits, targets, [5, 6], alternatives=5, **options)
    plain = reduce(logits, targets, [5, 6], **options)
    assert set(got) - set(plain) == set(quantities.ALTERNATIVES)
    one = reduce(logits[:2, :1], targets, [1], alternatives=5)["likeliest_mean"][0]
    assert one == pytest.approx(logits[1, 0].softmax(-1).numpy()[got["likeliest"][0].astype(int)], abs=1e-6)
    undrawn = reduce(logits[:1], targets, [11], alternatives=5)
    assert undrawn.keys() >= {"likeliest", "likeliest_p"}
    assert not undrawn.keys() & {"tu", "au", "eu", "likeliest_mean", "of_draws"}
    assert all(np.array_equal(values, got[name]) for name, values in plain.items())
    log_p = logits.double().log_softmax(-1).numpy()
    weights = np.ones((3, 11)) / 3
    if joint:
        for first, end in ((0, 5), (5, 11)):
            for token in range(first, end):
                so_far = [sum(log_p[m, t, targets[t]] for t in range(first, token)) for m in (1, 2, 3)]
                weights[:, token] = np.exp(so_far - np.max(so_far)) / np.exp(so_far - np.max(so_far)).sum()
    for token in range(11):
        likeliest = np.argsort(-log_p[0, token])[:5]
        assert got["likeliest"][token].tolist() == likeliest.tolist()
        assert got["likeliest_p"][token] == pytest.approx(np.exp(log_p[0, token, likeliest]), abs=1e-6)
        mean = sum(weights[m, token] * np.exp(log_p[1 + m, token, likeliest]) for m in range(3))
        assert got["likeliest_mean"][token] == pytest.approx(mean, abs=1e-6)
        assert got["of_draws"][token].tolist() == [log_p[1 + m, token].argmax() for m in range(3)]
