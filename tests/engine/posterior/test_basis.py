"""U′ is what NumPy's decomposition in float64 has, and its file is used where it is what was written."""

import hashlib
import json
import random

import numpy as np
import pytest
import torch

from tests.tiny import tiny_model
from tokur_cli.engine.posterior import basis
from tokur_cli.engine.posterior.basis import left_singular_vectors, weight_digest
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.projections import Projection, find_projections


def weight_of(rows, columns, values):
    """A weight with these singular values, those at the front the largest."""
    generator = torch.Generator().manual_seed(rows)
    left, right = (torch.linalg.qr(torch.randn(size, len(values), generator=generator))[0] for size in (rows, columns))
    return left * torch.tensor(values) @ right.T


def expected(weight, rank):
    left = np.linalg.svd(weight.double().numpy(), full_matrices=False)[0][:, :rank]
    largest = np.take_along_axis(left, np.abs(left).argmax(0)[None], 0)
    return left * np.sign(largest)


def test_left_singular_vectors_of_close_values_are_the_same_on_every_machine():
    weight = torch.randn(576, 192, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(left_singular_vectors(weight, 8).numpy(), expected(weight, 8), atol=1e-7)


@pytest.mark.parametrize(
    ("rows", "columns", "values"),
    [
        (300, 1100, np.arange(1, 301) ** -0.5),  # falling slowly, as a model's do
        (1100, 300, 0.99 ** np.arange(300)),
        (1100, 300, [3.0, 2.999, 2.998, *(2 * np.arange(1, 298) ** -0.5)]),  # three that nearly coincide
        (300, 1100, 2.0 ** -np.arange(12)),  # of rank 12, less than a block
    ],
    ids=["slow", "tall", "close", "low rank"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_left_singular_vectors_of_a_large_weight_come_without_decomposing_it_whole(
    rows, columns, values, dtype, monkeypatch
):
    weight = weight_of(rows, columns, np.asarray(values, np.float32).tolist()).to(dtype)
    at_first = expected(weight.float(), 8)
    monkeypatch.setattr(torch.linalg, "svd", None)
    np.testing.assert_allclose(left_singular_vectors(weight, 8).numpy(), at_first, atol=1e-7)


def test_left_singular_vectors_of_weights_that_arpack_gives_up_on():
    flat = torch.randn(80, 1100, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(left_singular_vectors(flat, 8).numpy(), expected(flat, 8), atol=1e-7)
    most = left_singular_vectors(torch.randn(300, 1100, generator=torch.Generator().manual_seed(0)), 300)
    np.testing.assert_allclose(most.T @ most, np.eye(300), atol=1e-5)
    nothing = left_singular_vectors(torch.zeros(1100, 1100), 2)
    np.testing.assert_allclose(nothing.T @ nothing, np.eye(2), atol=1e-5)


@pytest.fixture
def saved(tmp_path):
    """A model, the file of its basis in the cache, and what that must give."""
    model = tiny_model("llama")
    posterior = build_posterior(model, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    return model, file, {matrix.name: matrix.basis for matrix in posterior.matrices}


def read_again(model, file):
    """Return the bases, and whether they were computed."""
    computed = []
    posterior = build_posterior(model, cache=file.parent, progress=computed.append)
    return {matrix.name: matrix.basis for matrix in posterior.matrices}, bool(computed)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_read_basis_notices_a_flipped_bit_wherever_it_is(saved):
    """In the header every ninth byte, of the numbers a sample."""
    model, file, correct = saved
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    named = (
        f"{name} {(*each.shape,)} torch.float32\n".encode() + each.numpy().tobytes()
        for name, each in sorted(correct.items())
    )
    checksum = hashlib.blake2b(b"".join(named), digest_size=16).hexdigest()
    assert json.loads(whole[8:header])["__metadata__"] == {"blake2b": checksum}, "which an older file has"
    rng = random.Random(0)
    for place in [*range(0, header, 9), *rng.sample(range(header, len(whole)), 20)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        bases, computed = read_again(model, file)
        assert same(bases, correct), f"byte {place}"
        assert computed or place < header
        assert file.read_bytes() == (whole if computed else damaged)


def test_weight_digest_is_that_of_names_shapes_and_entries_at_even_distances_and_will_stay_so():
    def digest(name, *shape):
        module = torch.nn.Module()
        module.register_module(name, torch.nn.Linear(*shape[::-1], bias=False))
        module.get_submodule(name).weight.data = torch.arange(float(np.prod(shape))).reshape(shape) % 256
        return weight_digest(module, [])

    assert len({digest("up", 2, 3), digest("up", 3, 2), digest("down", 2, 3)}) == 3
    for size, step in ((6, 1), (8191, 1), (8192, 2), (12_287, 2), (12_288, 3)):
        bfloat16 = (np.arange(size, dtype="<f4") % 256).view("<u4") >> 16
        parts = f"up.weight (1, {size}) torch.bfloat16\n".encode(), bfloat16[::step].astype("<u2").tobytes()
        assert digest("up", 1, size) == hashlib.sha256(b"".join(parts)).hexdigest()


class Packed(torch.nn.Module):  # a linear map that some library quantised
    in_features, out_features = 200, 2

    def __init__(self):
        super().__init__()
        self.register_buffer("packed", torch.arange(400, dtype=torch.uint8).view(2, 200))

    def forward(self, rows):
        return rows @ self.packed.float().T


def test_weight_digest_of_a_quantised_weight_is_of_what_is_kept_and_of_each_64th_column_and_will_stay_so():
    model = torch.nn.Sequential(Packed())
    kept = np.arange(400).astype(np.uint8).reshape(2, 200)
    columns = (kept[:, ::64].astype("<f4").view("<u4") >> 16).astype("<u2")  # exact in bfloat16
    parts = "q (2, 200)\nq (2, 4) torch.bfloat16\n", columns, "q (2, 200) torch.uint8\n", kept
    expected = hashlib.sha256(b"".join(x.encode() if isinstance(x, str) else x.tobytes() for x in parts)).hexdigest()
    assert weight_digest(model, [Projection("q", "0", model[0], None, None, False, torch.float32)]) == expected


def test_weight_digest_tells_what_rounding_to_bfloat16_would_hide_only_where_it_is_asked_to(monkeypatch):
    monkeypatch.setattr(basis, "_SAMPLED", 2)  # of a perturbed weight all entries count
    model = tiny_model("llama")
    projections = find_projections(model)
    before = weight_digest(model, projections), weight_digest(model, projections, rounded=False)
    model.model.layers[0].self_attn.q_proj.weight[-1, -1] *= 1 + 1e-6
    after = weight_digest(model, projections), weight_digest(model, projections, rounded=False)
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)
