"""Scores over attempts to verify a response, against attempts made by whole forward passes."""

import random

import pytest
import torch

from tests.engine.generation.plain import by_whole_passes
from tests.helpers import jaccard, parsed, records, turn_of, write_lines
from tests.tiny import tiny_model, tiny_tokenizer
from tokur_cli.commands.baselines.questions import VERIFICATION
from tokur_cli.engine.generation.decoder import DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.scores.sets import degree, eigen_score, sentence_sar

SCORES = "inside,sar,u_ecc,u_deg"
OPTIONS = ["--dtype", "float32", "--attempts", 4, "--set", "attempt_tokens=12", "--similarity", "jaccard"]
END = 258


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "responses.jsonl", records(9))


@pytest.fixture
def scores_of(run_tokur, tiny_folder):
    def run(path, *options, scores=SCORES):
        code, out, err = run_tokur("score", path, "-m", tiny_folder, "--scores", scores, *OPTIONS, *options)
        assert (code, err) == (0, "")
        return {record["id"]: record["tokur"]["scores"] for record in parsed(out)}

    return run


def attempts_by_hand(prompt, record, count=4, seed=0, temperature=0.5):
    """The attempts as (ids, text), a plain forward pass a token, without any cache."""
    model, tokenizer = tiny_model(), tiny_tokenizer()
    request = DecodingRequest(0, f"verification of {record} 0", tokenizer(prompt)["input_ids"], range(count))
    sampling = Sampling(temperature=temperature, seed=seed)
    outs = by_whole_passes(model, [(request, attempt) for attempt in range(count)], sampling, limit=12, end={END})
    return request.prompt_ids, [(out, tokenizer.decode(out, skip_special_tokens=True)) for out in outs]


def by_hand(prompt, record, **options):
    prompt_ids, attempts = attempts_by_hand(prompt, record, **options)
    model = tiny_model().double()
    log_p, states = [], []
    for ids, _ in attempts:
        with torch.no_grad():
            outputs = model(torch.tensor([prompt_ids + ids]), output_hidden_states=True)
        rows = outputs.logits[0, len(prompt_ids) - 1 : -1].log_softmax(-1)
        log_p.append(sum(float(rows[t, token]) for t, token in enumerate(ids)))
        kept = len(ids) - (len(ids) > 1 and ids[-1] == END)
        states.append(outputs.hidden_states[1][0, len(prompt_ids) + kept - 1].numpy())
    alike = [[jaccard(one, other) for _, other in attempts] for _, one in attempts]
    return {"inside": eigen_score(states), "sar": sentence_sar(log_p, alike), "u_deg": degree(alike)[0]}


def test_attempts_the_scores_are_those_of_attempts_made_one_by_one(responses, scores_of):
    prompt = turn_of(VERIFICATION, next(records(1)))
    found = scores_of(responses)["q0"]
    assert list(found) == SCORES.split(",")
    expected = by_hand(prompt, "q0")
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-4)
    other = scores_of(responses, "--seed", 5, "--set", "attempt_temperature=1.5")["q0"]
    expected = by_hand(prompt, "q0", seed=5, temperature=1.5)
    assert {name: other[name] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert other["inside"] != found["inside"]


def test_attempts_are_the_same_in_any_order_batch_and_company(responses, scores_of, tmp_path):
    found = scores_of(responses)
    shuffled = random.Random(1).sample(list(records(9)), 9)
    again = scores_of(write_lines(tmp_path / "shuffled.jsonl", shuffled), "--batch-tokens", 1)
    alone = scores_of(write_lines(tmp_path / "alone.jsonl", [row for row in shuffled if row["id"] == "q3"]))
    for name, scores in found.items():
        assert again[name] == pytest.approx(scores, rel=1e-3, abs=1e-3)
    assert alone["q3"] == pytest.approx(found["q3"], rel=1e-3, abs=1e-3)
