import gc

import numpy as np
import pytest

from tests.engine.uncertainty.test_packing import as_a_gpu
from tests.tiny import tiny_model
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.uncertainty.growing import GrowingScorer, Growth
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError


def scorer_of(model, *, layers=None, sampling="stepwise", batch_tokens=4096):
    draws = Draws(build_posterior(model, PosteriorSettings(sigma=0.3, seed=1, layers=layers)), 2)
    return Scorer(model, draws, sampling=sampling, batch_tokens=batch_tokens)


class Herd:
    """Responses that grow by chance and are copied in place of each other, to prompts of 1, 9 and 40 tokens."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.prompts = [self.ids(size) for size in (1, 9, 40)]
        self.responses = [[prompt, [], None] for prompt in self.prompts for _ in range(4)]

    def ids(self, count):
        return self.rng.integers(0, 256, count).tolist()

    def grow(self, scorer):
        """One round; returns the errors."""
        growths = []
        for response in self.responses:
            response[1] = [*response[1], *self.ids(int(self.rng.integers(1, 9)))]
            growths.append(Growth(*response))
        results = dict(scorer.score(growths))
        assert sorted(results) == list(range(len(growths)))
        for index, result in results.items():
            if not isinstance(result, TokurError):
                self.responses[index][2] = result
        return [result for result in results.values() if isinstance(result, TokurError)]

    def copy(self):
        for group in range(3):
            sources = self.rng.integers(0, 4, 4)
            chosen = [list(self.responses[4 * group + source]) for source in sources]
            self.responses[4 * group : 4 * group + 4] = chosen

    def check(self, scorer, tolerance=2e-5):
        wholes = [TokenizedResponse(prompt, ids) for prompt, ids, _ in self.responses]
        for index, expected in scorer.score(wholes):
            got = self.responses[index][2].quantities
            assert got.keys() == expected.keys()
            for name, values in expected.items():
                np.testing.assert_allclose(got[name], values, atol=tolerance, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("family", "layers", "sampling", "batch_tokens", "way"),
    [
        ("llama", None, "stepwise", 4096, "by stretch"),
        ("qwen3", None, "stepwise", 60, "by stretch"),  # several batches a round
        ("llama", "1:", "shared", 200, "by stretch"),  # a layer below the draws, computed once for all members
        ("llama", "1:", "stepwise", 200, "by path"),
        ("llama", None, "joint", 4096, "by stretch"),  # whole
        ("gpt2", None, "stepwise", 100, "by stretch"),
        ("gpt2", None, "stepwise", 100, "by path"),
        ("llama", None, "stepwise", 4096, "by pages"),
        ("gpt2", "1:", "stepwise", 100, "by pages"),
        ("gemma2", None, "stepwise", 4096, "by stretch"),  # whole: its attention cannot be packed
    ],
)
def test_growing_responses_have_the_quantities_of_whole_ones(family, layers, sampling, batch_tokens, way, monkeypatch):
    as_a_gpu(monkeypatch, way)
    model = tiny_model(family)
    herd = Herd()
    growing = GrowingScorer(scorer_of(model, layers=layers, sampling=sampling, batch_tokens=batch_tokens))
    for _ in range(4):
        assert herd.grow(growing) == []
        herd.check(scorer_of(model, layers=layers, sampling=sampling))
        herd.copy()


def test_a_sliding_window_ends_the_pieces():
    """Responses are scored as wholes once they are longer than it."""
    model = tiny_model("mistral", sliding_window=45)
    herd = Herd()
    growing = GrowingScorer(scorer_of(model))
    in_pieces = set()
    for _ in range(5):
        assert herd.grow(growing) == []
        in_pieces |= {response[2].piece is not None for response in herd.responses}
        herd.check(scorer_of(model))
        herd.copy()
    assert in_pieces == {True, False}


def test_only_what_is_new_goes_through_the_model():
    model = tiny_model()
    herd, scorer = Herd(), scorer_of(model)
    growing = GrowingScorer(scorer)
    positions = []
    model.get_input_embeddings().register_forward_hook(lambda _module, given, _: positions.append(given[0].shape[1]))
    herd.grow(growing)
    first = sum(len(response[1]) for response in herd.responses)
    assert sum(positions) - first == sum(len(prompt) - 1 for prompt in herd.prompts)
    for _ in range(3):
        herd.copy()
        positions.clear()
        before = sum(len(response[1]) for response in herd.responses)
        herd.grow(growing)
        assert sum(positions) == sum(len(response[1]) for response in herd.responses) - before


def test_what_nobody_goes_on_from_is_freed():
    herd = Herd()
    growing = GrowingScorer(scorer_of(tiny_model()))
    for _ in range(4):
        herd.grow(growing)
        herd.responses = [herd.responses[0]] * 12  # one takes the places of all
        herd.responses = [list(response) for response in herd.responses]
    gc.collect()
    assert len(growing._pieces) == 4  # its own: its prompt of one token has none


def test_too_little_memory_gives_up_the_states_and_then_the_response(monkeypatch):
    """What was given up is computed again with the whole response; one for which that is too much is an error."""
    model = tiny_model()
    herd, scorer = Herd(), scorer_of(model)
    growing = GrowingScorer(scorer)
    assert herd.grow(growing) == []
    forward, room = Scorer.forward, [10**6]

    def small(self, tensors, attention=None):
        if tensors.ids.numel() > room[0]:
            raise MemoryError
        return forward(self, tensors, attention)

    monkeypatch.setattr(Scorer, "forward", small)
    herd.copy()
    room[0] = 40
    assert herd.grow(growing) == []
    room[0] = 10**6
    herd.check(scorer_of(model))
    herd.copy()
    room[0] = 20
    errors = herd.grow(growing)
    assert 1 <= len(errors) < 12
    assert all("too little memory for" in str(error) for error in errors)


def test_a_response_alone_is_tried_again_with_the_memory_that_the_others_held(monkeypatch):
    growing = GrowingScorer(Scorer(tiny_model(), None, batch_tokens=10))  # one response a batch
    growths = [Growth([1, 2, 3, 4, 5], [10 + number, *range(20, 27)]) for number in range(4)]
    scored = dict(growing.score(growths))
    forward = Scorer.forward

    def held():
        return sum(keys.nbytes for piece in growing._pieces if piece.states for keys, _ in piece.states.values())

    limit = held() - 1

    def small(self, tensors, attention=None):
        if held() > limit:
            raise MemoryError
        return forward(self, tensors, attention)

    monkeypatch.setattr(Scorer, "forward", small)
    grown = [Growth(g.prompt_ids, [*g.response_ids, *range(30, 38)], scored[index]) for index, g in enumerate(growths)]
    found = dict(growing.score(grown))
    monkeypatch.setattr(Scorer, "forward", forward)
    for index, expected in Scorer(tiny_model(), None).score(
        [TokenizedResponse(g.prompt_ids, g.response_ids) for g in grown]
    ):
        np.testing.assert_allclose(found[index].quantities["logprob"], expected["logprob"], atol=2e-5)
