"""Rotary embeddings that change with the length of a pass: no response's numbers may depend on those beside it."""

import numpy as np
import pytest
import torch

from tests.tiny import tiny_model
from tokur_cli.engine.baselines.layers import LayerView
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

BEYOND = 64
DYNAMIC = {
    "max_position_embeddings": BEYOND,
    "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
}
LONG = {
    "max_position_embeddings": 512,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "original_max_position_embeddings": BEYOND,
        "short_factor": [1.0] * 4,
        "long_factor": [1.0, 2.0, 3.0, 8.0],
    },
}


def ids(count, seed):
    return np.random.default_rng(seed).integers(0, 250, count).tolist()


def alone(tokens, **fields):
    """log p (L, V) and states (L, d) of a new model in float64 that sees nothing else."""
    with torch.inference_mode():
        outputs = tiny_model("llama", **fields).double()(input_ids=torch.tensor([tokens]), output_hidden_states=True)
    return outputs.logits[0].log_softmax(-1), outputs.hidden_states


@pytest.mark.parametrize("fields", [DYNAMIC, LONG])
def test_rescaling_keeps_responses_within_the_length_apart_from_those_beyond_it(fields):
    scorer = Scorer(tiny_model("llama", **fields), None)
    for sizes in ([30, 55, 56, 150, 80], [55, 20]):  # 55 has the last length before the change, 56 the first after it
        responses = [TokenizedResponse(ids(10, n), ids(size, size)) for n, size in enumerate(sizes)]
        got = dict(scorer.score(responses))
        assert sorted(got) == list(range(len(sizes)))
        for index, response in enumerate(responses):
            if fields is DYNAMIC and response.length > BEYOND:
                assert "with this model's dynamic NTK RoPE, at most 64 tokens can be scored" in str(got[index])
                continue
            log_p, _ = alone([*response.prompt_ids, *response.response_ids], **fields)
            if response.length == BEYOND:  # the last token, which is not computed, would be beyond it
                log_p, _ = alone([*response.prompt_ids, *response.response_ids[:-1]], **fields)
            chosen = log_p[9 : response.length].gather(-1, torch.tensor(response.response_ids)[:, None])[:, 0]
            np.testing.assert_allclose(got[index]["logprob"], chosen.numpy(), atol=2e-4)


def test_rescaling_keeps_hidden_states_apart():
    sequences = [ids(size, size) for size in (64, 200, 20, 65)]
    view = LayerView(tiny_model("llama", **LONG), 1, 10**4)
    for tokens, state in zip(sequences, view.last_states(sequences), strict=True):
        _, states = alone(tokens, **LONG)
        np.testing.assert_allclose(state, states[1][0, -1].numpy(), atol=1e-4)


@pytest.mark.parametrize("fields", [DYNAMIC, LONG])
def test_rescaling_bounds_generation(fields):
    """Responses that end there run along with others, without a step beyond it."""
    prompts = [ids(size, size) for size in (10, 40, 54, 100, 34)]
    options = {"end_ids": frozenset({*range(100)}), "max_new_tokens": 30}
    decoder = Decoder(tiny_model("llama", **fields), str, Sampling(), **options)
    found = {}
    for result in decoder.serve(DecodingRequest(n, "", prompt, (0,)) for n, prompt in enumerate(prompts)):
        if isinstance(result, tuple):
            request, error = result
            assert isinstance(error, TokurError)
            found[request.index] = str(error)
        else:
            found[result.index] = result.token_ids
    for index, prompt in enumerate(prompts):
        if len(prompt) > 34:
            length = len(prompt) + 30
            assert f"prompt and response may have {length} tokens; with this model's " in found[index]
            assert "RoPE, at most 64 can be generated: ask for fewer new tokens" in found[index]
            continue
        expected = []
        while len(expected) < 30 and not (expected and expected[-1] < 100):
            expected.append(int(alone([*prompt, *expected], **fields)[0][-1].argmax()))
        assert found[index] == expected
