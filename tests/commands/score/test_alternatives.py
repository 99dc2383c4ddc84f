"""What else might have been written: on the tiny model against brute force, and what becomes of it in records."""

import base64
import copy

import numpy as np
import pytest

from tests.engine import oracle
from tests.helpers import parsed, records, write_lines
from tests.tiny import quiet_model, tiny_tokenizer
from tokur_cli import Tokur
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.text.spelling import Spelling

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


def test_everything_else_is_as_without_them(run_tokur, tiny_folder, responses):
    plain = parsed(run_tokur("score", responses, "-m", tiny_folder, *OPTIONS[2:])[1])
    for record, expected in zip(
        parsed(run_tokur("score", responses, "-m", tiny_folder, *OPTIONS)[1]), plain, strict=True
    ):
        del record["tokur"]["alternatives"]
        assert record == expected


def test_they_are_left_behind_by_a_scoring_without_them_and_told_apart_when_resuming(
    run_tokur, tiny_folder, responses, tmp_path
):
    scored = tmp_path / "scored.jsonl"
    run_tokur("score", responses, "-m", tiny_folder, *OPTIONS, "-o", scored)
    whole = scored.read_bytes()
    scored.write_bytes(whole[: whole.index(b"\n") + 1])
    code, _, err = run_tokur("score", responses, "-m", tiny_folder, *OPTIONS[2:], "-o", scored, "--resume")
    assert (code, "alternatives 3, but this run has alternatives null" in err) == (1, True), err
    assert run_tokur("score", responses, "-m", tiny_folder, *OPTIONS, "-o", scored, "--resume")[0] == 0
    assert scored.read_bytes() == whole
    again = parsed(run_tokur("score", scored, "-m", tiny_folder, *OPTIONS[2:])[1])
    assert all("alternatives" not in record["tokur"] for record in again)


def test_generated_responses_have_them_too(run_tokur, tiny_folder, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", [{"question": "6 times 7?"}])
    options = ("-m", tiny_folder, "--max-new-tokens", 5, "--score", "--sigma", "0.1", "--alternatives", 2)
    code, out, err = run_tokur("generate", path, *options)
    assert (code, err) == (0, "")
    assert parsed(out)[0]["tokur"]["alternatives"]["at"]
    code, _, err = run_tokur("generate", path, *options, "--guide", "eu")
    assert (code, "contradicts --guide" in err) == (2, True), err


def test_of_a_log_those_are_taken_that_came(run_tokur, tmp_path):
    def place(token, *others):
        listed = [{"token": text, "logprob": float(np.log(p))} for text, p in others]
        own = next((one["logprob"] for one in listed if one["token"] == token), -9.0)
        return {"token": token, "logprob": own, "top_logprobs": listed}

    content = [
        place("It", ("It", 0.99), ("So", 0.005)),
        place(" is", (" was", 0.5), (" is", 0.3), (" be", 0.1)),
        place(" 7", (" 8", 0.99), (" 7", 0.005)),
        {"token": "!", "logprob": -0.5, "top_logprobs": []},
    ]
    row = {"id": "a", "question": "?", "response": "It is 7!", "logprobs": {"content": content}}
    path = write_lines(tmp_path / "in.jsonl", [row])
    code, out, err = run_tokur("score", path, "--from-logprobs", "--alternatives", 2)
    assert (code, err) == (0, "")
    assert parsed(out)[0]["tokur"]["alternatives"] == {
        "most": 2,
        "at": [
            {"token": 1, "text": [" was", " is"], "p": pytest.approx([0.5, 0.3])},
            {"token": 2, "text": [" 8", " 7"], "p": pytest.approx([0.99, 0.005])},
        ],
    }
    (without,) = parsed(run_tokur("score", path, "--from-logprobs")[1])
    assert {**without["tokur"], "alternatives": parsed(out)[0]["tokur"]["alternatives"]} == parsed(out)[0]["tokur"]


def test_the_terminal_and_notebooks_show_them_beside_the_least_sure_tokens(
    run_tokur, tiny_folder, responses, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "100")
    scored = tmp_path / "scored.jsonl"
    run_tokur("score", responses, "-m", tiny_folder, *OPTIONS, "-o", scored)
    code, out, err = run_tokur("heatmap", scored)
    assert (code, err) == (0, "")
    record = parsed(scored.read_text())[0]
    least_sure = int(np.argmax(record["tokur"]["tokens"]["eu"]))
    (others,) = [one for one in record["tokur"]["alternatives"]["at"] if one["token"] == least_sure]
    line = next(line for line in out.splitlines() if line.split()[:1] == [str(least_sure + 1)] and "‹" in line)
    assert f"{100 * others['p'][0]:.0f} % " in line
    (shown, *_) = Tokur(str(tiny_folder), alternatives=3, sigma=0.3, sampling="shared", dtype="float32").score(
        records(3)
    )
    assert dict(shown) == record
    figure = base64.b64decode(shown._repr_html_().partition("base64,")[2].partition('"')[0]).decode()
    assert f"{100 * others['p'][0]:.0f}&#160;%" in figure


def test_texts_of_tokens_have_their_spaces_and_special_tokens_their_names():
    spelling = Spelling(tiny_tokenizer())
    for index in range(259):
        text = spelling.text(index)
        assert text == tiny_tokenizer().decode([index])
    assert (spelling.text(258), spelling.text(10**6)) == ("<|im_end|>", "")
