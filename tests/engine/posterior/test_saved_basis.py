"""A basis in the cache is used where it is what was written, and computed again where it is not."""

import random

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.commands.score.test_score import records, write_lines
from tests.tiny import tiny_model
from tokur_cli.engine.posterior.posterior import build_posterior


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


@pytest.fixture
def saved(model, tmp_path):
    """The file in the cache, and what it must give."""
    posterior = build_posterior(model, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    return file, {matrix.name: matrix.basis for matrix in posterior.matrices}


def read_again(model, file):
    """Return the bases, what was said, and whether the basis was computed."""
    notes, computed = [], []
    posterior = build_posterior(model, cache=file.parent, progress=computed.append, note=notes.append)
    return {matrix.name: matrix.basis for matrix in posterior.matrices}, notes, bool(computed)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_flipped_bit_is_noticed_wherever_it_is(model, saved):
    """In the header every third byte, of the numbers a sample."""
    file, right = saved
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    rng = random.Random(0)
    places = [*range(0, header, 3), *rng.sample(range(header, len(whole)), 40)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        bases, notes, computed = read_again(model, file)
        assert same(bases, right), f"byte {place}"
        assert computed or not notes
        if place >= header:
            assert notes == [f"{file}: is damaged (its checksum does not fit): the basis is computed again"]
        assert file.read_bytes() == (whole if computed else damaged)


def test_a_name_that_is_damaged_costs_a_computation_alone(model, saved):
    file, right = saved
    file.write_bytes(file.read_bytes().replace(b"layers.0.self_attn.k_proj", b"layers.0.self_attn.k_prok"))
    bases, notes, computed = read_again(model, file)
    assert same(bases, right)
    assert computed
    assert len(notes) == 1
    assert same(read_again(model, file)[0], right)
    assert read_again(model, file)[1:] == ([], False)


def test_a_basis_saved_without_a_checksum_is_computed_again_and_saved_with_one(model, saved):
    file, right = saved
    save_file({name: basis + 0.5 for name, basis in right.items()}, file)
    bases, notes, computed = read_again(model, file)
    assert same(bases, right)
    assert (notes, computed) == ([], True)
    assert same(load_file(file), right)
    assert read_again(model, file)[1:] == ([], False)


def test_standard_error_tells_of_it_and_the_scores_are_right(run_tokur, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "cache"))
    given = write_lines(tmp_path / "in", records(2))
    command = ["score", "-m", tiny_folder, "--no-tokens", given]
    code, right, err = run_tokur(*command)
    assert (code, err) == (0, "")
    (file,) = (tmp_path / "cache" / "bases").iterdir()
    data = bytearray(file.read_bytes())
    data[-1] ^= 0x40
    file.write_bytes(data)
    said = f"tokur score: {file}: is damaged (its checksum does not fit): the basis is computed again\n"
    assert run_tokur(*command) == (0, right, said)
    assert run_tokur(*command) == (0, right, "")
