import itertools
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import varlen
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.engine.more_families import MORE, more
from tests.tiny import FAMILIES, SIZES, tiny_model
from tokur_cli.engine.generation import paged
from tokur_cli.engine.generation.attention import AttentionInC
from tokur_cli.engine.generation.cache import RollingCache, kept_bytes
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.paged import PagedCache
from tokur_cli.engine.generation.sampling import RandomStream, Sampling, choose_tokens
from tokur_cli.records.errors import TokurError

END = frozenset(range(6))
OTHERS = {
    "gemma3-sliding": ("Gemma3TextConfig", FAMILIES["gemma3"][1] | {"sliding_window": 8}),
    "mistral-sliding": ("MistralConfig", FAMILIES["mistral"][1] | {"sliding_window": 6}),
    "bloom": ("BloomConfig", {"vocab_size": 259, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "falcon": ("FalconConfig", SIZES | {"multi_query": False, "new_decoder_architecture": False}),
}


def text_of(ids):
    return "".join(map(chr, ids))


def requests(count=12, samples=(0,), seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 30, (count,), generator=generator).tolist()
    prompts = [torch.randint(6, 256, (size,), generator=generator).tolist() for size in sizes]
    return [DecodingRequest(index, f"q{index}", prompt, samples) for index, prompt in enumerate(prompts)]


def decode(model, asked, sampling=Sampling(), **options):  # noqa: B008 (immutable)
    settings = {"end_ids": END, "max_new_tokens": 30, "max_rows": 4, **options}
    decoder = Decoder(model, text_of, sampling, **settings)
    return {(r.index, r.sample): r for r in decoder.run(asked)}


def one_by_one(model, request, sample, sampling, limit=30, end=END):
    """A response by whole forward passes over the growing text, without any cache."""
    ids, out = list(request.prompt_ids), []
    random = RandomStream(sampling.seed, request.key, sample)
    while len(out) < limit and not (out and out[-1] in end):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[:, -1]
        out.append(int(choose_tokens(logits, sampling, [random.at(len(out))])))
        ids.append(out[-1])
    return out


def test_every_token_is_told_as_it_is_generated():
    told = []
    found = decode(tiny_model("llama"), requests(12, range(2)), Sampling(1.0), told=told.append)
    assert sum(told) == sum(len(response.token_ids) for response in found.values())
    assert max(told) <= 4
    assert len(told) > 30


@pytest.fixture(params=["in C", "by operations"])
def each_way(request, monkeypatch):
    """Attention on a CPU with a compiler, and wherever else."""
    if request.param == "by operations":
        by_operations(monkeypatch)
    return request.param


def by_operations(monkeypatch):
    monkeypatch.setattr(paged, "attention_in_c", lambda query, key_heads: None)


ROLLING = {"gemma2", "gemma3", "gemma3-sliding", "mistral-sliding", "bloom", "falcon"}


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, top_p=0.9, seed=5)])
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_responses_are_those_of_whole_forward_passes(family, sampling, monkeypatch):
    if family in OTHERS:
        monkeypatch.setitem(FAMILIES, family, OTHERS[family])
    model = tiny_model(family)
    asked = requests(9)
    got = decode(model, asked, sampling)
    assert len(got) == 9
    for request in asked:
        expected = one_by_one(model, request, 0, sampling)
        response = got[request.index, 0]
        assert response.token_ids == expected
        assert response.finish_reason == ("stop" if expected[-1] in END else "length")
        assert response.text == text_of(expected[:-1] if expected[-1] in END else expected)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_families_with_windows_or_attention_of_their_own_keep_whole_rows(family, monkeypatch):
    if family in OTHERS:
        monkeypatch.setitem(FAMILIES, family, OTHERS[family])
    decoder = Decoder(tiny_model(family), text_of, Sampling(), end_ids=END, max_new_tokens=1)
    assert type(decoder._cache) is (RollingCache if family in ROLLING else PagedCache)


STATEFUL = ["qwen3_next", "jamba", "falcon_h1", "nemotron_h", "lfm2", "zamba2", "mamba"]


@pytest.mark.parametrize("family", STATEFUL)
def test_states_of_whole_texts_lead_to_the_tokens_of_whole_forward_passes(family):
    """Linear attention, state spaces and convolutions, alone, with attention in other layers, and in the same."""
    model = more(family)
    sampling = Sampling(temperature=1.0, top_p=0.9, seed=5)
    asked = requests(5, range(2))
    got = decode(model, asked, sampling, max_rows=3, max_new_tokens=9)
    assert len(got) == 10
    for request in asked:
        for sample in request.samples:
            assert got[request.index, sample].token_ids == one_by_one(model, request, sample, sampling, limit=9)


@pytest.mark.parametrize("family", STATEFUL)
def test_states_take_what_they_may_and_no_more(family):
    """As much as transformers keeps when it generates."""
    model = more(family)
    of_token, of_text = kept_bytes(model)
    with torch.no_grad():
        outputs = model(torch.tensor([[7] * 20]), use_cache=True)
    kept = outputs.get("cache", outputs.get("past_key_values", outputs.get("cache_params")))
    tensors = [x for layer in kept.layers for value in vars(layer).values() for x in leaves(value)]
    assert sum(tensor.nbytes for tensor in tensors if tensor.dim()) == 20 * of_token + of_text
    assert of_text > 0


def leaves(value):
    """The tensors in a value that may be one, or a dict of some."""
    values = value.values() if isinstance(value, dict) else [value]
    return [x for x in values if isinstance(x, torch.Tensor)]


@pytest.mark.parametrize(
    ("family", "cache_class", "way"),
    [("llama", PagedCache, "in C"), ("llama", PagedCache, "by operations")]
    + [(family, RollingCache, "by operations") for family in ("llama", "jamba", "falcon_h1", "mamba")],
)
def test_rows_of_a_cache_move_join_and_leave(family, cache_class, way, monkeypatch):
    """Prompts that begin alike, some much shorter than others, rows that join later and leave early."""
    if way == "by operations":
        by_operations(monkeypatch)
    model = more(family) if family in MORE else tiny_model(family)
    cache = cache_class(model, None)
    generator = torch.Generator().manual_seed(1)
    header = list(range(40, 90))
    rows = []

    def tokens(count):
        return torch.randint(6, 256, (count,), generator=generator)

    def join(prompts, copies):
        got = cache.join(prompts, copies)
        rows.extend(list(prompt) for prompt, count in zip(prompts, copies, strict=True) for _ in range(count))
        for prompt, logits in zip(prompts, got, strict=True):
            torch.testing.assert_close(logits, model(torch.tensor([prompt])).logits[0, -1], rtol=1e-4, atol=1e-4)

    def step():
        ids = tokens(len(rows))
        got = cache.step(ids)
        for row, token, logits in zip(rows, ids.tolist(), got, strict=True):
            row.append(token)
            torch.testing.assert_close(logits, model(torch.tensor([row])).logits[0, -1], rtol=1e-4, atol=1e-4)

    def gather(index):
        cache.gather(index)
        rows[:] = [list(rows[i]) for i in index]

    with torch.inference_mode():
        join([[*header, 7, 8, 9], header, [5]], [2, 3, 2])
        step()
        gather([1, 0, 3, 2, 4, 5, 6])
        step()
        join([[9] * 20, [8] * 19], [1, 2])
        step()
        gather([2, 3, 9, 4, 7, 6, 8])
        assert len(rows) == 7
        for _ in range(70):  # more columns than any cache has to spare
            step()
        gather([6, 0])
        step()
        join([[*header, 9], [3] * 16], [3, 20])  # full pages too
        step()
        step()


def test_responses_have_the_full_pages_of_their_prompt_in_common_and_give_pages_back(monkeypatch):
    """Pages of 16 columns: of 40 tokens two, and one a response for the rest and what it writes."""
    cache = PagedCache(tiny_model("llama"), None)

    def in_use():
        return len(set(cache._table.flat) - {0})

    with torch.inference_mode():
        cache.join([[7] * 40, [9] * 16], [3, 2])
        assert in_use() == 2 + 3 + 1
        cache.step(torch.tensor([20] * 5))  # the second prompt's page is full
        assert in_use() == 2 + 3 + 1 + 2
        assert {len(set(cache._table[:3, place])) for place in (0, 1)} == {1}
        cache.gather([1, 3])
        assert in_use() == 2 + 1 + 1 + 1
        cache.gather([1])
        assert in_use() == 1 + 1
        room = len(next(iter(cache._pages.values()))[0])
        for _ in range(8):  # what has been given back is enough for those that come
            cache.join([[7] * 40], [2])
            cache.gather([0])
        assert len(next(iter(cache._pages.values()))[0]) == room


class Recorded(TorchDispatchMode):
    """Records operations, and plays them again on the same tensors as a CUDA graph does: what Python decided stays."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        self.calls.append((function, arguments, options or {}, result))
        return result

    def play(self):
        for function, arguments, options, result in self.calls:
            again = function(*arguments, **options)
            for before, now in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(now, torch.Tensor) and now.data_ptr() != before.data_ptr():
                    before.copy_(now)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_step_asks_for_the_same_as_the_one_before_it(family, monkeypatch):
    """Ready for CUDA graphs: recorded once, its operations give the following steps too, until a page is full."""
    by_operations(monkeypatch)
    monkeypatch.setattr(paged, "_WIDTH", 64)
    model = tiny_model(family)
    caches = [PagedCache(model, 40) for _ in range(2)]  # the longest response comes to the model's last position
    tokens = torch.randint(6, 256, (31, 6), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        for cache in caches:
            cache.join([[7] * 20 + [8], [9] * 13, [5] * 4], [2, 3, 1])
            cache.step(tokens[0])
        ids = tokens[1].clone()
        with Recorded() as step:
            logits = caches[0].step(ids)
        torch.testing.assert_close(logits, caches[1].step(tokens[1]), rtol=0, atol=0)
        for following in tokens[2:]:
            ids.copy_(following)
            step.play()
            torch.testing.assert_close(logits, caches[1].step(following), rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("each_way")
def test_long_responses_are_those_of_whole_forward_passes():
    """Longer than the columns that the cache has to spare, twice."""
    model, sampling = tiny_model("llama"), Sampling(temperature=1.0, seed=2)
    (request,) = requests(1)
    got = decode(model, [request], sampling, end_ids=frozenset(), max_new_tokens=140)
    assert got[0, 0].token_ids == one_by_one(model, request, 0, sampling, limit=140, end=())


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("way", ["in C", "partly in C", "by operations"])
def test_many_samples_of_long_prompts_are_those_of_whole_forward_passes(family, way, monkeypatch):
    """As many as to make products of matrices for the prompts pay."""
    asked = []
    attend = AttentionInC.__call__

    def noted(self, *arguments):
        asked.append(len(arguments) == 7)
        return attend(self, *arguments)

    monkeypatch.setattr(AttentionInC, "__call__", noted)
    monkeypatch.setattr(paged, "_LONG", 16 if way == "partly in C" else 256)
    if way == "by operations":
        by_operations(monkeypatch)
    model, sampling = tiny_model(family), Sampling(temperature=1.0, seed=4)
    prompts = [[7, 30, 99] * 12, [50, 60] * 9, [8] * 18]
    requests = [
        DecodingRequest(index, str(index), prompt, range(samples))
        for index, (prompt, samples) in enumerate(zip(prompts, (20, 16, 7), strict=True))
    ]
    got = decode(model, requests, sampling, max_rows=43, max_new_tokens=40)
    for request in requests:
        for sample in request.samples[::6]:
            expected = one_by_one(model, request, sample, sampling, limit=40)
            assert got[request.index, sample].token_ids == expected
    assert set(asked) == {"in C": {False}, "partly in C": {False, True}, "by operations": set()}[way]


@pytest.mark.usefixtures("each_way")
def test_a_response_depends_on_neither_batch_nor_order_nor_number_of_samples():
    model = tiny_model("llama")
    sampling = Sampling(temperature=1.0, seed=3)
    asked = requests(8, samples=range(4))
    expected = decode(model, asked, sampling, max_rows=32)
    variants = [
        decode(model, asked, sampling, max_rows=1),
        decode(model, asked, sampling, max_rows=3),
        decode(model, asked[::-1], sampling, max_rows=7, prefill_tokens=40),
        decode(model, [DecodingRequest(r.index, r.key, r.prompt_ids, [3, 9]) for r in asked], sampling),
        decode(model, asked, sampling, max_rows=32, cache_bytes=200_000),
    ]
    for got in variants:
        shared = got.keys() & expected.keys()
        assert len(shared) >= 8
        assert all(got[key].token_ids == expected[key].token_ids for key in shared)
    assert len({tuple(response.token_ids) for response in expected.values()}) > 16


def test_stop_strings_cut_the_text_and_keep_the_ids():
    model = tiny_model("llama")
    asked = requests(6)
    free = decode(model, asked)
    key = max(free, key=lambda key: len(free[key].token_ids))
    stop = free[key].text[10:13]
    cut = decode(model, asked, stop=(stop, "never seen"))[key]
    first = free[key].text.find(stop)
    assert cut.finish_reason == "stop_string"
    assert cut.text == free[key].text[:first]
    assert cut.token_ids == free[key].token_ids[: first + 3]


def scripted(text, stop, decode):
    """The response of a model that would go on with these bytes for ever."""
    script = iter(text.encode() + b"x" * 40)
    decoder = Decoder(
        tiny_model("llama"), decode, Sampling(), end_ids=END, max_new_tokens=60, stop=(stop,),
        choose=lambda logits, *_: torch.tensor([next(script)]),
    )  # fmt: skip
    (response,) = decoder.run([DecodingRequest(0, "q", [9], [0])])
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
def test_a_stop_string_ends_the_response_where_it_is_complete(text, stop, decode, before):
    response = scripted(text, stop, decode)
    assert (response.finish_reason, response.text) == ("stop_string", before)
    assert bytes(response.token_ids).decode() == before + stop


def test_an_end_token_that_is_not_special_is_none_of_the_text():
    script = iter(b"so it ends\x05")
    decoder = Decoder(
        tiny_model("llama"), of_bytes, Sampling(), end_ids=END, max_new_tokens=60,
        choose=lambda logits, *_: torch.tensor([next(script)]),
    )  # fmt: skip
    (response,) = decoder.run([DecodingRequest(0, "q", [9], [0])])
    assert (response.finish_reason, response.text) == ("stop", "so it ends")
    assert bytes(response.token_ids) == b"so it ends\x05"


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, top_p=0.9, seed=5)])
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_response_of_which_numbers_are_not_finite_is_an_error_and_the_others_go_on(family, sampling):
    model = tiny_model(family)
    asked = requests(6)
    asked[3] = replace(asked[3], prompt_ids=[257, *asked[3].prompt_ids])
    alone = decode(model, asked, sampling)
    assert not any(257 in response.token_ids for response in alone.values())
    model.get_input_embeddings().register_forward_hook(
        lambda module, given, out: out.masked_fill((given[0] == 257)[..., None], torch.nan)
    )
    decoder = Decoder(model, text_of, sampling, end_ids=END, max_new_tokens=30, max_rows=4)
    responses, errors = {}, []
    for result in decoder.run(asked):
        if isinstance(result, tuple):
            errors.append((result[0].index, str(result[1])))
        else:
            responses[result.index, result.sample] = result
    count = len(asked[3].prompt_ids)
    assert errors == [(3, f"the model's numbers after {count} tokens are not finite: try --dtype float32")]
    assert {key: r.token_ids for key, r in responses.items()} == {
        key: r.token_ids for key, r in alone.items() if key[0] != 3
    }


def test_products_beyond_the_range_of_float16_are_those_of_the_models_own_attention():
    """As with the key biases of Qwen2, which add the same to all keys' scores."""
    model = tiny_model("qwen2", head_dim=8)
    with torch.no_grad():
        for layer in model.model.layers:
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                projection.bias.zero_()
                projection.bias.view(-1, 8)[:, 3] = 400.0
    request = requests(1)[0]
    expected = one_by_one(model.half(), request, 0, Sampling(), limit=6, end=frozenset())
    (response,) = decode(model, [request], max_new_tokens=6, end_ids=frozenset()).values()
    assert response.token_ids == expected


@pytest.mark.parametrize("samples", [[0], range(5)])
def test_keys_and_values_take_what_they_may_and_no_more(samples):
    """Two layers, keys and values, two heads of eight numbers of four bytes: 256 bytes a token."""
    model = tiny_model("llama")
    asked = [DecodingRequest(index, f"q{index}", range(10, 20), samples) for index in range(4)]
    for rows, spare in ((3, 0), (2, -1), (3, 16 * 256 - 1), (1, -2 * 16 * 256), (1, -3 * 16 * 256)):
        seen = []

        def choose(logits, *_, seen=seen):
            seen.append(len(logits))
            return logits.argmax(-1)

        results = list(
            Decoder(
                model, text_of, Sampling(), end_ids=frozenset(), max_new_tokens=6, max_rows=8,
                cache_bytes=3 * 16 * 256 + spare, choose=choose,
            ).run(asked)
        )  # fmt: skip
        assert len(results) == 4 * len(samples)
        assert max(seen) == rows


def test_the_context_ends_a_response():
    model = tiny_model("gpt2", n_positions=40)
    asked = [DecodingRequest(0, "q", [9] * 35, [0]), DecodingRequest(1, "r", [9] * 5, [0])]
    got = decode(model, asked, end_ids=frozenset(), max_new_tokens=100, context_length=40, max_rows=2)
    assert [len(got[index, 0].token_ids) for index in (0, 1)] == [5, 35]
    assert {response.finish_reason for response in got.values()} == {"length"}


@pytest.mark.parametrize("cache_class", [PagedCache, RollingCache])
def test_responses_that_ended_at_the_contexts_end_may_run_along(cache_class, monkeypatch):
    """Beyond it there is no position, and the others are to be what they are without them."""
    packed = None if cache_class is PagedCache else 0
    monkeypatch.setattr("tokur_cli.engine.generation.decoder.longest_packed", lambda _: packed)
    model = tiny_model("gpt2", n_positions=40)
    long, short = DecodingRequest(0, "q", [9] * 38, [0]), DecodingRequest(1, "r", [9] * 5, range(39))
    options = {"end_ids": frozenset(), "max_new_tokens": 12, "context_length": 40, "max_rows": 40}
    got = decode(model, [long, short], Sampling(temperature=1.0), **options)
    assert len(got[0, 0].token_ids) == 2
    alone = decode(model, [short], Sampling(temperature=1.0), **options)
    assert {key: got[key].token_ids for key in alone} == {key: alone[key].token_ids for key in alone}
    assert {len(response.token_ids) for response in alone.values()} == {12}


def test_prompts_are_processed_once_for_all_their_samples(monkeypatch):
    model = tiny_model("llama")
    prompts = []
    whole = Decoder._prefill

    def counted(self, asked):
        prompts.extend(request.key for request in asked)
        return whole(self, asked)

    monkeypatch.setattr(Decoder, "_prefill", counted)
    got = decode(model, requests(5, samples=range(6)), Sampling(temperature=1.0), max_rows=8)
    assert len(got) == 30
    assert sorted(prompts) == [f"q{index}" for index in range(5)]


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_prompts_that_are_processed_in_parts_begin_together(family, monkeypatch):
    """Responses of one length attend together: a batch that filled up while it ran would have many lengths."""
    model, asked = tiny_model(family), requests(12)
    sampling = Sampling(temperature=1.0, seed=3)
    cache = PagedCache if family == "llama" else RollingCache
    parts, rows = [], []
    join, step = cache.join, cache.step
    monkeypatch.setattr(cache, "join", lambda own, prompts, copies: parts.append(prompts) or join(own, prompts, copies))
    monkeypatch.setattr(cache, "step", lambda own, ids: rows.append(len(ids)) or step(own, ids))
    got = decode(model, asked, sampling, max_rows=12, prefill_tokens=40)
    assert rows[0] == 12
    assert sorted(ids for part in parts for ids in part) == sorted(list(request.prompt_ids) for request in asked)
    assert len(parts) > 1
    assert all(len(part) == 1 or len(part) * max(map(len, part)) <= 40 for part in parts)
    monkeypatch.undo()
    for request in asked:
        assert got[request.index, 0].token_ids == one_by_one(model, request, 0, sampling)


def test_too_little_memory_halves_the_batch_and_loses_nothing(monkeypatch):
    model = tiny_model("llama")
    asked = requests(8, samples=range(2))
    sampling = Sampling(temperature=1.0, seed=1)
    expected = decode(model, asked, sampling)
    step = Decoder._step

    def small_machine(self):
        if len(self._rows) > 3 or any(row.request.index == 5 for row in self._rows if len(self._rows) <= 1):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(self)

    monkeypatch.setattr(Decoder, "_step", small_machine)
    results = list(Decoder(model, text_of, sampling, end_ids=END, max_new_tokens=30, max_rows=16).run(asked))
    failed = {result[0].index for result in results if isinstance(result, tuple)}
    assert failed <= {5}
    got = {(r.index, r.sample): r for r in results if not isinstance(r, tuple)}
    assert {key for key in expected if key[0] != 5} <= got.keys()
    assert len(got) == sum(not isinstance(result, tuple) for result in results), "each once"
    assert all(got[key].token_ids == expected[key].token_ids for key in got)


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize("operation", ["join", "gather", "step"])
def test_too_little_memory_at_any_moment_loses_nothing(family, operation, monkeypatch):
    model, asked = tiny_model(family), requests(12)
    sampling = Sampling(temperature=1.0, seed=3)
    often = frozenset(range(40))  # so that responses end at different times
    expected = decode(model, asked, sampling, end_ids=often)
    for _ in failing_once(PagedCache if family == "llama" else RollingCache, operation, monkeypatch):
        got = decode(model, asked, sampling, end_ids=often)
        assert {key: response.token_ids for key, response in got.items()} == {
            key: response.token_ids for key, response in expected.items()
        }


def failing_once(cache, operation, monkeypatch):
    """Have an operation of a cache fail for lack of memory at its first call, then at its second, …"""
    whole = getattr(cache, operation)
    for failing in range(1, 5):
        calls = itertools.count(1)

        def small_machine(*arguments, failing=failing, calls=calls):
            if next(calls) == failing:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return whole(*arguments)

        monkeypatch.setattr(cache, operation, small_machine)
        yield failing
        assert next(calls) > failing


def test_a_prompt_that_never_fits_is_an_error_of_its_own(monkeypatch):
    def no_room(self, asked):
        if any(request.index == 1 for request in asked):
            raise MemoryError
        return whole(self, asked)

    whole = Decoder._prefill
    monkeypatch.setattr(Decoder, "_prefill", no_room)
    results = list(Decoder(tiny_model("llama"), text_of, Sampling(), end_ids=END, max_new_tokens=5).run(requests(4)))
    errors = [result for result in results if isinstance(result, tuple)]
    assert [(request.index, isinstance(error, TokurError)) for request, error in errors] == [(1, True)]
    assert sorted(result.index for result in results if not isinstance(result, tuple)) == [0, 2, 3]


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


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_what_flash_attention_is_asked_for_is_what_the_model_attends_to(family, monkeypatch):
    """Page tables and lengths, where prompts have pages in common and pages are full; as it is documented."""
    monkeypatch.setattr(paged, "has_pages", lambda *_: True)
    calls = []
    monkeypatch.setattr(
        varlen, "varlen_attn", lambda *of, **more: calls.append(of) or varlen_as_documented(*of, **more)
    )
    model = tiny_model(family, **({"n_positions": 1024} if family == "gpt2" else {"max_position_embeddings": 1024}))
    prompts = [[7, 8, 9, 30] * 133, [9] * 254, [9] * 256, [5]]
    rows = [list(prompt) for prompt, count in zip(prompts, (2, 2, 1, 2), strict=True) for _ in range(count)]
    cache = PagedCache(model, None)
    numbers = torch.Generator().manual_seed(3)
    with torch.inference_mode():
        cache.join(prompts[:2], [2, 2])
        cache.join(prompts[2:], [1, 2])
        for ended in (None, None, 2, None, 0):
            if ended is not None:
                cache.gather([row for row in range(len(rows)) if row != ended])
                del rows[ended]
            ids = torch.randint(6, 256, (len(rows),), generator=numbers)
            got = cache.step(ids)
            for row, token, logits in zip(rows, ids.tolist(), got, strict=True):
                row.append(token)
                torch.testing.assert_close(logits, model(torch.tensor([row])).logits[0, -1], rtol=1e-4, atol=1e-4)
    assert len(calls) == 5 * model.config.num_hidden_layers


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_gpu_attends_to_pages_as_the_cpu_does(dtype):
    logits = []
    for device in ("cpu", "cuda"):
        cache = PagedCache(tiny_model("llama", max_position_embeddings=1024).to(device, dtype), None)
        with torch.inference_mode():
            cache.join([[7, 8, 9] * 200, [9] * 255, [5]], [2, 1, 1])
            steps = [cache.step(torch.tensor([token, 8, 30, 50], device=device)) for token in range(20, 24)]
        logits.append(torch.stack(steps).cpu())
    flash = torch.__version__ >= "2.12" and torch.cuda.get_device_capability() >= (8, 0)  # (compared as versions)
    assert cache._by_varlen == (flash and dtype == torch.bfloat16)
    torch.testing.assert_close(*logits, rtol=0, atol=1e-4 if dtype == torch.float32 else 0.1)
