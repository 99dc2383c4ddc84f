"""``tokur perturb`` and ``score --posterior`` from the command line."""

import copy
import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.engine import oracle
from tests.helpers import parsed, records, write_lines
from tests.tiny import quiet_model, tiny_tokenizer
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings


@pytest.fixture
def responses(tmp_path):
    rows = [{**row, "correct": number % 3 == 0} for number, row in enumerate(records(8))]
    return write_lines(tmp_path / "responses.jsonl", rows)


def test_perturb_a_record_a_matrix_tells_how_large_the_perturbation_is(run_tokur, tiny_folder):
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


def test_perturb_a_sweep_equals_brute_force_in_float64(run_tokur, tiny_folder, responses):
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


def test_perturb_calibration_is_within_its_tolerance_and_score_reads_it(run_tokur, tiny_folder, responses, tmp_path):
    folder = tmp_path / "calibrated"
    options = ("-m", tiny_folder, "--calibrate", "2E-2", responses, "-o", folder)
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
