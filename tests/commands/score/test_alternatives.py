"""What else might have been written: on the tiny model against brute force, and what becomes of it in records."""

import copy

import numpy as np
import pytest

from tests.engine import oracle
from tests.helpers import parsed, records, write_lines
from tests.tiny import quiet_model, tiny_tokenizer
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings

OPTIONS = ("--alternatives", 3, "--sampling", "shared", "--sigma", "0.3", "--dtype", "float32")


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "in.jsonl", records(3))


def test_alternatives_are_those_of_brute_force_in_float64(run_tokur, tiny_folder, responses):
    code, out, err = run_tokur("score", responses, "-m", tiny_folder, *OPTIONS)
    assert (code, err) == (0, "")
    model = quiet_model()
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3))
    exact, draws = copy.deepcopy(model).double(), [oracle.fixed_draw(model, posterior, m) for m in range(2)]
    checked = 0
    for record in parsed(out):
        prompt, ids = prompt_and_ids(record)
        base, *others = [oracle.log_probabilities(one, prompt, ids).exp().numpy() for one in (exact, *draws)]
        found = {one["token"]: one for one in record["tokur"]["alternatives"]["at"]}
        assert record["tokur"]["alternatives"]["most"] == 3
        for token, written in enumerate(ids):
            mean = (others[0][token] + others[1][token]) / 2
            best = np.argsort(-base[token])[:3]
            is_certain = best[0] == written and min(base[token][written], mean[written]) >= 0.95
            is_certain &= all(other[token].argmax() == written for other in others)
            assert (token not in found) == is_certain
            if not is_certain:
                one = found[token]
                assert one["text"] == [text_of(index) for index in best]
                assert one["p"] == pytest.approx(base[token][best], abs=6e-5)
                assert one["p_mean"] == pytest.approx(mean[best], abs=6e-5)
                assert one["draws"] == [text_of(other[token].argmax()) for other in others]
                checked += 1
    assert checked > 20


def prompt_and_ids(record):
    tokenizer = tiny_tokenizer()
    turns = [{"role": "user", "content": record["question"]}]
    prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=False)
    return prompt, tokenizer.encode(record["response"], add_special_tokens=False)


def text_of(index):
    return tiny_tokenizer().decode([int(index)])
