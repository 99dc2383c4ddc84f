"""Steps that are asked for before the tokens of the one before are read, as on a GPU; here on the CPU."""

import pytest
import torch

from tests.engine.generation.guided.test_particles import (
    by_place,
    check_equal_to_the_plain_algorithm,
    guided,
    some_questions,
)
from tests.engine.generation.test_decoder import END, decode, failing_once, one_by_one, requests, text_of
from tests.engine.more_families import MORE, more
from tests.tiny import tiny_model
from tokur_cli.engine.generation import decoder as decoder_module
from tokur_cli.engine.generation import sampling as sampling_module
from tokur_cli.engine.generation.cache import RollingCache
from tokur_cli.engine.generation.decoder import Decoder
from tokur_cli.engine.generation.guided.resampling import Resampling
from tokur_cli.engine.generation.paged import PagedCache
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.transfers import Arriving

SAMPLING = Sampling(temperature=1.0, top_p=0.9, seed=5)
OFTEN = frozenset(range(40))  # so that responses end at different times


@pytest.fixture(autouse=True)
def _ahead(monkeypatch):
    monkeypatch.setattr(decoder_module, "_AHEAD", {"cpu": 1})


def noted(monkeypatch, cache):
    """What is done, in order: "step" where one is asked for, "read" where tokens are."""
    done = []
    step, wait = cache.step, Arriving.wait
    monkeypatch.setattr(cache, "step", lambda own, ids: done.append("step") or step(own, ids))
    monkeypatch.setattr(Arriving, "wait", lambda own: done.append("read") or wait(own))
    return done


@pytest.mark.parametrize("end_ids", [END, OFTEN])
@pytest.mark.parametrize("family", ["llama", "gemma2", "jamba"])
def test_responses_are_those_of_whole_forward_passes(family, end_ids):
    """In batches that are refilled as responses end, of which nothing was known when the next step was asked for."""
    model = more(family) if family in MORE else tiny_model(family)
    asked, told = requests(9), []
    got = decode(model, asked, SAMPLING, end_ids=end_ids, max_new_tokens=12, told=told.append)
    assert {key: response.token_ids for key, response in got.items()} == {
        (request.index, 0): one_by_one(model, request, 0, SAMPLING, limit=12, end=end_ids) for request in asked
    }
    assert sum(told) == sum(len(response.token_ids) for response in got.values())


def test_a_step_is_asked_for_before_the_tokens_of_the_one_before_are_read(monkeypatch):
    done = noted(monkeypatch, PagedCache)
    decode(tiny_model("llama"), requests(3), SAMPLING, end_ids=frozenset(), max_new_tokens=6)
    assert done == ["step", *["read", "step"] * 4, "read", "read"]  # the prompts have given the first tokens


def test_no_step_is_asked_for_that_no_response_needs(monkeypatch):
    done = noted(monkeypatch, PagedCache)
    got = decode(tiny_model("llama"), requests(6), SAMPLING, end_ids=frozenset(), max_new_tokens=1)
    assert {len(response.token_ids) for response in got.values()} == {1}
    assert "step" not in done


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize("operation", ["join", "gather", "step"])
def test_too_little_memory_at_any_moment_loses_nothing(family, operation, monkeypatch):
    model, asked = tiny_model(family), requests(12)
    expected = {(r.index, 0): one_by_one(model, r, 0, SAMPLING, end=OFTEN) for r in asked}
    for _ in failing_once(PagedCache if family == "llama" else RollingCache, operation, monkeypatch):
        got = decode(model, asked, SAMPLING, end_ids=OFTEN)
        assert {key: response.token_ids for key, response in got.items()} == expected


@pytest.mark.parametrize("max_rows", [1, 4])
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_response_that_has_ended_needs_no_memory_for_the_step_asked_for_meanwhile(family, max_rows, monkeypatch):
    model, (asked,) = tiny_model(family), requests(1)
    end = frozenset(one_by_one(model, asked, 0, SAMPLING, limit=5, end=frozenset())[-1:])
    expected = one_by_one(model, asked, 0, SAMPLING, end=end)
    cache = PagedCache if family == "llama" else RollingCache
    step = cache.step

    def small_machine(own, ids):
        if own._lengths.max() == asked.length + len(expected) - 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(own, ids)

    monkeypatch.setattr(cache, "step", small_machine)
    decoder = Decoder(model, text_of, SAMPLING, end_ids=end, max_new_tokens=30, max_rows=max_rows)
    assert [response.token_ids for response in decoder.run([asked])] == [expected]
    assert decoder.max_rows == max_rows


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_response_whose_nucleus_was_not_seen_whole_is_generated_again(family, monkeypatch):
    """Other responses have gone on meanwhile; from then on more is looked at."""
    model, asked = tiny_model(family), requests(8, range(2))
    expected = {(r.index, n): one_by_one(model, r, n, SAMPLING) for r in asked for n in r.samples}
    monkeypatch.setattr(sampling_module, "_NO_WAIT", ())
    decoder = Decoder(model, text_of, SAMPLING, end_ids=END, max_new_tokens=30, max_rows=4)
    decoder._nucleus = 3
    again, put_back = [], Decoder._put_back
    monkeypatch.setattr(Decoder, "_put_back", lambda own, rows: again.extend(rows) or put_back(own, rows))
    got = {(response.index, response.sample): response.token_ids for response in decoder.run(asked)}
    assert got == expected
    assert again
    assert 259 > decoder._nucleus > 3


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_requests_may_come_while_tokens_are_waited_for(family):
    """Into rows that are free, without one that leaves."""
    model, asked = tiny_model(family), requests(7)
    source = [asked[0], None, asked[1], None, None, *asked[2:4], None, *asked[4:]]
    decoder = Decoder(model, text_of, SAMPLING, end_ids=END, max_new_tokens=20, max_rows=5)
    got = {response.index: response.token_ids for response in decoder.serve(source) if response is not None}
    assert got == {request.index: one_by_one(model, request, 0, SAMPLING, limit=20) for request in asked}


def test_particles_are_those_of_the_plain_algorithm():
    check_equal_to_the_plain_algorithm(tiny_model(), "eu", "mean", Resampling(None), stop=("Z",))


def test_particles_of_many_questions_do_not_depend_on_the_batch(monkeypatch):
    def run(**options):
        responses = by_place(guided(tiny_model(), "ll", "mean", Resampling(None), some_questions(5, seed=1), **options))
        return {place: (response.token_ids, response.lineage.ancestors) for place, response in responses.items()}

    ahead = run(max_rows=5)
    monkeypatch.setattr(decoder_module, "_AHEAD", {})
    assert ahead == run(max_rows=64)
