import copy
import inspect
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import oracle
from tests.tiny import FAMILIES, SIZES, tiny_model
from tokur_cli.engine import varlen
from tokur_cli.engine.body import parts_of
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.uncertainty import packing, prefixes
from tokur_cli.engine.uncertainty.packing import Ahead, Layout, PackedAttention, attend, longest_packed
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.prefixes import cut_batches, divide, in_reading_order
from tokur_cli.engine.uncertainty.scorer import Scorer, TokenizedResponse


def varlen_as_documented(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, enable_gqa, window_size, seqused_k, block_table
):
    """What the documentation of ``torch.nn.attention.varlen.varlen_attn`` says of paged keys, in float64."""
    (width, key_heads), count = key.shape[1:3], len(cu_seq_q) - 1
    assert width % 256 == 0  # flash attention's own demands
    assert all(numbers.dtype == torch.int32 and numbers.is_contiguous() for numbers in (cu_seq_q, cu_seq_k, seqused_k))
    assert block_table.dtype == torch.int32
    assert block_table.stride(-1) == 1
    assert (value.shape, block_table.shape[0], len(seqused_k), len(cu_seq_k)) == (key.shape, count, count, count + 1)
    assert key.is_contiguous()
    assert value.is_contiguous()
    assert query.stride(-1) == 1
    assert enable_gqa
    assert int(cu_seq_q[-1]) == len(query)
    assert int(cu_seq_q.diff().max()) == max_q
    assert int(seqused_k.max()) <= max_k
    outputs = []
    for row, used in enumerate(seqused_k.tolist()):
        queries = query[cu_seq_q[row] : cu_seq_q[row + 1]].double()  # (n, heads, d)
        keys, values = (
            states[block_table[row].long()]
            .flatten(0, 1)[:used]
            .double()
            .repeat_interleave(query.shape[1] // key_heads, 1)
            for states in (key, value)
        )
        products = torch.einsum("nhd,mhd->hnm", queries, keys) * scale
        if window_size == (-1, 0):  # the last query sees all
            seen = torch.ones(products.shape[1:], dtype=torch.bool).tril(used - len(queries))
            products = products.masked_fill(~seen, -torch.inf)
        else:
            assert (window_size, len(queries)) == ((-1, -1), 1)
        weights = products.softmax(-1)
        outputs.append(torch.einsum("hnm,mhd->nhd", weights, values))
    return torch.cat(outputs).to(query.dtype)


WAYS = ["by stretch", "by path", "by pages"]  # a CPU's, and a GPU's without and with a kernel for pages
PACKED = ["llama", "qwen2", "qwen3", "mistral", "gemma3", "gpt2", "phi3", "gpt_neox"]


@pytest.fixture(autouse=True)
def _share_the_shortest_prefixes(monkeypatch):
    """Tiny responses have little in common; here one position is enough."""
    monkeypatch.setattr(prefixes, "LEAST_SAVING", 1)
    monkeypatch.setattr(prefixes, "LEAST_PIECE", 1)


def grouped_responses(seed: int = 0) -> list[TokenizedResponse]:
    """Three questions under a header, some begin alike, one is there twice, one ends early."""
    rng = np.random.default_rng(seed)

    def ids(count):
        return rng.integers(0, 256, count).tolist()

    header = ids(9)
    questions = [header + ids(count) for count in (4, 4, 7)]
    start = ids(5)
    first = [start + ids(3), start + ids(6), start, start + ids(1), ids(2), start]
    return [
        *(TokenizedResponse(questions[0], response) for response in first),
        *(TokenizedResponse(questions[1], ids(count)) for count in (1, 1, 8)),
        TokenizedResponse(questions[2], ids(3)),
        TokenizedResponse(ids(3), ids(5)),
    ]


def score(model, responses, posterior, sampling="stepwise", draws=2, **options):
    results = dict(Scorer(model, Draws(posterior, draws), sampling=sampling, **options).score(responses))
    return [results[index] for index in range(len(responses))]


def unpacked(monkeypatch):
    monkeypatch.setattr("tokur_cli.engine.uncertainty.scorer.longest_packed", lambda model: 0)


def attend_as_documented(query, key, value, queries, keys, scale):
    """What ``varlen.attend_within`` says of itself, and what its kernels ask for, in float64."""
    groups = query.shape[1] // key.shape[1]
    assert len(queries.places) == len(keys.places)
    for ends, states in ((queries, query), (keys, key), (keys, value)):
        assert ends.places.dtype == torch.int32
        assert ends.places[[0, -1]].tolist() == [0, len(states)]
        assert ends.longest == ends.places.diff().max()
        assert states.stride(-1) == 1
    outputs = []
    for asked, seen in zip(queries.places.unfold(0, 2, 1), keys.places.unfold(0, 2, 1), strict=True):
        one = query[slice(*asked)].transpose(0, 1).double()
        parts = (states[slice(*seen)].transpose(0, 1).double().repeat_interleave(groups, 0) for states in (key, value))
        its_keys, its_values = parts
        before = its_keys.shape[1] - one.shape[1]
        assert before >= 0
        hidden = torch.ones(one.shape[1], its_keys.shape[1], dtype=torch.bool).triu(before + 1)
        products = one @ its_keys.mT * (one.shape[-1] ** -0.5 if scale is None else scale)
        outputs.append((products.masked_fill(hidden, -torch.inf).softmax(-1) @ its_values).transpose(0, 1))
    return torch.cat(outputs).to(query.dtype)


def attend_to_pages_as_documented(query, key, value, queries, pages, scale):
    """What ``varlen.attend_to_pages`` says of itself, in float64, for pages of four columns."""
    assert key.shape[1] == 4
    assert key.shape == value.shape
    assert pages.table.dtype == pages.used.dtype == torch.int32
    assert len(queries.places) - 1 == len(pages.table) == len(pages.used)
    assert pages.ends.tolist() == [0, *pages.used.cumsum(0).tolist()]
    assert pages.ends.dtype == torch.int32
    seen = [
        [states[table.long()].flatten(0, 1)[:used] for table, used in zip(pages.table, pages.used, strict=True)]
        for states in (key, value)
    ]
    keys = varlen.Ends(pages.ends, int(pages.used.max()))
    return attend_as_documented(query, *map(torch.cat, seen), queries, keys, scale)


def as_a_gpu(monkeypatch, way="by path"):
    """Have a CPU divide the work as a GPU does; return the arguments of the kernels' calls."""
    calls = []

    def noted(attend):
        return lambda *of: calls.append(of) or attend(*of)

    if way != "by stretch":
        monkeypatch.setattr(packing, "_BY_STRETCH", ())
        monkeypatch.setattr(packing, "attend_within", noted(attend_as_documented))
    if way == "by pages":
        monkeypatch.setattr(packing, "PAGE", 4)
        monkeypatch.setattr(packing, "has_pages", lambda *_: True)
        monkeypatch.setattr(packing, "attend_to_pages", noted(attend_to_pages_as_documented))
    return calls


@pytest.mark.parametrize("sampling", ["shared", "joint", "stepwise"])
@pytest.mark.parametrize("family", PACKED)
@pytest.mark.parametrize("budget", [10**6, 60])
def test_packed_responses_get_the_numbers_of_padded_ones(family, sampling, budget, monkeypatch):
    model = tiny_model(family)
    responses = grouped_responses()
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=1))
    got = score(model, responses, posterior, sampling, batch_tokens=budget)
    unpacked(monkeypatch)
    for mine, theirs in zip(got, score(model, responses, posterior, sampling, batch_tokens=10**6), strict=True):
        for name, values in theirs.items():
            assert mine[name] == pytest.approx(values, abs=1e-5), name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sampling", ["shared", "joint", "stepwise"])
def test_responses_with_a_common_prefix_equal_brute_force(sampling, way, monkeypatch):
    as_a_gpu(monkeypatch, way)
    model = tiny_model("llama")
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=1))
    exact = copy.deepcopy(model).double()
    responses = grouped_responses(1)
    for response, got in zip(responses, score(model, responses, posterior, sampling, batch_tokens=60), strict=True):
        prompt, ids = response.prompt_ids, response.response_ids
        if sampling == "stepwise":
            draws = [
                oracle.stepwise_log_probabilities(
                    model,
                    posterior,
                    m,
                    prompt,
                    ids,
                    lambda matrix, step, x, m=m: (
                        0.3 * torch.outer(x / x.norm(), posterior.step_noise(matrix, m, step, 1)[0].double())
                    ),
                )
                for m in range(2)
            ]
        else:
            draws = [oracle.log_probabilities(oracle.fixed_draw(model, posterior, m), prompt, ids) for m in range(2)]
        base = oracle.log_probabilities(exact, prompt, ids)
        for name, values in oracle.reference_quantities(base, draws, ids, joint=sampling == "joint").items():
            assert np.abs(got[name] - values).max() < 1e-5, name


def test_a_common_prefix_is_computed_once_per_draw():
    model = tiny_model("llama")
    parts_of(model)  # loading has looked at it
    computed = []
    model.get_input_embeddings().register_forward_hook(lambda module, inputs, output: computed.append(inputs[0].shape))
    responses = grouped_responses()
    distinct = {
        (response.prompt_ids[0], tuple(zip(ids[: place + 1], steps[: place + 1], strict=True)))
        for response in responses
        for ids, steps in [(response.input_ids.tolist(), response.steps(response.length).tolist())]
        for place in range(response.length)
    }
    score(model, responses, build_posterior(model))
    assert computed == [(3, len(distinct))]
    computed.clear()
    score(model, responses, build_posterior(model), batch_tokens=60)
    assert len(computed) > 3
    # the header and the first question are computed ahead; what is computed again are the last positions of prompts
    assert sum(rows * length for rows, length in computed) <= 3 * (len(distinct) + len(computed))


@pytest.mark.parametrize("sampling", ["shared", "stepwise"])
def test_what_is_wanted_does_not_change_the_numbers_to_the_last_bit(sampling):
    model = tiny_model("llama")
    responses = grouped_responses()
    draws = Draws(build_posterior(model, PosteriorSettings(sigma=0.3)), 2)
    for budget in (30, 60, 100, 10**6):
        everything = dict(Scorer(model, draws, sampling=sampling, batch_tokens=budget).score(responses))
        for index in range(len(responses)):
            wanted = [place == index for place in range(len(responses))]
            ((found, alone),) = Scorer(model, draws, sampling=sampling, batch_tokens=budget).score(responses, wanted)
            assert found == index
            assert all(np.array_equal(alone[name], everything[index][name]) for name in alone)


sequences_of_few_letters = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)


def walk(stretches):
    for stretch in stretches:
        yield stretch
        yield from walk(stretch.parts)


@given(sequences_of_few_letters)
def test_every_sequence_is_spelt_by_its_stretches(sequences):
    numbers = {index: np.array(sequence, dtype=np.int64) for index, sequence in enumerate(sequences)}
    stretches = divide(numbers)
    layout = Layout(stretches)
    for index, sequence in enumerate(sequences):
        where = layout.where(index)
        spelt = [sequences[layout.sequences[place]][layout.positions[place]] for place in where]
        assert spelt == sequence
        assert layout.positions[where].tolist() == list(range(len(sequence)))
    prefixes = {tuple(s[: n + 1]) for s in sequences for n in range(len(s))}
    assert layout.length == len(prefixes) == sum(stretch.positions for stretch in stretches)
    for stretch in walk(stretches):
        assert sorted(itertools.chain(*(part.members for part in stretch.parts))) == sorted(
            stretch.members if stretch.parts else ()
        )


@given(sequences_of_few_letters, st.integers(1, 40))
def test_batches_hold_every_sequence_once_and_what_they_compute_ahead_is_common(sequences, budget):
    numbers = {index: np.array(sequence, dtype=np.int64) for index, sequence in enumerate(sequences)}
    latest = {index: len(sequence) - 1 for index, sequence in enumerate(sequences)}
    batches = list(cut_batches(divide(numbers), lambda: budget, latest))
    assert sorted(itertools.chain(*(batch.indices for batch in batches))) == list(range(len(sequences)))
    for batch in batches:
        assert list(batch.ahead) == sorted(set(batch.ahead))
        for end in batch.ahead:
            assert end < min(len(sequences[index]) for index in batch.indices)
            assert len({tuple(sequences[index][:end]) for index in batch.indices}) == 1
        first = batch.ahead[-1] if batch.ahead else 0
        own = {tuple(sequences[i][: n + 1]) for i in batch.indices for n in range(first, len(sequences[i]))}
        assert len(batch.indices) == 1 or len(own) <= budget


@given(sequences_of_few_letters, st.integers(1, 40))
def test_in_reading_order_the_earliest_sequence_comes_first_and_no_prefix_is_left_and_come_back_to(sequences, budget):
    numbers = {index: np.array(sequence, dtype=np.int64) for index, sequence in enumerate(sequences)}
    latest = {index: len(sequence) - 1 for index, sequence in enumerate(sequences)}
    batches = list(cut_batches(divide(numbers), lambda: budget, latest))
    ordered = in_reading_order(batches, dict(enumerate(sequences)))
    assert sorted(map(repr, ordered)) == sorted(map(repr, batches))
    assert 0 in ordered[0].indices or not sequences
    paths = [[tuple(sequences[batch.indices[0]][:end]) for end in batch.ahead] for batch in ordered]
    for prefix in {prefix for path in paths for prefix in path}:
        where = [place for place, path in enumerate(paths) if prefix in path]
        assert where == list(range(where[0], where[-1] + 1))
    if not any(paths):
        earliest = [min(batch.indices) for batch in ordered]
        assert earliest == sorted(earliest)


def plain_attention(query, key, value, seen, scale):
    groups = query.shape[1] // key.shape[1]
    key, value = (states.repeat_interleave(groups, dim=1).double() for states in (key, value))
    products = (query.double() @ key.transpose(-1, -2) * scale).masked_fill(~seen, -torch.inf)
    return products.softmax(-1) @ value, products.logsumexp(-1)


def fused_and_exact(dtype, causal):
    """Outputs and logarithms of ``attend``, and those of float64."""
    generator = torch.Generator().manual_seed(0)
    for heads, key_heads, n in ((4, 2, 1), (3, 3, 33), (9, 3, 130)):
        m = n if causal else 47
        query = torch.randn(2, heads, n, 16, generator=generator).to(dtype)
        key, value = torch.randn(2, 2, key_heads, m, 16, generator=generator).to(dtype)
        seen = torch.ones(n, m, dtype=torch.bool)
        yield (
            attend(query, key, value, causal=causal, scale=0.3),
            plain_attention(query, key, value, seen.tril() if causal else seen, 0.3),
        )


def packed_exact_and_masked(dtype, device="cpu"):
    """Outputs of ``PackedAttention``, those of float64, and those of one product with a mask."""
    numbers = {index: response.identity() for index, response in enumerate(grouped_responses())}
    whole, own = Layout(divide(numbers)), Layout(divide({i: numbers[i] for i in range(9)}, 9))
    generator = torch.Generator().manual_seed(0)
    for layout, before in ((whole, 0), (own, 9)):
        seen = torch.zeros(layout.length, before + layout.length, dtype=torch.bool)
        seen[:, :before] = True
        for index in set(layout.sequences.tolist()) | {2, 5}:
            where = torch.from_numpy(layout.where(index))
            for n, place in enumerate(where):
                seen[place, before + where[: n + 1]] = True
        query = torch.randn(3, 4, layout.length, 16, generator=generator).to(device, dtype)
        key, value = torch.randn(2, 3, 2, before + layout.length, 16, generator=generator).to(device, dtype)
        seen, module = seen.to(device), torch.nn.Identity()
        cuts = [(0, 4), (4, 9)] if before else []
        ahead = [{module: (key[:, :, a:b], value[:, :, a:b])} for a, b in cuts]
        attention = PackedAttention(layout, [Ahead(0, layout.length, ahead)] if ahead else [])
        got, _ = attention(module, query, key[:, :, before:], value[:, :, before:], None, scaling=0.25)
        expected, _ = plain_attention(query, key, value, seen, 0.25)
        masked = torch.nn.functional.scaled_dot_product_attention(
            query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1), attn_mask=seen, scale=0.25
        )
        yield got.transpose(1, 2), expected, masked


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("groups", [packing._GROUPS_ON_CPU, False], ids=["as here", "older PyTorch"])
def test_fused_attention_returns_the_logarithm_of_its_denominator(dtype, causal, groups, monkeypatch):
    monkeypatch.setattr(packing, "_GROUPS_ON_CPU", groups)
    bound = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    for (output, logarithm), (expected, expected_logarithm) in fused_and_exact(dtype, causal):
        assert (output - expected).abs().max() < bound
        assert (logarithm - expected_logarithm).abs().max() < min(bound, 1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS)
def test_packed_attention_equals_attention_with_a_mask(dtype, way, monkeypatch):
    """As a CPU and as a GPU divide the work; low precision errs no more than one masked product."""
    calls = as_a_gpu(monkeypatch, way)
    for got, expected, masked in packed_exact_and_masked(dtype):
        error, masked_error = (got - expected).abs(), (masked - expected).abs()
        assert error.max() <= 1.5 * masked_error.max() + 1e-12
        assert error.mean() <= 1.1 * masked_error.mean() + 1e-13
    assert any(isinstance(keys, varlen.Pages) for *_, keys, _ in calls) == (way == "by pages")


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("most", [1 << 29, 40, 1])
def test_keys_are_copied_as_many_at_a_time_as_memory_allows(most, way, monkeypatch):
    """At most so many positions of a layer in each call of a GPU's kernel, or those of one path."""
    calls = as_a_gpu(monkeypatch, way)
    monkeypatch.setattr(packing, "_COPIED_BYTES", most * 2 * 2 * 16 * 8)  # keys and values of two heads in float64
    for got, expected, _ in packed_exact_and_masked(torch.float64):
        assert (got - expected).abs().max() < 1e-12
        for _, key, _, queries, _, _ in calls:
            assert key[..., 0, 0].numel() <= most or len(queries.places) == 2
        if most > 1000:
            assert len(calls) == 1
        if most == 1:
            assert all(len(queries.places) == 2 for _, _, _, queries, _, _ in calls)
        calls.clear()


@pytest.mark.parametrize("name", sorted(packing.FAMILIES))
def test_every_family_that_is_packed_may_be(name, monkeypatch):
    """A position of a packed row sees nothing of other responses, and its own place."""
    import transformers

    sizes = SIZES | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4096}
    if name == "gpt2":
        model = tiny_model("gpt2")
    else:
        config = transformers.AutoConfig.for_model(name, **sizes)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                noise = 0.3 * torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise if parameter.ndim > 1 else 1 + noise)
    assert longest_packed(model) != 0
    responses = grouped_responses()
    got = dict(Scorer(model, None, batch_tokens=20).score(responses))
    unpacked(monkeypatch)
    for index, expected in Scorer(model, None).score(responses):
        for values, others in zip(got[index].values(), expected.values(), strict=True):
            assert values == pytest.approx(others, abs=1e-4, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("size", [16, 128, 256])
def test_a_kernel_is_tried_before_it_counts(dtype, size, monkeypatch):
    """One that has the first query, not the last one, see as many keys as it is old is found out."""

    def from_the_top(query, key, value, queries, keys, scale):
        parts = (
            states.split(ends.places.diff().tolist()) for states, ends in ((query, queries), (key, keys), (value, keys))
        )
        return torch.cat(
            [
                torch.nn.functional.scaled_dot_product_attention(
                    *(part.transpose(0, 1)[None] for part in one), is_causal=True, scale=scale, enable_gqa=True
                )[0].transpose(0, 1)
                for one in zip(*parts, strict=True)
            ]
        )

    def broken(*_):
        raise RuntimeError("no kernel image is available\nmore")

    def exhausted(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    form = torch.device("cpu"), dtype, size
    for kernel, is_right, why in (
        (attend_as_documented, True, None),
        (from_the_top, False, "wrong here"),
        (broken, False, "fails (no kernel image is available)"),
    ):
        monkeypatch.setattr(varlen, "_obstacles", {})
        monkeypatch.setattr(varlen, "attend_within", kernel)
        assert varlen.has_varlen(*form) == is_right
        assert varlen.obstacle() is None if why is None else varlen.obstacle().endswith(why)
        monkeypatch.setattr(varlen, "attend_within", broken)
        assert varlen.has_varlen(*form) == is_right, "it is tried once"
    monkeypatch.setattr(varlen, "_obstacles", {})
    monkeypatch.setattr(varlen, "attend_within", exhausted)
    with pytest.raises(torch.OutOfMemoryError):
        varlen.has_varlen(*form)


@pytest.mark.parametrize("size", [16, 128])
def test_a_kernel_for_pages_is_tried_before_it_counts(size, monkeypatch):
    """One that takes pages in the order in which they stand is found out."""
    form = torch.device("cpu"), torch.bfloat16, size
    assert not varlen.has_pages(*form)
    assert varlen.obstacle_to_pages() is None, "nobody has asked for it where there is no flash attention"
    monkeypatch.setattr(varlen, "has_flash", lambda *_: True)

    def in_order(*of, block_table, **more):
        return varlen_as_documented(*of, block_table=block_table.flip(0), **more)

    def without_pages(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale):
        raise AssertionError

    in_order.__signature__ = inspect.signature(varlen_as_documented)
    for kernel, why in (
        (varlen_as_documented, None),
        (in_order, "attention to pages is wrong here"),
        (without_pages, f"PyTorch {torch.__version__} has no attention to pages"),
    ):
        monkeypatch.setattr(varlen, "_obstacles_to_pages", {})
        monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", kernel)
        assert varlen.has_pages(*form) == (why is None)
        assert varlen.obstacle_to_pages() == why


def test_what_cannot_be_packed_is_padded(monkeypatch):
    assert longest_packed(tiny_model("gemma2")) == 0, "attention logits are capped"
    assert longest_packed(tiny_model("mistral", sliding_window=20)) == 20
    assert longest_packed(tiny_model("llama")) is None
    assert set(FAMILIES) == {*PACKED, "gemma2"}
    scaled = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0, "original_max_position_embeddings": 64}
    assert longest_packed(tiny_model("llama", rope_parameters=scaled)) == 64
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    scaled = {"rope_type": "longrope", "rope_theta": 10_000.0, **factors}
    model = tiny_model("phi3", rope_parameters=scaled, original_max_position_embeddings=96)
    assert longest_packed(model) == 96, "from there on it takes the other factors"
    model = tiny_model("mistral", sliding_window=15)
    responses = grouped_responses()
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3))
    assert {response.length > 15 for response in responses} == {True, False}
    got = score(model, responses, posterior)
    unpacked(monkeypatch)
    for mine, theirs in zip(got, score(model, responses, posterior), strict=True):
        assert mine["eu"] == pytest.approx(theirs["eu"], abs=1e-5)


@pytest.mark.parametrize("sampling", ["shared", "stepwise"])
def test_a_window_takes_over_what_the_one_before_it_computed_ahead(sampling):
    """And gets the numbers that it has alone, to the last bit."""
    model = tiny_model("llama")
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3))
    rng = np.random.default_rng(1)
    header, other = rng.integers(0, 256, (2, 30)).tolist()

    def window(header, size=6):
        return [TokenizedResponse(header + rng.integers(0, 256, 4).tolist(), [*range(5, 13)]) for _ in range(size)]

    windows = [window(header), window(header), window(header[:23] + other[23:]), window(other)]
    scorer = Scorer(model, Draws(posterior, 2), sampling=sampling, batch_tokens=3 * 40)
    computed = []
    model.get_input_embeddings().register_forward_hook(
        lambda module, inputs, output: computed.append(inputs[0].numel())
    )
    for responses, ahead in zip(windows, (30, 0, 30 - 20, 30), strict=True):  # pieces end at 5, 10, …
        computed.clear()
        results = dict(scorer.score(responses))
        assert sum(computed) == 3 * (ahead + 6 * 11)
        alone = dict(Scorer(model, Draws(posterior, 2), sampling=sampling, batch_tokens=3 * 40).score(responses))
        for index, expected in alone.items():
            for name, values in expected.items():
                assert np.array_equal(results[index][name], values)


def test_too_little_memory_frees_what_was_computed_ahead(monkeypatch):
    """And the halves compute it again: numbers stay as they are."""
    model = tiny_model("llama")
    header = np.random.default_rng(2).integers(0, 256, 30).tolist()
    responses = [TokenizedResponse([*header, 7 + n], [*range(20 + n, 28 + n)]) for n in range(8)]
    scorer = Scorer(model, None, batch_tokens=40)
    expected = dict(scorer.score(responses))
    whole_batch, held = Scorer._score_batch, []

    def small_machine(self, batch, *others):
        held.append(len(self._ahead))
        if len(held) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole_batch(self, batch, *others)

    monkeypatch.setattr(Scorer, "_score_batch", small_machine)
    got = dict(scorer.score(responses))
    assert held[1] > 0
    assert held[2] == 0
    assert got.keys() == expected.keys()
    for index, quantities in expected.items():
        assert got[index]["logprob"] == pytest.approx(quantities["logprob"], abs=1e-5)


def test_the_model_attends_as_before_afterwards():
    model = tiny_model("llama")
    ids = torch.arange(12)[None]
    before, own = model(ids).logits, model.config._attn_implementation
    score(model, grouped_responses(), build_posterior(model), batch_tokens=40)
    assert model.config._attn_implementation == own
    assert packing._ATTENTION not in packing.ALL_ATTENTION_FUNCTIONS
    assert torch.equal(model(ids).logits, before)
