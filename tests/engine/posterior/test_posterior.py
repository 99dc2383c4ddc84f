import copy

import numpy as np
import pytest
import torch

from tests.engine.posterior.test_basis import expected
from tests.tiny import tiny_model
from tokur_cli.engine.posterior.posterior import build_posterior, size_of
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.records.errors import TokurError


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi3", "gpt_neox"])
def test_build_posterior_spans_the_top_left_singular_vectors(family):
    for matrix in build_posterior(tiny_model(family), PosteriorSettings(rank=5)).matrices:
        np.testing.assert_allclose(matrix.basis.numpy(), expected(matrix.weight(), 5), atol=1e-6)
        values = np.linalg.svd(matrix.weight().double().numpy())[1].tolist()
        assert size_of(matrix) == (pytest.approx(values[:5], rel=1e-5), pytest.approx(np.linalg.norm(values), rel=1e-5))


def test_weight_noise_has_the_posteriors_scale_and_differs_between_matrices_and_members():
    posterior = build_posterior(tiny_model("llama"), PosteriorSettings(sigma=0.25))
    noise = [posterior.weight_noise(matrix, member) for matrix in posterior.matrices for member in range(3)]
    stacked = torch.stack(noise)
    assert stacked.shape == (12, 32, 8)
    assert stacked.std().item() == pytest.approx(0.25, rel=0.05)
    assert np.abs(np.corrcoef(stacked.flatten(1)) - np.eye(12)).max() < 0.25


def test_step_noise_is_of_one_place_alone():
    """Every seed, matrix, member and step has its own, and the draw that holds in the prompt another one still."""
    seeds = [build_posterior(tiny_model("llama"), PosteriorSettings(sigma=1.0, seed=seed)) for seed in (0, 1)]
    places = [(posterior, matrix, member) for posterior in seeds for matrix in posterior.matrices for member in (0, 1)]
    tables = np.stack([posterior.step_noise(matrix, member, 1000).numpy() for posterior, matrix, member in places])
    assert tables.shape == (16, 1000, 8)
    assert tables.std() == pytest.approx(1, rel=0.02)
    moved = np.stack([tables[0][1:], tables[0][:-1]])  # a step and the one after it
    prompt = np.stack([posterior.weight_noise(matrix, member).numpy() for posterior, matrix, member in places])
    for stacked in (tables, moved, np.concatenate([tables[:, :32], prompt])):
        correlations = np.corrcoef(stacked.reshape(len(stacked), -1))
        assert np.abs(correlations - np.eye(len(stacked))).max() < 5 / np.sqrt(stacked[0].size)


def test_build_posterior_without_a_projection_changes_no_other():
    model = tiny_model("llama")
    both, queries = build_posterior(model), build_posterior(model, PosteriorSettings(targets="q_proj"))
    by_name = {matrix.name: matrix for matrix in both.matrices}
    for matrix in queries.matrices:
        assert torch.equal(queries.weight_noise(matrix, 0), both.weight_noise(by_name[matrix.name], 0))
        assert torch.equal(matrix.basis, by_name[matrix.name].basis)


def test_build_posterior_takes_layers_as_a_slice_and_change_no_noise():
    model = tiny_model("llama", num_hidden_layers=4)
    whole = {matrix.name: matrix for matrix in build_posterior(model).matrices}
    for layers, kept in [("1:", {1, 2, 3}), (":1", {0}), ("-2:", {2, 3}), ("1:3", {1, 2}), (":", {0, 1, 2, 3})]:
        posterior = build_posterior(model, PosteriorSettings(layers=layers))
        assert {matrix.layer for matrix in posterior.matrices} == {("model.layers", i) for i in kept}
        for matrix in posterior.matrices:
            assert torch.equal(posterior.weight_noise(matrix, 1), posterior.weight_noise(whole[matrix.name], 1))


@pytest.mark.parametrize(
    ("layers", "message"), [("4:", "has layers 0 to 3"), ("2:1", "hold none"), ("1-3", "is not a slice")]
)
def test_build_posterior_says_impossible_layers_and_ranks(layers, message):
    with pytest.raises(TokurError, match=message):
        build_posterior(tiny_model("llama", num_hidden_layers=4), PosteriorSettings(layers=layers))
    with pytest.raises(TokurError, match=r"rank 17 is not possible: .*k_proj is 16 × 32"):
        build_posterior(tiny_model("llama"), PosteriorSettings(rank=17))


def test_build_posterior_uses_a_cached_basis_for_the_same_weights_only(tmp_path):
    said = []
    model = tiny_model("llama")
    first = build_posterior(model, cache=tmp_path, progress=said.append)
    second = build_posterior(model, cache=tmp_path, progress=said.append)
    assert len(said) == 1
    assert len(list(tmp_path.iterdir())) == 1
    for a, b in zip(first.matrices, second.matrices, strict=True):
        assert torch.equal(a.basis, b.basis)
    changed = copy.deepcopy(model)
    changed.model.layers[0].self_attn.q_proj.weight[0, 0] += 1e-3
    third = build_posterior(changed, cache=tmp_path, progress=said.append)
    assert len(said) == 2
    assert not torch.equal(first.matrices[0].basis, third.matrices[0].basis)
    for number, other in enumerate((PosteriorSettings(rank=4), PosteriorSettings(targets="v_proj")), start=3):
        build_posterior(model, other, cache=tmp_path, progress=said.append)
        assert len(said) == number
