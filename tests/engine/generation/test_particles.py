import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import oracle
from tests.engine.generation.plain import particle_filter, requests, text_of
from tests.engine.more_families import more
from tests.tiny import tiny_model
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.generation.cache import KVCache, columns_for
from tokur_cli.engine.generation.decoder import DecodedResponse, Decoder, DecodingRequest
from tokur_cli.engine.generation.particles import Guide, ParticleFilter, Resampling, softmax_weights
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.scores.steps import GuideScore

END = frozenset(range(20))
STEP_ENDS = tuple(map(chr, range(40, 80)))
COUNT = 4
DRAWS = 2
CASES = {
    "paper": ("eu", "mean", Resampling()),
    "recommended": ("eu", "top5", Resampling(None, "systematic")),
    "sum": ("tu", "sum", Resampling(5.0)),
    "last step": ("au", "step", Resampling(None)),
    "steps, not always resampled": ("ll", "step", Resampling(None, "systematic")),
    "confidence": ("deepconf", "step", Resampling(None)),
}


def some_questions(count=3, seed=0):
    return [DecodingRequest(r.index, r.key, r.prompt_ids, range(COUNT)) for r in requests(count, seed=seed)]


def guided(
    model, by, over, resampling, asked, *, sampling="stepwise", layers=None, max_rows=8, batch=4096, stop=(), room=None
):
    score = GuideScore(by, over)
    draws = Draws(build_posterior(model, PosteriorSettings(sigma=0.3, seed=1, layers=layers)), DRAWS)
    decoder = Decoder(
        model,
        text_of,
        Sampling(temperature=1.0, seed=3),
        end_ids=END,
        max_new_tokens=24,
        stop=stop,
        step_ends=STEP_ENDS,
        step_tokens=7,
        max_rows=max_rows,
        cache_bytes=room,
    )
    scorer = Scorer(model, draws, sampling=sampling, batch_tokens=batch)
    guide = Guide(score, score.quantity.sign, resampling, of_step=over == "step")
    return ParticleFilter(decoder, scorer, guide).serve(asked)


def by_place(responses):
    return {(response.index, response.sample): response for response in responses if response is not None}


def token_ids(results):
    return {(r.index, r.sample): r.token_ids for r in results if isinstance(r, DecodedResponse)}


def check_equal_to_the_plain_algorithm(model, by, over, resampling, *, sampling="stepwise", layers=None, stop=()):
    asked = some_questions(2)
    got = by_place(guided(model, by, over, resampling, asked, sampling=sampling, layers=layers, stop=stop))
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=1, layers=layers))
    quantity = GuideScore(by, over).quantity.name
    draws = DRAWS if quantity in ("tu", "au", "eu") else 0

    @functools.cache
    def tokens(prompt, ids):
        return oracle.scored(model, posterior, TokenizedResponse([*prompt], [*ids]), sampling, draws)

    rounds = 0
    for request in asked:
        run = {
            "seed": 3, "key": request.key, "sampling": Sampling(temperature=1.0, seed=3), "count": COUNT,
            "end_ids": END, "stop": stop, "step_ends": STEP_ENDS, "step_tokens": 7, "max_new_tokens": 24,
            "decode": text_of, "over": over, "temperature": resampling.temperature,
            "scheme": resampling.scheme,
            "tokens": lambda prompt, ids: tokens(tuple(prompt), tuple(ids)),
        }  # fmt: skip
        particles, history = particle_filter(model, quantity, request.prompt_ids, run)
        rounds += len(history["ess"])
        for slot, particle in enumerate(particles):
            response = got[request.index, slot]
            lineage = response.lineage
            assert response.token_ids == particle["ids"]
            assert lineage.ends == tuple(particle["ends"])
            assert lineage.scores == pytest.approx(particle["scores"], abs=2e-5, rel=2e-4)
            slot_scores = [scores[slot] for scores in history["slot_scores"]]
            assert lineage.slot_scores == pytest.approx(slot_scores, abs=2e-5, rel=2e-4)
            assert lineage.ancestors == tuple(ancestors[slot] for ancestors in history["ancestors"])
            assert lineage.ess == pytest.approx(history["ess"], rel=2e-3)
            assert lineage.root == particle["root"]
            assert lineage.copies == [other["ids"] for other in particles].count(particle["ids"])
    assert rounds >= 3  # of all questions: else nothing was compared


@pytest.mark.parametrize("case", CASES)
def test_particles_are_those_of_the_plain_algorithm(case):
    check_equal_to_the_plain_algorithm(tiny_model(), *CASES[case])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "sampling", "layers"), [("qwen3", "shared", None), ("llama", "joint", "1:")])
def test_particles_of_other_models_and_samplings_are_those_of_the_plain_algorithm(family, sampling, layers):
    model = tiny_model(family)
    check_equal_to_the_plain_algorithm(model, "eu", "mean", Resampling(None), sampling=sampling, layers=layers)


@pytest.mark.parametrize(
    ("family", "sampling"),
    [("deepseek_v3", "stepwise"), ("jamba", "stepwise"), ("jamba", "shared"), ("jamba", "joint")],
)
def test_particles_quantities_are_those_of_whole_responses(family, sampling):
    """Of latent attention, whose keys are computed anew at each step, and of states that have no columns."""
    model = more(family)
    draws = Draws(build_posterior(model, PosteriorSettings(sigma=0.3, seed=1)), DRAWS)
    got = by_place(guided(model, "eu", "mean", Resampling(None), some_questions(2), sampling=sampling))
    assert max(len(response.lineage.ends) for response in got.values()) > 2
    prompts = {request.index: request.prompt_ids for request in some_questions(2)}
    responses = [TokenizedResponse(prompts[index], response.token_ids) for (index, _), response in got.items()]
    whole = dict(Scorer(model, draws, sampling=sampling).score(responses))
    for number, response in enumerate(got.values()):
        assert response.quantities.keys() == whole[number].keys()
        for name, values in response.quantities.items():
            assert values == pytest.approx(whole[number][name], abs=2e-5, rel=2e-4)


def test_particles_stop_string_may_lie_across_the_end_of_a_step():
    """The first token of a pair ends a step, the pair ends the response."""
    model = tiny_model()
    whole = by_place(guided(model, "ll", "mean", Resampling(), some_questions()))
    pairs = [
        response.text[end - 1 : end + 1]
        for response in whole.values()
        for end in response.lineage.ends
        if end < len(response.token_ids) and response.text[end - 1] in STEP_ENDS
    ]
    check_equal_to_the_plain_algorithm(model, "ll", "mean", Resampling(), stop=(pairs[0],))
    stopped = by_place(guided(model, "ll", "mean", Resampling(), some_questions(), stop=(pairs[0],)))
    assert any(response.finish_reason == "stop_string" for response in stopped.values())
    assert all(pairs[0] not in response.text for response in stopped.values())


def test_particles_depend_on_no_batch():
    model = tiny_model()

    def run(**options):
        responses = by_place(guided(model, "eu", "mean", Resampling(None), some_questions(4, seed=1), **options))
        return {place: (response.token_ids, response.lineage.ancestors) for place, response in responses.items()}

    expected = run(max_rows=64)
    assert len(expected) == 4 * COUNT
    assert run(max_rows=1) == run(max_rows=5, batch=30) == run(room=1) == expected
    backwards = by_place(guided(model, "eu", "mean", Resampling(None), some_questions(4, seed=1)[::-1]))
    assert {place: (r.token_ids, r.lineage.ancestors) for place, r in backwards.items()} == expected


def test_particles_do_not_depend_on_what_memory_held_before(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *size: self.new_full(size, math.nan))
    asked = [DecodingRequest(index, f"q{index}", [9] * 16, range(COUNT)) for index in range(7)]
    got = guided(tiny_model(), "eu", "mean", Resampling(), asked, max_rows=64, room=35 * columns_for(40) * 256)
    assert sorted(token_ids(got)) == [(index, slot) for index in range(7) for slot in range(COUNT)]


def test_particle_filter_takes_questions_that_come_late():
    """Where nothing is left to do None is told, once a pause, and what comes after it is taken up."""
    model = tiny_model()
    asked = some_questions()
    expected = by_place(guided(model, "eu", "mean", Resampling(), asked))
    told = []

    def source():
        yield asked[0]
        while None not in told:
            yield None
        yield from asked[1:]

    for result in guided(model, "eu", "mean", Resampling(), source()):
        told.append(result)
    assert [result.index for result in told[:COUNT]] == [0] * COUNT
    assert told[COUNT] is None
    assert token_ids(told) == token_ids(expected.values())


@pytest.mark.parametrize(
    ("max_rows", "positions", "most"),
    [(8, None, 4), (64, 3 * 3 * COUNT, 3), (64, 3 * 3 * COUNT - 1, 2)],  # of the mean weights and of two draws
)
def test_particle_filter_takes_questions_up_as_batch_and_memory_have_room(max_rows, positions, most):
    """Memory for the keys and values of so many responses of 40 tokens, 256 bytes each."""
    under_way, seen = 0, []

    def source():
        nonlocal under_way
        for request in some_questions(7):
            under_way += 1
            seen.append(under_way)
            yield DecodingRequest(request.index, request.key, [9] * 16, range(COUNT))

    room = None if positions is None else positions * columns_for(40) * 256
    results = guided(tiny_model(), "eu", "mean", Resampling(), source(), max_rows=max_rows, room=room)
    for number, _ in enumerate(filter(None, results), start=1):
        under_way -= number % COUNT == 0
    assert (len(seen), under_way) == (7, 0)
    assert max(seen) == most


def test_particle_filter_question_that_fails_is_one_error_and_the_others_go_on(monkeypatch):
    """In its second round, with other particles of it under way; another's numbers are broken from the first on."""
    model = tiny_model()
    asked = some_questions(4)
    expected = by_place(guided(model, "eu", "mean", Resampling(), asked))
    failing = max(asked, key=lambda request: len(expected[request.index, 0].lineage.ends))
    score = GuideScore.__call__
    firsts = {float(response.quantities["eu"][0]) for response in expected.values() if response.index == failing.index}

    def overflowing(self, tokens, step):
        failed = len(tokens["eu"]) > 7 and float(tokens["eu"][0]) in firsts
        return math.nan if failed else score(self, tokens, step)

    monkeypatch.setattr(GuideScore, "__call__", overflowing)
    _, broken = failed = failing.index, (failing.index + 1) % 4
    asked[broken] = replace(asked[broken], prompt_ids=[258, *asked[broken].prompt_ids])
    embeddings = model.get_input_embeddings()
    embeddings.register_forward_hook(lambda _, ids, out: out.masked_fill((ids[0] == 258)[..., None], torch.nan))
    results = list(guided(model, "eu", "mean", Resampling(), asked))
    errors = [result for result in results if isinstance(result, tuple)]
    assert sorted(request.index for request, _ in errors) == sorted(failed)
    assert all(request == asked[request.index] and "try --dtype float32" in str(error) for request, error in errors)
    others = {place: ids for place, ids in token_ids(expected.values()).items() if place[0] not in failed}
    assert token_ids(results) == others


def test_particles_go_on_from_the_keys_and_values_of_the_step_before(monkeypatch):
    """Each prompt is processed once, and nothing of what particles wrote."""
    processed = []
    prefill = KVCache.prefill

    def noted(self, texts):
        processed.extend(tuple(text >> 32) for text in texts if len(text) > 2)  # (two tokens are a trial's)
        return prefill(self, texts)

    monkeypatch.setattr(KVCache, "prefill", noted)
    asked = some_questions()
    responses = by_place(guided(tiny_model(), "eu", "mean", Resampling(), asked))
    assert max(len(response.lineage.ends) for response in responses.values()) > 2
    assert sorted(processed) == sorted(tuple(request.prompt_ids) for request in asked)


def test_particles_given_up_for_want_of_memory_are_computed_again(monkeypatch):
    """What was kept of particles, or a batch that did not fit, cost time but change no response."""
    model, asked = tiny_model(), some_questions(seed=1)
    expected = token_ids(guided(model, "eu", "mean", Resampling(), asked))
    step, calls = KVCache.step, itertools.count()

    def short_of_memory(self, *arguments):
        if next(calls) in (3, 17):
            raise MemoryError
        return step(self, *arguments)

    monkeypatch.setattr(KVCache, "step", short_of_memory)
    assert token_ids(guided(model, "eu", "mean", Resampling(), asked)) == expected


REWARDS = st.lists(st.floats(-50, 50), min_size=1, max_size=20)


@given(REWARDS, st.floats(0.01, 100))
def test_softmax_weights_are_a_softmax_and_the_effective_size_is_theirs(rewards, temperature):
    weights = softmax_weights(np.array(rewards), temperature)
    powers = [math.exp((reward - max(rewards)) / temperature) for reward in rewards]
    assert weights == pytest.approx([power / sum(powers) for power in powers])
    _, size, _ = Resampling(temperature).resample(rewards, (0,))
    assert size == pytest.approx(sum(powers) ** 2 / sum(power**2 for power in powers))


def test_resampling_of_weights_that_come_to_nothing_holds_all_for_equal():
    rule = Resampling(0.01, "systematic")
    _, size, earlier = rule.resample([0, 0, -10, -10], ("key",))
    assert size == 2
    assert rule.resample([-10, -10, 0, 0], ("key",), earlier)[:2] == ([0, 1, 2, 3], 4)
