"""``tokur score``: records, prompts, steps and calibrated probabilities."""

import copy
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.engine import oracle
from tests.helpers import parsed, records, start, write_lines
from tests.tiny import CHAT_TEMPLATE, quiet_model, tiny_model_folder, tiny_tokenizer
from tokur_cli.commands.shared.digests import content_digest, model_digest
from tokur_cli.commands.shared.prompts import MATH_TEMPLATE
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.scores.catalogue import CATALOGUE


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "responses.jsonl", records(20))


def test_scored_records_keep_their_fields_and_order_and_add_one_key(run_tokur, tiny_folder, responses):
    code, out, err = run_tokur("score", responses, "-m", tiny_folder)
    assert (code, err) == (0, "")
    for line, scored, given in zip(out.splitlines(), parsed(out), records(20), strict=True):
        assert line.startswith(json.dumps(given, separators=(",", ":"))[:-1])
        assert {name: value for name, value in scored.items() if name != "tokur"} == given
        tokur = scored["tokur"]
        assert list(tokur) == ["schema", "tokens", "scores", "run"]
        tokens = tokur["tokens"]
        assert list(tokens) == [
            "offsets", "logprob", "entropy", "tu", "au", "eu", "self_certainty", "deepconf"
        ]  # fmt: skip
        assert {len(values) for values in tokens.values()} == {len(given["response"])}
        assert "".join(given["response"][start:end] for start, end in tokens["offsets"]) == given["response"]
        assert list(tokur["scores"]) == [name for name, score in CATALOGUE.items() if score.default]
        assert tokur["scores"]["eu"] == pytest.approx(math.fsum(tokens["eu"]), rel=1e-6)
        assert tokur["scores"]["ll"] == pytest.approx(np.mean(tokens["logprob"]), rel=1e-6)
        assert tokur["scores"]["neg_length"] == -len(given["response"])
        assert tokur["run"] == {
            "model": str(tiny_folder), "revision": None, "dtype": tokur["run"]["dtype"], "rank": 8, "sigma": 0.1,
            "draws": 2, "sampling": "stepwise", "estimator": "paper",
            "targets": "q_proj,k_proj", "layers": None, "seed": 0,
            "version": tokur["run"]["version"], "model_digest": model_digest(str(tiny_folder)),
            "prompts": {
                "template": "chat", "system": None, "few_shot": None,
                "chat_template_digest": content_digest(CHAT_TEMPLATE),
            },
        }  # fmt: skip


def test_score_exact_ids_are_scored_as_they_are(run_tokur, tiny_folder, tmp_path):
    """Text and ids of the same tokens agree; a finished response has its end token scored too."""
    tokenizer = tiny_tokenizer()
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    exact = {
        "prompt_token_ids": tokenizer(prompt)["input_ids"],
        "token_ids": tokenizer("Hello 🙂<|im_end|>")["input_ids"],
        "model": str(tiny_folder),
    }
    rows = [
        {"question": "Hi", "response": "Hello 🙂", "tokur": {"finish_reason": "stop"}},
        {"response": "Hello 🙂", "tokur": exact},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello 🙂<|im_end|>"}]},
    ]
    code, out, err = run_tokur(
        "score", write_lines(tmp_path / "in.jsonl", rows), "-m", tiny_folder, "--dtype", "float32"
    )
    assert (code, err) == (0, "")
    text, ids, messages = (record["tokur"]["tokens"] for record in parsed(out))
    assert ids["eu"] == pytest.approx(text["eu"], abs=1e-5)
    assert messages["eu"] == pytest.approx(text["eu"], abs=1e-5)
    assert ids["offsets"] == text["offsets"] == [[i, i + 1] for i in range(6)] + [[6, 7]] * 4 + [[7, 7]]


@pytest.mark.parametrize("has_beginning", [True, False])
def test_score_a_prompt_that_begins_a_sequence_gets_no_second_beginning(run_tokur, tmp_path, has_beginning):
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    folder = tiny_model_folder(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    token, number = tokenizer.bos_token, tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{token} $A", special_tokens=[(token, number)]
    )
    tokenizer.save_pretrained(folder)
    asked = "What is 1+1?"
    prompt = token + asked if has_beginning else asked
    exact = [number, *tokenizer(asked, add_special_tokens=False)["input_ids"]]
    path = write_lines(tmp_path / "in.jsonl", [{"prompt": prompt}])
    code, out, err = run_tokur("generate", path, "-m", folder, "--max-new-tokens", "2")
    assert code == 0, err
    assert parsed(out)[0]["tokur"]["prompt_token_ids"] == exact


def test_score_templates_decide_what_the_response_follows(run_tokur, roomy_folder, tmp_path):
    """The same response after the same text scores the same, however that text came about."""
    question = "What is 1+1?"
    (tmp_path / "t.jinja").write_text("{{ unit }}: {{ question }}\n")

    def chat(user, system=""):
        return f"{system}<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"

    for options, prompt in (
        ([], chat(question)),
        (["--template", "raw"], question),
        (["--template", "math"], chat(MATH_TEMPLATE.replace("{{ question }}", question))),
        (["--template", tmp_path / "t.jinja"], chat(f"maths: {question}")),
        (["--system", "Be brief."], chat(question, "<|im_start|>system\nBe brief.<|im_end|>\n")),
    ):
        scored = []
        for row, extra in (({"question": question, "unit": "maths"}, options), ({"prompt": prompt}, [])):
            path = write_lines(tmp_path / "in.jsonl", [{**row, "response": "2"}])
            code, out, err = run_tokur("score", path, "-m", roomy_folder, *extra)
            assert (code, "is taken word for word" in err) == (0, row.get("prompt") == question), err
            scored.append(parsed(out)[0]["tokur"]["tokens"])
        assert scored[0] == scored[1], options


TEXT = "We add. 2 + 3 = 5\nSo 5.\n\nDone"
BY = {
    "auto": ["We add. ", "2 + 3 = 5\n", "So 5.\n\n", "Done"],
    "lines": ["We add. 2 + 3 = 5\n", "So 5.\n\n", "Done"],
    r"\n\n": ["We add. 2 + 3 = 5\nSo 5.\n\n", "Done"],
}


@pytest.fixture
def steps_file(tmp_path):
    return write_lines(tmp_path / "response.jsonl", [{"question": "2 + 3?", "response": TEXT}])


@pytest.mark.parametrize("by", BY)
def test_score_steps_are_cut_as_asked(run_tokur, tiny_folder, steps_file, by):
    code, out, err = run_tokur("score", steps_file, "-m", tiny_folder, f"--steps={by}")
    assert code == 0, err
    tokur = parsed(out)[0]["tokur"]
    assert list(tokur) == ["schema", "tokens", "step_by", "steps", "scores", "run"]
    assert tokur["step_by"] == by
    assert [TEXT[step["start"] : step["end"]] for step in tokur["steps"]] == BY[by]


@pytest.fixture(scope="module")
def labelled():
    return [{**record, "correct": len(record["response"]) % 3 == 0} for record in records(40)]


@pytest.fixture
def calibration(run_tokur, tiny_folder, labelled, tmp_path):
    """The records scored, and what was fitted to them."""
    _, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", labelled), "-m", tiny_folder)
    path = write_lines(tmp_path / "scored.jsonl", parsed(out))
    code, _, err = run_tokur("evaluate", path, "--fit", tmp_path / "fit.json", "--bootstrap", 0)
    assert code == 0, err
    return parsed(out), tmp_path / "fit.json"


def test_score_p_correct_is_scikit_learns_probability(run_tokur, tiny_folder, calibration, tmp_path):
    scored, file = calibration
    code, out, err = run_tokur("score", tmp_path / "in.jsonl", "-m", tiny_folder, "--calibration", file)
    assert code == 0, err
    again = parsed(out)
    values = np.array([[one["tokur"]["scores"][name] for name in ("eu", "ll_sum", "neg_length")] for one in scored])
    label = [one["correct"] for one in scored]
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(values, label)
    found = [one["tokur"]["scores"]["p_correct"] for one in again]
    assert found == pytest.approx(model.predict_proba(values)[:, 1], abs=1e-4)
    for one, before in zip(again, scored, strict=True):
        run = one["tokur"]["run"]
        assert len(run.pop("calibration")) == 16
        assert run == before["tokur"]["run"]
        assert list(one["tokur"]["scores"]) == [*before["tokur"]["scores"], "p_correct"]


@pytest.mark.parametrize("switch", [[], ["--dry-run"]])
def test_score_names_the_model_that_records_of_another_are_parted_by(run_tokur, tiny_folder, tmp_path, switch):
    rows = [{**row, "model": name} for row, name in zip(records(2), (str(tiny_folder), "c/d"), strict=True)]
    code, _, err = run_tokur("score", write_lines(tmp_path / "two.jsonl", rows), *switch)
    assert code == 1
    assert "two.jsonl:2: is of the model c/d" in err
    assert "part them, as with grep 'c/d', or take one -m MODEL" in err


OPTIONS = ("--alternatives", 3, "--sampling", "shared", "--sigma", "0.3", "--dtype", "float32")


@pytest.fixture
def three(tmp_path):
    return write_lines(tmp_path / "in.jsonl", records(3))


def test_alternatives_are_those_of_brute_force_in_float64(run_tokur, tiny_folder, three):
    code, out, err = run_tokur("score", three, "-m", tiny_folder, *OPTIONS)
    assert (code, err) == (0, "")
    model, tokenizer = quiet_model(), tiny_tokenizer()
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3))
    exact, draws = copy.deepcopy(model).double(), [oracle.fixed_draw(model, posterior, m) for m in range(2)]
    checked = 0
    for record in parsed(out):
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": record["question"]}], add_generation_prompt=True, return_dict=False
        )
        ids = tokenizer.encode(record["response"], add_special_tokens=False)
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


def text_of(index):
    return tiny_tokenizer().decode([int(index)])


WARM, MORE, GROWTH_MEGABYTES = 300, 600, 25


def megabytes(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_score_peak_memory_does_not_grow_with_the_number_of_records(tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", records(WARM + MORE + 300))
    options = ["--no-tokens", "--dtype", "bfloat16", "--batch-tokens", 1500]
    process = start(["score", given, "-m", tiny_folder, *options], stdout=subprocess.PIPE)
    ids, peaks = [], []
    for count in (WARM, MORE):
        ids += [json.loads(process.stdout.readline())["id"] for _ in range(count)]
        peaks.append(megabytes(process))
    process.kill()
    process.communicate()
    assert ids == [f"q{number}" for number in range(WARM + MORE)]
    assert peaks[1] - peaks[0] < GROWTH_MEGABYTES
