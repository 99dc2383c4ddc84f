"""What is asked of vLLM, and what becomes of its replies: a stand-in for it, that any machine has.

The real one is run by ``tests/commands/generate/test_generate_vllm.py`` where it is installed.
"""

import itertools
import sys
from types import SimpleNamespace

import pytest

from tests.engine.generation.plain import text_of
from tests.helpers import install_vllm
from tokur_cli.engine.generation.decoder import DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.model.find import Source
from tokur_cli.engine.model.load import ModelDescription
from tokur_cli.engine.model.request import ModelRequest


def description(revision, dtype, context_length, end_ids):
    config = SimpleNamespace(max_position_embeddings=context_length, get_text_config=lambda decoder: config)
    return ModelDescription(
        ModelRequest("name"), Source("name", "place", revision), None, config, (), None, dtype, end_ids
    )


DESCRIPTION = description("abc", "bfloat16", 6000, (3, 2))


class StandIn:
    """Every request takes two steps; what it writes is decided by ``reply``."""

    def __init__(self, reply):
        self.reply, self.asked, self.running, self.most = reply, {}, {}, 0

    def add_request(self, name, prompt, parameters):
        assert name not in self.asked
        self.asked[name] = (prompt["prompt_token_ids"], parameters)
        self.running[name] = 2
        self.most = max(self.most, len(self.running))

    def step(self):
        outputs = []
        for name in list(self.running):
            self.running[name] -= 1
            finished = self.running[name] == 0
            if finished:
                del self.running[name]
            ids, *reasons = self.reply(name) if finished else ([1], None, None)
            output = SimpleNamespace(token_ids=tuple(ids), finish_reason=reasons[0], stop_reason=reasons[1])
            outputs.append(SimpleNamespace(request_id=name, finished=finished, outputs=[output]))
        return outputs


@pytest.fixture
def vllm(monkeypatch):
    """The stand-in as the module ``vllm``, with the settings that its engine was loaded with."""
    engine = StandIn(lambda name: ([65, 66], "length", None))

    def load(**settings):
        engine.settings = settings
        return SimpleNamespace(llm_engine=engine)

    install_vllm(monkeypatch, load)
    sys.modules["vllm"].SamplingParams = SimpleNamespace
    return engine


def decoder(sampling=Sampling(), description=DESCRIPTION, **options):  # noqa: B008 (immutable)
    options = {"end_ids": frozenset(description.end_ids), "max_new_tokens": 50, "tell": pytest.fail, **options}
    return VllmDecoder(description, text_of, sampling, **options)


def asked_for(engine, sampling=Sampling(), prompt=(7, 8, 9), **options):  # noqa: B008 (immutable)
    """The parameters of one request."""
    engine.asked.clear()
    list(decoder(sampling, **options).serve([DecodingRequest(0, "q", prompt, [0])]))
    ((ids, parameters),) = engine.asked.values()
    assert ids == list(prompt)
    return parameters


def test_vllm_decoder_sample_is_a_request_and_reply_a_response(vllm):
    replies = {
        "5-0": ([65, 66, 67], "length", None),
        "5-2": ([65, 3], "stop", 3),  # a token that ends responses
        "6-1": ([66, 2], "stop", None),  # the one that vLLM knows by itself
        "6-4": ([65, 66, 67, 68], "stop", "CD"),
        "6-5": ([67, 68], "length", None),
    }
    vllm.reply = replies.get
    asked = [DecodingRequest(5, "a", [7, 8], [0, 2]), DecodingRequest(6, "b", [9], [1, 4, 5])]
    got = {f"{r.index}-{r.sample}": r for r in decoder(stop=("CD", "ZZ")).serve(asked)}
    assert {name: response.token_ids for name, response in got.items()} == {n: ids for n, (ids, *_) in replies.items()}
    assert {name: (response.text, response.finish_reason) for name, response in got.items()} == {
        "5-0": ("ABC", "length"),
        "5-2": ("A", "stop"),
        "6-1": ("B", "stop"),
        "6-4": ("AB", "stop_string"),
        "6-5": ("CD", "length"),
    }
    assert {name: ids for name, (ids, _) in vllm.asked.items()} == {n: [7, 8] if n[0] == "5" else [9] for n in replies}


def test_vllm_decoder_aborted_response_is_an_error_of_its_question(vllm):
    vllm.reply = lambda name: ([65, 66], "abort", None) if name == "0-1" else ([65, 3], "stop", 3)
    request = DecodingRequest(0, "a", [7], [0, 1])
    whole, (failed, error) = decoder().serve([request])
    assert (whole.sample, whole.token_ids, whole.finish_reason) == (0, [65, 3], "stop")
    assert failed == request
    assert str(error) == "vLLM did not end a response (abort)"


def test_vllm_decoder_reads_no_request_before_there_is_room(vllm):
    read = []

    def endless():
        for index in itertools.count():
            read.append(index)
            yield DecodingRequest(index, f"q{index}", [7], [0, 1])

    responses = decoder().serve(endless())
    got = [next(responses) for _ in range(1300)]
    assert len({(r.index, r.sample) for r in got}) == 1300
    assert vllm.most == 512
    assert len(read) == 3 * 512 / 2


def test_vllm_decoder_yields_none_once_a_pause(vllm):
    """A response takes two steps, before each of which a pause is read; then comes one with nothing left to do."""
    first, second = (DecodingRequest(index, "q", [7], [0]) for index in range(2))
    told = [response and response.index for response in decoder().serve([None, first, *[None] * 3, second])]
    assert told == [None, 0, None, 1]


def test_vllm_decoder_asks_for_what_a_response_may_be(vllm):
    sampling = Sampling(temperature=0.7, top_k=5, top_p=0.9, min_p=0.1, seed=4)
    parameters = asked_for(vllm, sampling, stop=("\n", "END"))
    assert (parameters.temperature, parameters.top_k, parameters.top_p, parameters.min_p) == (0.7, 5, 0.9, 0.1)
    assert parameters.stop == ["\n", "END"]
    assert sorted(parameters.stop_token_ids) == [2, 3]
    assert parameters.max_tokens == 50
    assert asked_for(vllm, prompt=[7] * 5990).max_tokens == 10, "to the context's end"
    endless = description(None, "float32", None, ())
    assert asked_for(vllm, prompt=[7] * 5990, description=endless).max_tokens == 50
