"""``tokur perturb`` and ``score --posterior`` from the command line."""

import copy
import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from tests.engine import oracle
from tests.engine.more_families import more
from tests.helpers import parsed, records, write_lines
from tests.tiny import quiet_model, tiny_model, tiny_tokenizer
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings


@pytest.fixture
def responses(tmp_path):
    rows = [{**row, "correct": number % 3 == 0} for number, row in enumerate(records(8))]
    return write_lines(tmp_path / "responses.jsonl", rows)


@pytest.fixture
def posterior(run_tokur, tiny_folder, tmp_path):
    code, _, err = run_tokur("perturb", "-m", tiny_folder, "-o", tmp_path / "posterior", "--sigma", "0.3", "--seed", 5)
    assert code == 0, err
    return tmp_path / "posterior"


def test_a_record_a_matrix_tells_how_large_the_perturbation_is(run_tokur, tiny_folder):
    code, out, err = run_tokur("perturb", "-m", tiny_folder, "--rank", 4, "--sigma", 0.2)
    assert (code, err) == (0, "")
    model = quiet_model()
    posterior = build_posterior(model, PosteriorSettings(rank=4, sigma=0.2))
    rows = parsed(out)
    assert [row["matrix"] for row in rows] == [matrix.name for matrix in posterior.matrices]
    for row, matrix in zip(rows, posterior.matrices, strict=True):
        weight = model.get_submodule(matrix.name).weight.numpy().astype(np.float64)
        assert row["shape"] == list(weight.shape)
        # auto may have loaded the weights in bfloat16, which has 8 bits
        assert row["singular_values"] == pytest.approx(np.linalg.svd(weight, compute_uv=False)[:4], rel=1e-2)
        assert row["norm"] == pytest.approx(np.linalg.norm(weight), rel=1e-2)
        drawn = [np.linalg.norm(matrix.basis @ posterior.weight_noise(matrix, m).T) for m in range(300)]
        assert row["perturbation_norm"] == pytest.approx(np.mean(drawn), rel=0.02)
        assert row["relative_size"] == pytest.approx(row["perturbation_norm"] / row["norm"])


def test_scoring_with_a_kept_posterior_equals_scoring_with_its_settings(run_tokur, tiny_folder, responses, posterior):
    code, kept, err = run_tokur("score", responses, "--posterior", posterior)
    assert (code, err) == (0, "")
    _, afresh, _ = run_tokur("score", responses, "-m", tiny_folder, "--sigma", "0.3", "--seed", 5)
    assert kept == afresh
    assert parsed(kept)[0]["tokur"]["run"]["model"] == str(tiny_folder), "the posterior names the model"


def test_generating_with_a_kept_posterior_scores_as_score_does(run_tokur, tiny_folder, posterior, tmp_path):
    questions = write_lines(tmp_path / "questions.jsonl", [{"id": "a", "question": "1+1?"}])
    options = ("--max-new-tokens", 8, "--seed", 3, "--temperature", 1)
    _, at_once, _ = run_tokur("generate", questions, *options, "--score", "--posterior", posterior)
    _, responses, _ = run_tokur("generate", questions, *options, "-m", tiny_folder)
    (tmp_path / "generated.jsonl").write_text(responses)
    _, piped, _ = run_tokur("score", tmp_path / "generated.jsonl", "--posterior", posterior)
    assert parsed(at_once)[0]["tokur"]["run"] == parsed(piped)[0]["tokur"]["run"]
    assert at_once == piped


def test_score_refuses_a_posterior_of_other_weights(run_tokur, responses, posterior, tmp_path):
    tiny_model("llama", seed=1).save_pretrained(tmp_path / "other")
    tiny_tokenizer().save_pretrained(tmp_path / "other")
    code, out, err = run_tokur("score", responses, "--posterior", posterior, "-m", tmp_path / "other")
    assert (code, out) == (1, "")
    assert "not the ones that it was made of" in err


def test_a_sweep_equals_brute_force_in_float64(run_tokur, tiny_folder, responses):
    options = ("--sampling", "shared", "--dtype", "float32")
    code, out, err = run_tokur("perturb", "-m", tiny_folder, "--sweep", "0.05,0.4", responses, *options)
    assert (code, err) == (0, "")
    _, scored, _ = run_tokur("score", responses, "-m", tiny_folder, *options)
    model = quiet_model()
    exact = copy.deepcopy(model).double()
    tokenizer = tiny_tokenizer()
    rows = [json.loads(line) for line in responses.read_text().splitlines()]
    for result, sigma in zip(parsed(out), (0.05, 0.4), strict=True):
        posterior = build_posterior(model, PosteriorSettings(sigma=sigma))
        drawn = [oracle.fixed_draw(model, posterior, member) for member in range(2)]
        found = {name: [] for name in ("kl", "top1_agreement", "accuracy", "base_accuracy", "eu")}
        sums = []
        for row in rows:
            message = [{"role": "user", "content": row["question"]}]
            text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
            prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
            ids = tokenizer(row["response"], add_special_tokens=False)["input_ids"]
            base = oracle.log_probabilities(exact, prompt, ids)
            draws = [oracle.log_probabilities(one, prompt, ids) for one in drawn]
            quantities = oracle.reference_quantities(base, draws, ids)
            sums.append(quantities["eu"].sum())
            found["eu"] += quantities["eu"].tolist()
            for t, y in enumerate(ids):
                found["kl"].append(np.mean([(base[t].exp() * (base[t] - d[t])).sum().item() for d in draws]))
                found["top1_agreement"].append(np.mean([d[t].argmax() == base[t].argmax() for d in draws]))
                found["accuracy"].append(np.mean([d[t].argmax().item() == y for d in draws]))
                found["base_accuracy"].append(base[t].argmax().item() == y)
        assert (result["sigma"], result["responses"], result["tokens"]) == (sigma, len(rows), len(found["kl"]))
        for name, values in found.items():
            assert result[name] == pytest.approx(np.mean(values), abs=1e-5), name
        labels = [row["correct"] for row in rows]
        assert result["auroc"]["eu"] == pytest.approx(roc_auc_score(labels, -np.array(sums)))
    assert len(parsed(scored)) == len(rows)


def test_a_sweep_without_labels_has_no_auroc(run_tokur, tiny_folder, tmp_path):
    path = write_lines(tmp_path / "r.jsonl", records(3))
    _, out, _ = run_tokur("perturb", "-m", tiny_folder, "--sweep", "0.1", path)
    assert parsed(out)[0]["auroc"] is None


def test_calibration_is_within_its_tolerance_and_score_reads_it(run_tokur, tiny_folder, responses, tmp_path):
    folder = tmp_path / "calibrated"
    options = ("-m", tiny_folder, "--calibrate", 0.02, responses, "-o", folder)
    code, out, err = run_tokur("perturb", *options)
    assert code == 0, err
    rows = parsed(out)
    assert len(rows) < 10
    kept = json.loads((folder / "posterior.json").read_text())
    inside = [row["sigma"] for row in rows if row["kl"] <= 0.02]
    outside = [row["sigma"] for row in rows if row["kl"] > 0.02]
    assert kept["sigma"] == kept["calibration"]["sigma"] == max(inside)
    assert min(outside) / max(inside) <= 1.05
    code, scored, err = run_tokur("score", responses, "--posterior", folder)
    assert code == 0, err
    assert {row["tokur"]["run"]["sigma"] for row in parsed(scored)} == {kept["sigma"]}


def test_calibration_follows_the_scale_of_the_weights(run_tokur, tiny_folder, responses, tmp_path):
    """Dividing what enters W^Q and W^K by c and multiplying them by c changes no output; σ must grow with c."""
    model = quiet_model()
    for layer in model.model.layers:
        # input_layernorm feeds values too: they are scaled back like queries and keys
        layer.input_layernorm.weight /= 4
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.weight *= 4
    model.save_pretrained(tmp_path / "rescaled")
    tiny_tokenizer().save_pretrained(tmp_path / "rescaled")
    found = []
    for folder in (tiny_folder, tmp_path / "rescaled"):
        code, _, err = run_tokur(
            "perturb", "-m", folder, "--calibrate", responses, "--dtype", "float32", "-o", tmp_path / f"p{len(found)}"
        )
        assert code == 0, err
        found.append(json.loads((tmp_path / f"p{len(found)}" / "posterior.json").read_text())["sigma"])
    assert found[1] == pytest.approx(4 * found[0], rel=0.06)


def test_labels_are_read_as_by_the_other_commands(run_tokur, tiny_folder, tmp_path):
    rows = [{"question": "?", "response": text, "correct": "n/a"} for text in ("a", "bc", "So it is 7!")]
    judged = [{**row, "judge": {"ok": row["response"] == "bc"}} for row in rows]
    plain = write_lines(tmp_path / "plain.jsonl", [{**row, "correct": row["response"] == "bc"} for row in rows])
    options = ("perturb", "-m", tiny_folder, "--sweep", "0.1")
    _, expected, _ = run_tokur(*options, plain)
    code, out, err = run_tokur(*options, write_lines(tmp_path / "r.jsonl", judged), "--label-field", "judge.ok")
    assert (code, out) == (0, expected), err
    assert parsed(out)[0]["auroc"] is not None
    compared = [{"question": "?", "response": row["response"], "reference": "bc"} for row in rows]
    code, out, err = run_tokur(*options, write_lines(tmp_path / "c.jsonl", compared), "--answer", "^(.*)$")
    assert (code, out) == (0, expected), err


def test_a_strength_that_breaks_the_model_has_no_auroc(run_tokur, tiny_folder, tmp_path):
    rows = [{"question": "?", "response": text, "correct": text == "a"} for text in ("a", "bc")]
    code, out, err = run_tokur("perturb", "-m", tiny_folder, "--sweep", "1e30", write_lines(tmp_path / "r.jsonl", rows))
    assert code == 0, err
    assert parsed(out)[0]["tu"] is None
    assert parsed(out)[0]["auroc"] == {"tu": None, "au": None, "eu": None}


def test_a_folder_that_is_there_is_refused_before_a_model_is_loaded(run_tokur, posterior):
    before = (posterior / "posterior.json").read_text()
    code, out, err = run_tokur("perturb", "-m", "there-is-no-such-model", "-o", posterior)
    assert (code, out) == (2, "")
    assert "--force" in err
    assert (posterior / "posterior.json").read_text() == before


def test_bad_responses_are_named_and_skipped_on_demand(run_tokur, tiny_folder, tmp_path):
    path = write_lines(tmp_path / "r.jsonl", [*records(2), b"{broken\n", *records(2, seed=1)])
    code, _, err = run_tokur("perturb", "-m", tiny_folder, "--sweep", "0.1", path)
    assert code == 1
    assert f"{path}:3:" in err
    code, out, err = run_tokur("perturb", "-m", tiny_folder, "--sweep", "0.1", path, "--skip-invalid")
    assert code == 3
    assert parsed(out)[0]["responses"] == 4


def test_an_adapters_perturbation_is_as_large_as_the_record_says(run_tokur, tiny_folder, posterior):
    from safetensors.torch import load_file

    _, out, _ = run_tokur("perturb", "-m", tiny_folder, "--sigma", "0.3")
    expected = {row["matrix"]: row["perturbation_norm"] for row in parsed(out)}
    sizes = {name: [] for name in expected}
    for member in range(2):
        tensors = load_file(posterior / f"draw-{member}" / "adapter_model.safetensors")
        for name in expected:
            down, up = (tensors[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")
            sizes[name].append(torch.linalg.norm(up @ down).item())
    for name, values in sizes.items():
        assert np.mean(values) == pytest.approx(expected[name], rel=0.15)


def folder_of(family, place):
    more(family).save_pretrained(place)
    tiny_tokenizer().save_pretrained(place)
    return place


def test_how_many_layers_have_attention_to_perturb_is_said(run_tokur, responses, tmp_path):
    folder = folder_of("qwen3_5_text", tmp_path / "hybrid")
    sentence = "perturbs 1 of 2 layers: the others have no q_proj or k_proj"
    code, out, err = run_tokur("perturb", "-m", folder, "-o", tmp_path / "posterior")
    assert code == 0, err
    assert err.splitlines()[0] == f"tokur perturb: {sentence}"
    matrices = [row["matrix"] for row in parsed(out)]
    assert matrices == [f"model.layers.1.self_attn.{part}_proj" for part in "qk"]
    assert parsed(out)[0]["shape"] == [32, 32], "the queries' rows without those of the gate"
    for options in (("-m", folder), ("--posterior", tmp_path / "posterior")):
        code, _, err = run_tokur("score", responses, *options, "--no-tokens")
        assert (code, err) == (0, f"tokur score: {sentence}\n")
    _, _, err = run_tokur("score", responses, "-m", folder, "--no-tokens", "--layers", "1:")
    assert err == "", "who chooses layers knows"


def test_a_family_that_would_be_wrong_is_refused_before_any_record_is_written(run_tokur, responses, tmp_path):
    folder = folder_of("bart", tmp_path / "bart")
    code, out, err = run_tokur("score", responses, "-m", folder, "--no-tokens")
    assert (code, len(parsed(out)), err) == (0, 8, "")
    questions = write_lines(tmp_path / "questions.jsonl", [{"id": "a", "question": "1+1?"}])
    code, out, err = run_tokur("generate", questions, "-m", folder)
    assert (code, out) == (1, "")
    assert err.startswith(f"tokur generate: {folder} (bart): tokur's own forward pass differs from the model's by ")
    assert err.endswith("or --backend vllm; tokur score takes responses of any program\n")
