import functools
import hashlib
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from tests.engine.generation.plain import END, by_whole_passes, last_logits, requests, text_of
from tests.engine.more_families import MORE, more
from tests.tiny import FAMILIES, SIZES, tiny_model
from tokur_cli.engine.generation import decoder as decoder_module
from tokur_cli.engine.generation.cache import KVCache, columns_for
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling, choose_tokens, random_word
from tokur_cli.engine.noise import words
from tokur_cli.engine.scoring.scorer import identity_of
from tokur_cli.records.errors import TokurError

OTHERS = {
    "gemma3-sliding": ("Gemma3TextConfig", FAMILIES["gemma3"][1] | {"sliding_window": 8}),
    "mistral-sliding": ("MistralConfig", FAMILIES["mistral"][1] | {"sliding_window": 6}),
    "gpt_neo": (
        "GPTNeoConfig",
        {"vocab_size": 259, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8}
        | {"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 60},
    ),
    "mpt": ("MptConfig", {"vocab_size": 259, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 60}),
    "falcon": ("FalconConfig", SIZES | {"multi_query": False, "new_decoder_architecture": False}),
}


def decode(model, asked, sampling=Sampling(), **options):  # noqa: B008 (immutable)
    settings = {"end_ids": END, "max_new_tokens": 30, "max_rows": 4, **options}
    decoder = Decoder(model, text_of, sampling, **settings)
    return {(r.index, r.sample): r for r in decoder.serve(asked)}


GREEDY, SAMPLED = Sampling(), Sampling(temperature=1.0, top_p=0.9, seed=5)


@pytest.mark.parametrize(
    ("family", "sampling"), [("llama", GREEDY), *((family, SAMPLED) for family in (*FAMILIES, *OTHERS))]
)
def test_decoder_responses_are_those_of_whole_forward_passes(family, sampling, monkeypatch):
    if family in OTHERS:
        monkeypatch.setitem(FAMILIES, family, OTHERS[family])
    model = tiny_model(family)
    asked = requests(9)
    got = decode(model, asked, sampling, context_length=60)
    assert len(got) == 9
    by_hand = by_whole_passes(model, [(request, 0) for request in asked], sampling)
    for request, expected in zip(asked, by_hand, strict=True):
        response = got[request.index, 0]
        assert response.token_ids == expected
        assert response.finish_reason == ("stop" if expected[-1] in END else "length")
        assert response.text == text_of(expected[:-1] if expected[-1] in END else expected)


@pytest.mark.parametrize("family", ["falcon_h1", "mamba"])
def test_kept_bytes_are_what_transformers_keeps_when_it_generates(family):
    model = more(family)
    of_token, of_text = KVCache(model, None).kept_bytes
    with torch.no_grad():
        outputs = model(torch.tensor([[7] * 20]), use_cache=True)
    kept = outputs.get("cache", outputs.get("past_key_values", outputs.get("cache_params")))
    values = [value for layer in kept.layers for value in vars(layer).values()]
    values += [each for value in values if isinstance(value, dict) for each in value.values()]
    assert sum(x.nbytes for x in values if isinstance(x, torch.Tensor) and x.dim()) == 20 * of_token + of_text
    assert of_text > 0


@pytest.mark.parametrize("family", ["llama", "jamba", "falcon_h1", "mamba"])
def test_cache_rows_move_join_and_leave(family):
    """Prompts that begin alike, some much shorter than others, rows that join later and leave early."""
    model = more(family) if family in MORE else tiny_model(family)
    cache = KVCache(model, None)
    generator = torch.Generator().manual_seed(1)
    header = list(range(40, 90))
    rows = []

    def check(texts, logits):
        torch.testing.assert_close(logits, last_logits(model, texts), rtol=1e-4, atol=1e-4)

    def join(prompts, copies):
        texts, got = cache.prefill([identity_of(prompt, []) for prompt in prompts])
        cache.admit(texts, copies)
        rows.extend(list(prompt) for prompt, count in zip(prompts, copies, strict=True) for _ in range(count))
        check(prompts, got[0])

    def step():
        ids = torch.randint(6, 256, (len(rows),), generator=generator).tolist()
        got = cache.step(ids, [0] * len(ids))[0]
        for row, token in zip(rows, ids, strict=True):
            row.append(token)
        check(rows, got)

    def select(index):
        cache.select_rows(index)
        rows[:] = [list(rows[i]) for i in index]

    with torch.inference_mode():
        join([[*header, 7, 8, 9], header, [5]], [2, 3, 2])
        step()
        select([1, 0, 3, 2, 4, 5, 6])
        step()
        taken = cache.take(3), list(rows[3])
        join([[9] * 20, [8] * 19], [1, 2])
        step()
        select([2, 3, 9, 4, 7, 6, 8])
        cache.admit([taken[0]], [2])
        rows.extend(list(taken[1]) for _ in range(2))
        for _ in range(70):  # more columns than the cache has to spare
            step()
        select([6, 0, 8])
        step()
        join([[*header, 9], [*header, 3, 4, 5], [*header, 9, 9]], [3, 12, 1])
        step()


def test_decoder_response_depends_on_seed_key_and_sample_alone():
    decoded = functools.partial(decode, tiny_model(), sampling=Sampling(temperature=1.0, seed=3), max_new_tokens=9)
    asked = requests(8, samples=range(4))
    expected = decoded(asked, max_rows=32)
    variants = [
        decoded(asked, max_rows=1),
        decoded(asked, max_rows=3),
        decoded(asked[::-1], max_rows=7),
        decoded([DecodingRequest(r.index, r.key, r.prompt_ids, [3, 9]) for r in asked]),
        decoded(asked, max_rows=32, cache_bytes=200_000),
    ]
    for got in variants:
        shared = got.keys() & expected.keys()
        assert len(shared) >= 8
        assert all(got[key].token_ids == expected[key].token_ids for key in shared)
    assert len({tuple(response.token_ids) for response in expected.values()}) > 16


def scripted(text, stop, decode, monkeypatch):
    """The response of a model that would go on with these bytes for ever."""
    script = iter(text.encode() + b"x" * 40)
    monkeypatch.setattr(decoder_module, "choose_tokens", lambda *_: torch.tensor([next(script)]))
    decoder = Decoder(tiny_model("llama"), decode, Sampling(), end_ids=END, max_new_tokens=60, stop=(stop,))
    (response,) = decoder.serve([DecodingRequest(0, "q", [9], [0])])
    return response


def of_bytes(ids):
    return bytes(ids).decode(errors="replace")


@pytest.mark.parametrize(
    ("text", "stop", "decode", "before"),
    [
        ("Human: why?", "Human:", of_bytes, ""),
        ("so 🙂🙂🙂🙂🙂🙂 and", "🙂🙂🙂🙂🙂🙂", of_bytes, "so "),  # 24 tokens, one a byte
        # a tokenizer that drops the space in front of the first word
        ("1 2 3 end", " 3", lambda ids: of_bytes(ids).removeprefix(" "), "1 2"),
    ],
)
def test_decoder_ends_a_response_where_its_stop_string_is_complete(text, stop, decode, before, monkeypatch):
    response = scripted(text, stop, decode, monkeypatch)
    assert (response.finish_reason, response.text) == ("stop_string", before)
    assert bytes(response.token_ids).decode() == before + stop


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_decoder_numbers_that_are_not_finite_are_an_error_and_the_others_go_on(sampling):
    model = tiny_model("llama")
    asked = requests(6)
    asked[3] = replace(asked[3], prompt_ids=[257, *asked[3].prompt_ids])
    alone = decode(model, asked, sampling)
    assert not any(257 in response.token_ids for response in alone.values())
    model.get_input_embeddings().register_forward_hook(
        lambda module, given, out: out.masked_fill((given[0] == 257)[..., None], torch.nan)
    )
    decoder = Decoder(model, text_of, sampling, end_ids=END, max_new_tokens=30, max_rows=4)
    responses, errors = {}, []
    for result in decoder.serve(asked):
        if isinstance(result, tuple):
            errors.append((result[0].index, str(result[1])))
        else:
            responses[result.index, result.sample] = result
    count = len(asked[3].prompt_ids)
    assert errors == [(3, f"the model's numbers after {count} tokens are not finite: try --dtype float32")]
    assert {key: r.token_ids for key, r in responses.items()} == {
        key: r.token_ids for key, r in alone.items() if key[0] != 3
    }


@pytest.mark.parametrize("samples", [[0], range(5)])
def test_decoder_keeps_within_the_memory_for_keys_and_values(samples, monkeypatch):
    """Two layers, keys and values, two heads of eight numbers of four bytes: 256 bytes a token."""
    asked = [DecodingRequest(index, f"q{index}", range(10, 20), samples) for index in range(4)]
    response = columns_for(10 + 6) * 256
    for rows, room in ((3, 3 * response), (2, 3 * response - 1), (1, response), (1, 1)):
        seen = []

        def choose(logits, *_, seen=seen):
            seen.append(len(logits))
            return logits.argmax(-1)

        monkeypatch.setattr(decoder_module, "choose_tokens", choose)
        options = {"end_ids": frozenset(), "max_new_tokens": 6, "max_rows": 8, "cache_bytes": room}
        assert len(decode(tiny_model("llama"), asked, **options)) == 4 * len(samples)
        assert max(seen) == rows


def test_cache_holds_no_more_than_the_batch_size_counts():
    """Also where responses go on when they are nearly complete."""
    cache = KVCache(tiny_model("llama"), None)
    with torch.inference_mode():
        for so_far in (500, 565):
            cache.reserve(8, 570)
            cache.admit(cache.prefill([identity_of([7] * so_far, [])])[0], [8])
            for _ in range(570 - so_far):
                cache.step([7] * 8, [0] * 8)
            held = sum(storage.nbytes for layer in cache._cache.layers for storage in layer.storage)
            assert held == 8 * 570 * 256 < 8 * columns_for(570) * 256
            cache.select_rows([])


def test_decoder_responses_that_ended_at_the_contexts_end_may_run_along():
    """Beyond it there is no position, and the others are what they are without them; until all columns are full."""
    model = tiny_model("gpt2", n_positions=140)
    long, short = DecodingRequest(0, "q", [9] * 139, [0]), DecodingRequest(1, "r", [9] * 5, range(69))
    options = {"end_ids": frozenset(), "max_new_tokens": 60, "context_length": 140, "max_rows": 70}
    got = decode(model, [long, short], Sampling(temperature=1.0), **options)
    assert len(got[0, 0].token_ids) == 1
    alone = decode(model, [short], Sampling(temperature=1.0), **options)
    assert {key: got[key].token_ids for key in alone} == {key: alone[key].token_ids for key in alone}
    assert {len(response.token_ids) for response in alone.values()} == {60}


@functools.cache
def in_steps(step):
    """Requests, and the responses to them where there is memory."""
    asked = [replace(request, step=step) for request in requests(12)]
    options = {"end_ids": frozenset(range(40)), "step_tokens": 2}  # so that responses end at different times
    got = decode(tiny_model("llama"), asked, SAMPLED, **options)
    return asked, options, {key: one.token_ids for key, one in got.items()}


@pytest.mark.parametrize("failing", range(1, 5))
@pytest.mark.parametrize("operation", ["prefill", "admit", "select_rows", "step", "take"])
def test_decoder_loses_nothing_for_want_of_memory_at_any_moment(operation, failing, monkeypatch):
    asked, options, expected = in_steps(1 if operation == "take" else None)
    whole, calls = getattr(KVCache, operation), itertools.count(1)

    def small_machine(*arguments, **options):
        if next(calls) == failing:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole(*arguments, **options)

    monkeypatch.setattr(KVCache, operation, small_machine)
    got = decode(tiny_model("llama"), asked, SAMPLED, **options)
    assert {key: one.token_ids for key, one in got.items()} == expected
    assert next(calls) > failing


def test_decoder_prompt_that_never_fits_is_an_error_of_its_own(monkeypatch):
    def no_room(self, asked):
        if any(request.index == 1 for request in asked):
            raise MemoryError
        return whole(self, asked)

    whole = Decoder._prefill
    monkeypatch.setattr(Decoder, "_prefill", no_room)
    results = list(Decoder(tiny_model("llama"), text_of, Sampling(), end_ids=END, max_new_tokens=5).serve(requests(4)))
    errors = [result for result in results if isinstance(result, tuple)]
    assert [(request.index, isinstance(error, TokurError)) for request, error in errors] == [(1, True)]
    assert sorted(result.index for result in results if not isinstance(result, tuple)) == [0, 2, 3]


def random_words(count):
    return words(("test",), 0, count).view("int64").tolist()


def counts(logits, sampling, draws=20_000):
    """How often each token is chosen with as many random words: (V,)."""
    chosen = choose_tokens(logits.expand(draws, -1), sampling, random_words(draws))
    return torch.bincount(chosen, minlength=logits.shape[-1]).numpy()


def assert_distributed(found, p):
    """Assert that counts (V,) are those of draws from p (V,), by Pearson's test; rare tokens are counted together."""
    assert not found[p == 0].any()
    expected = p / p.sum() * found.sum()
    often = expected >= 5
    found, expected = (np.append(v[often], v[~often].sum()) for v in (found, expected))
    some = expected > 0
    assert some.sum() == 1 or chisquare(found[some], expected[some]).pvalue > 1e-3


SETTINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=1.5, top_k=5),
    Sampling(temperature=1.0, top_p=0.6),
    Sampling(temperature=0.8, top_p=0.95),
    Sampling(temperature=1.0, min_p=0.2),
    Sampling(temperature=1.2, top_k=40, top_p=0.8, min_p=0.05),
    Sampling(temperature=1.0, top_p=0.0),
    Sampling(temperature=1.0, top_k=4, top_p=0.7),
    Sampling(temperature=1.5, top_p=0.95),  # a nucleus of 181
    Sampling(temperature=50.0, top_p=0.999),  # and of all
]


@pytest.mark.parametrize("sampling", SETTINGS)
def test_choose_tokens_has_the_distribution_of_transformers_logits_processors(sampling):
    import transformers as theirs

    logits = 2 * torch.randn(1, 300, generator=torch.Generator().manual_seed(300))
    warpers = [theirs.TemperatureLogitsWarper(sampling.temperature)]
    warpers += [theirs.TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
    warpers += [theirs.TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
    warpers += [theirs.MinPLogitsWarper(sampling.min_p)] if sampling.min_p else []
    expected = theirs.LogitsProcessorList(warpers)(None, logits.clone()).softmax(-1)[0].double().numpy()
    assert_distributed(counts(logits, sampling), expected)


@pytest.mark.parametrize("size", [17, 5000])
@pytest.mark.parametrize("sampling", [Sampling(), SETTINGS[0], SETTINGS[5]])
def test_choose_tokens_chooses_none_of_numbers_that_are_not_finite(sampling, size):
    logits = torch.randn(5, size, generator=torch.Generator().manual_seed(1))
    random = random_words(5)
    expected = choose_tokens(logits, sampling, random).tolist()
    logits[0, size // 2] = float("nan")
    logits[2] = float("nan")
    logits[3] = float("inf")
    assert choose_tokens(logits, sampling, random).tolist() == [-1, expected[1], -1, -1, expected[4]]


@pytest.mark.parametrize("filters", [{}, {"top_p": 0.9}])
@pytest.mark.parametrize("temperature", [1e-30, 5e-324])
def test_choose_tokens_takes_the_likeliest_at_a_tiny_temperature(filters, temperature, monkeypatch):
    monkeypatch.setattr("tokur_cli.engine.generation.sampling._CPU_ENTRIES", 1)  # row by row
    logits = 20 * torch.randn(4, 300, generator=torch.Generator().manual_seed(2))
    chosen = choose_tokens(logits, Sampling(temperature, **filters), random_words(4))
    assert chosen.tolist() == logits.argmax(-1).tolist()


WORD = 1 << 64


def mixed(bits):
    """SplitMix64's mixing of 64 bits, in Python's whole numbers."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % WORD
    return bits ^ (bits >> 31)


def gumbel(word, place):
    uniform = ((mixed(word % WORD ^ mixed(place % WORD)) >> 12) + 0.5) * 2.0**-52
    return -math.log(-math.log(uniform))


def kept_weights(logits, sampling):
    """Weights of all tokens in float64, by sorting."""
    p = (logits.double() / sampling.temperature).softmax(-1)
    values, ids = p.sort(descending=True, stable=True)
    if sampling.top_k:
        values[:, sampling.top_k :] = 0
        values /= values.sum(-1, keepdim=True)
    keep = (values.cumsum(-1) - values < sampling.top_p) & (values >= sampling.min_p * values[:, :1])
    return torch.zeros_like(p).scatter(-1, ids, torch.where(keep, values, 0))


def first_of_race(weights, word):
    """The group of 256 with the largest log weight + Gumbel number, then the token in it, and by how much they won."""
    groups = [weights[first : first + 256] for first in range(0, len(weights), 256)]
    scores = sorted((math.log(sum(w)) + gumbel(word, -1 - i), i) for i, w in enumerate(groups) if sum(w))
    place = scores[-1][1]
    members = enumerate(groups[place], 256 * place)
    within = sorted((math.log(w) + gumbel(word, token), token) for token, w in members if w)
    leads = [ranked[-1][0] - ranked[-2][0] for ranked in (scores, within) if len(ranked) > 1]
    return within[-1][1], min(leads, default=1)


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(2.0, 50), Sampling(0.9, 0, 0.9), Sampling(1, min_p=0.1)])
@pytest.mark.parametrize("size", [255, 1000, pytest.param(49152, marks=pytest.mark.slow)])
def test_choose_tokens_is_a_race_in_float64_up_to_ties(sampling, size):
    logits = 4 * torch.randn(20, size, generator=torch.Generator().manual_seed(size))
    chosen = choose_tokens(logits, sampling, random_words(20)).tolist()
    for weights, word, token in zip(kept_weights(logits, sampling).tolist(), random_words(20), chosen, strict=True):
        expected, lead = first_of_race(weights, word)
        assert token == expected or lead < 1e-5


def test_choose_tokens_races_with_numbers_that_float32_would_not_tell_apart():
    largest = max(random_words(20_000), key=lambda word: gumbel(word, 0))  # and of word 0 it is the least
    for word, lead, top_p in itertools.product((largest, 0), (1e-4, -1e-4), (1.0, 0.999999)):
        logits = torch.tensor([[0, gumbel(word, 0) - gumbel(word, 1) + lead]])
        assert choose_tokens(logits, Sampling(1.0, top_p=top_p), [word]).tolist() == [int(lead > 0)]


@pytest.mark.parametrize("size", [3, 256, 49152])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_choose_tokens_takes_the_first_of_the_most_likely(size, dtype):
    logits = torch.randn(40, size, generator=torch.Generator().manual_seed(size)).to(dtype)
    largest = logits.amax(-1, keepdim=True)
    first = [row.index(top) for row, (top,) in zip(logits.tolist(), largest.tolist(), strict=True)]
    assert choose_tokens(logits, Sampling(), [0] * 40).tolist() == first


@pytest.mark.parametrize("sampling", [Sampling(1.0, top_k=3), Sampling(1.0, top_p=0.5), Sampling(1.0, top_p=0.0)])
def test_choose_tokens_keeps_equally_likely_ones_together(sampling):
    """bfloat16 makes many of them: an order among them would be another on another device."""
    logits = torch.full((1, 700), -6.0)
    logits[0, [5, 200, 300, 650]] = 2.0 if sampling.top_p else 3.0
    logits[0, 400] = 3.0
    found = counts(logits, sampling, 5000)
    expected = np.zeros(700)
    expected[[5, 200, 300, 400, 650]] = np.exp(logits[0, [5, 200, 300, 400, 650]].double().numpy())
    assert_distributed(found, expected)


@pytest.mark.parametrize(("stream", "step"), [((7, "sample", "q", 2), None), ((7, "particle", "q", 2, 3), 3)])
def test_random_word_is_of_a_stream_of_philox_and_will_stay_so(stream, step):
    key = int.from_bytes(hashlib.sha256(repr(stream).encode()).digest()[:16], "little")
    found = [random_word(7, "q", 2, token, step) % WORD for token in range(12)]
    assert found == np.random.Philox(key=key).random_raw(12).tolist()


def test_random_word_numbers_of_tokens_groups_and_steps_are_independent():
    """Two tokens in a group, two in two groups, and two steps: every pair of outcomes comes with its product."""
    logits = torch.full((1, 600), float("-inf"))
    logits[0, [0, 1, 256, 599]] = 0.0
    numbers = [random_word(0, "q", 0, token) for token in range(16_000)]
    first, second = (choose_tokens(logits.expand(8000, -1), Sampling(1.0), numbers[begin::2]) for begin in (0, 1))
    pairs = torch.bincount(first * 600 + second, minlength=360_000).view(600, 600)
    four = pairs[[0, 1, 256, 599]][:, [0, 1, 256, 599]].flatten().numpy()
    assert four.sum() == 8000
    assert chisquare(four).pvalue > 1e-3
