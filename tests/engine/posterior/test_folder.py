"""Folders of posteriors: stock PEFT computes what the engine does, and other weights are refused."""

import copy
import hashlib
import json
import math
import re
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine import oracle
from tests.tiny import FAMILIES, tiny_model
from tokur_cli.engine.posterior.folder import keep_posterior, load_posterior, read_description, weight_fingerprint
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError, UsageError

RESPONSE = TokenizedResponse([1, 2, 3, 4], [50, 60, 70, 80, 90])


def keep(folder, model, posterior, **options):
    keep_posterior(str(folder), model, posterior, draws=2, model_name="tiny", revision=None, **options)


def peft_quantities(model, folder, response):
    """TU, AU and EU from plain forward passes of stock PEFT with the adapters of a folder."""
    peft = pytest.importorskip("peft")
    draws = []
    for member in range(2):
        adapted = peft.PeftModel.from_pretrained(copy.deepcopy(model), folder / f"draw-{member}").eval()
        draws.append(oracle.log_probabilities(adapted, response.prompt_ids, response.response_ids))
    return oracle.reference_quantities(draws[0], draws, response.response_ids)


@pytest.mark.parametrize("layers", [None, "1:"])
@pytest.mark.parametrize("family", FAMILIES)
def test_stock_peft_with_the_adapters_gives_the_shared_draws(family, layers, tmp_path):
    model = tiny_model(family)
    posterior = build_posterior(model, PosteriorSettings(sigma=0.3, seed=4, layers=layers))
    keep(tmp_path / "posterior", model, posterior)
    got = dict(Scorer(model, Draws(posterior, 2), sampling="shared").score([RESPONSE]))[0]
    expected = peft_quantities(model, tmp_path / "posterior", RESPONSE)
    for name in ("tu", "au", "eu"):
        assert got[name] == pytest.approx(expected[name], abs=1e-4)
    assert expected["eu"].max() > 1e-3


def test_stock_peft_perturbs_the_targets_only(tmp_path):
    """Two attention layers' queries and a projection that shares its name's end with one that is not perturbed."""
    model = tiny_model("llama")
    posterior = build_posterior(
        model, PosteriorSettings(sigma=0.3, targets="model.layers.0.self_attn.o_proj,model.layers.1.*.q_proj")
    )
    keep(tmp_path / "posterior", model, posterior)
    got = dict(Scorer(model, Draws(posterior, 2), sampling="shared").score([RESPONSE]))[0]
    expected = peft_quantities(model, tmp_path / "posterior", RESPONSE)
    assert got["eu"] == pytest.approx(expected["eu"], abs=1e-4)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has permissions")
def test_whoever_may_read_the_folder_may_read_its_files(tmp_path):
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model))
    (tmp_path / "ours").touch()
    modes = {file.stat().st_mode for file in (tmp_path / "posterior").rglob("*") if file.is_file()}
    assert modes == {(tmp_path / "ours").stat().st_mode}


def test_a_kept_posterior_is_the_one_that_was_made(tmp_path):
    model = tiny_model("llama")
    made = build_posterior(model, PosteriorSettings(rank=5, sigma=0.2, seed=7, targets="q_proj", layers="1:"))
    keep(tmp_path / "posterior", model, made, calibration={"sigma": 0.2, "tolerance": 0.05})
    read = load_posterior(str(tmp_path / "posterior"), model, "tiny")
    assert (read.rank, read.sigma, read.seed, read.targets, read.layers) == (5, 0.2, 7, "q_proj", "1:")
    assert read_description(str(tmp_path / "posterior")).calibration == {"sigma": 0.2, "tolerance": 0.05}
    for ours, theirs in zip(read.matrices, made.matrices, strict=True):
        assert ours.name == theirs.name
        assert torch.equal(ours.basis, theirs.basis)
        assert torch.equal(read.weight_noise(ours, 1), made.weight_noise(theirs, 1))


@pytest.mark.parametrize(
    "place", ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj", "model.embed_tokens"]
)
def test_changed_weights_are_refused_wherever_they_are(place, tmp_path):
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model))
    changed = copy.deepcopy(model)
    weight = changed.get_submodule(place).weight
    weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    with pytest.raises(TokurError, match="is of tiny, and the weights of other are not the ones"):
        load_posterior(str(tmp_path / "posterior"), changed, "other")


def test_one_changed_number_of_a_perturbed_weight_is_enough(tmp_path, monkeypatch):
    """However few stand for the other weights."""
    monkeypatch.setattr("tokur_cli.engine.posterior.folder._SAMPLED", 4)
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model))
    changed = copy.deepcopy(model)
    changed.model.layers[1].self_attn.k_proj.weight[3, 5] += 0.5
    with pytest.raises(TokurError, match="is of tiny, and the weights of other are not the ones"):
        load_posterior(str(tmp_path / "posterior"), changed, "other")


def test_the_same_numbers_under_another_name_or_in_another_shape_are_other_weights():
    numbers = torch.arange(6.0)

    def fingerprint(name, *shape):
        module = torch.nn.Module()
        module.register_module(name, torch.nn.Linear(*shape[::-1], bias=False))
        module.get_submodule(name).weight.data = numbers.reshape(shape)
        return weight_fingerprint(module, [])

    assert len({fingerprint("up", 2, 3), fingerprint("up", 3, 2), fingerprint("down", 2, 3)}) == 3
    assert fingerprint("up", 2, 3) == fingerprint("up", 2, 3)


@pytest.mark.parametrize("other", ["gpt2", "qwen3"])
def test_another_model_is_refused(other, tmp_path):
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model))
    with pytest.raises(TokurError, match="is of tiny, and the weights of other are not the ones"):
        load_posterior(str(tmp_path / "posterior"), tiny_model(other), "other")


def test_the_same_weights_in_another_dtype_are_accepted(tmp_path):
    model = tiny_model("llama").bfloat16()
    keep(tmp_path / "posterior", model, build_posterior(model))
    read = load_posterior(str(tmp_path / "posterior"), copy.deepcopy(model).float(), "tiny")
    assert len(read.matrices) == 4


def test_a_posterior_is_replaced_with_force_only_and_another_folder_never(tmp_path):
    model = tiny_model("llama")
    folder = tmp_path / "posterior"
    keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.1)))
    with pytest.raises(UsageError, match="--force"):
        keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.2)))
    assert read_description(str(folder)).settings.sigma == 0.1
    keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.2)), force=True)
    assert read_description(str(folder)).settings.sigma == 0.2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["posterior"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("precious")
    with pytest.raises(UsageError, match="something other than a posterior"):
        keep(other, model, build_posterior(model), force=True)
    assert (other / "chapter.tex").read_text() == "precious"


@pytest.mark.parametrize("name", ["notes.txt", "results/scored.jsonl", "draw-0/README.md", "draw-1x", "draw-9"])
def test_what_lies_beside_a_posterior_is_not_deleted(name, tmp_path):
    model = tiny_model("llama")
    folder = tmp_path / "posterior"
    keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.1)))
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("precious")
    said = name.removesuffix("/scored.jsonl")
    with pytest.raises(UsageError, match=rf"posterior: holds {said} beside a posterior, which --force would delete"):
        keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.2)), force=True)
    assert (folder / name).read_text() == "precious"
    assert read_description(str(folder)).settings.sigma == 0.1
    (folder / name).unlink()
    if name.startswith("results"):
        (folder / "results").rmdir()
    keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.2)), force=True)
    assert read_description(str(folder)).settings.sigma == 0.2


def test_what_is_put_beside_a_posterior_while_another_is_made_is_not_deleted(tmp_path, monkeypatch):
    model = tiny_model("llama")
    folder = tmp_path / "posterior"
    keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.1)))

    def someone_writes(*_, **__):
        (folder / "notes.txt").write_text("precious")

    monkeypatch.setattr("tokur_cli.engine.posterior.folder.save_adapter", someone_writes)
    with pytest.raises(UsageError, match=r"holds notes\.txt beside"):
        keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.2)), force=True)
    assert (folder / "notes.txt").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["posterior"]


def test_a_posterior_that_is_replaced_through_a_link_stays_where_it_was(tmp_path):
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model, PosteriorSettings(sigma=0.1)))
    (tmp_path / "link").symlink_to("posterior")
    keep(tmp_path / "link", model, build_posterior(model, PosteriorSettings(sigma=0.2)), force=True)
    assert (tmp_path / "link").is_symlink()
    assert read_description(str(tmp_path / "posterior")).settings.sigma == 0.2


def test_a_run_that_fails_leaves_the_old_posterior_and_nothing_else(tmp_path, monkeypatch):
    model = tiny_model("llama")
    folder = tmp_path / "posterior"
    keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.1)))

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tokur_cli.engine.posterior.folder.save_adapter", full_disk)
    with pytest.raises(TokurError, match="No space left"):
        keep(folder, model, build_posterior(model, PosteriorSettings(sigma=0.2)), force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["posterior"]
    assert load_posterior(str(folder), model, "tiny").sigma == 0.1


def test_what_is_wrong_with_a_folder_is_said(tmp_path):
    model = tiny_model("llama")
    folder = tmp_path / "posterior"
    with pytest.raises(TokurError, match="holds no posterior"):
        load_posterior(str(folder), model, "tiny")
    keep(folder, model, build_posterior(model))
    description = json.loads((folder / "posterior.json").read_text())
    (folder / "posterior.json").write_text(json.dumps({**description, "format": 2, "new": 1}))
    with pytest.raises(TokurError, match="has format 2"):
        load_posterior(str(folder), model, "tiny")
    (folder / "posterior.json").write_text(json.dumps(description)[:50])
    with pytest.raises(TokurError, match="is not what tokur perturb writes"):
        load_posterior(str(folder), model, "tiny")
    (folder / "posterior.json").write_text(json.dumps(description))
    (folder / "basis.safetensors").write_bytes(b"\x10")
    with pytest.raises(TokurError, match="cannot be read"):
        load_posterior(str(folder), model, "tiny")


def forget_hash(folder):
    """Make the folder one that was written before the basis's hash was kept."""
    path = folder / "posterior.json"
    description = json.loads(path.read_text())
    del description["basis_sha256"]
    path.write_text(json.dumps(description))


@pytest.fixture
def described(tmp_path):
    """A posterior's ``posterior.json``, and what it says."""
    model = tiny_model("llama")
    keep(tmp_path / "posterior", model, build_posterior(model))
    path = tmp_path / "posterior" / "posterior.json"
    return path, json.loads(path.read_text())


STRENGTHS = {
    math.nan: "NaN", math.inf: "Infinity", -0.1: "-0.1", True: "true", "0.1": '"0.1"', None: "null",
    10**400: "10{38}…", 1e39: "1e.39",
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        *(("sigma", value, f'"sigma" is {shown}, not a number from 0') for value, shown in STRENGTHS.items()),
        *(("rank", value, '"rank" is .*, not an integer from 1') for value in (8.0, 0, -1, True, "8", None)),
        *(("draws", value, '"draws" is .*, not an integer from 1') for value in (2.5, 0, False, None, [2], 10_001)),
        *(("seed", value, '"seed" is .*, not an integer') for value in ("x", 1.0, True, None)),
        *(("targets", value, '"targets" is .*, not names') for value in (None, "", ["q_proj"], 3)),
        *(("layers", value, '"layers" is .*, not a slice') for value in (15, "", [0, 1], "two")),
        *(("model", value, '"model" is .*, not text') for value in (None, 7, "")),
        *(("fingerprint", value, '"fingerprint" is .*, not a SHA-256') for value in (None, "beef", "G" * 64)),
        *(("basis_sha256", value, '"basis_sha256" is .*, not a SHA-256') for value in (7, "beef")),
        ("calibration", [], r'"calibration" is \[\], not an object'),
        ("format", True, '"format" is true'),
        ("format", 0, '"format" is 0'),
        ("version", 1, '"version" is 1'),
        ("new", 1, '"new" is not a field of it'),
    ],
)
def test_every_field_of_the_description_is_checked(field, value, said, described):
    path, description = described
    path.write_text(json.dumps({**description, field: value}))
    with pytest.raises(TokurError, match=f"{re.escape(str(path))}: is not what tokur perturb writes: {said}"):
        read_description(str(path.parent))


def test_missing_and_repeated_fields_and_other_texts_are_refused(described):
    path, description = described
    for field in ("model", "revision", "fingerprint", "rank", "sigma", "targets", "layers", "seed", "draws"):
        path.write_text(json.dumps({name: value for name, value in description.items() if name != field}))
        with pytest.raises(TokurError, match=f'"{field}" is missing'):
            read_description(str(path.parent))
    path.write_text(json.dumps(description)[:-1] + ', "sigma": 0.2}')
    with pytest.raises(TokurError, match='"sigma" is there 2 times'):
        read_description(str(path.parent))
    for text in ("[]", "3", "", "[" * 100_000, "\ufeff{}", '{"rank": ' + "9" * 5000 + "}"):
        path.write_text(text)
        with pytest.raises(TokurError, match="is not what tokur perturb writes"):
            read_description(str(path.parent))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda basis: basis.fill_(math.nan), "holds numbers that are not finite"),
        (lambda basis: basis.fill_(math.inf), "holds numbers that are not finite"),
        (lambda basis: basis.to(torch.int32), r"is int32 \(32, 8\), not float32 \(32, 8\)"),
        (lambda basis: basis[:5].contiguous(), r"is float32 \(5, 8\), not float32 \(32, 8\)"),
        (lambda basis: basis.flatten(), r"is float32 \(256,\), not float32 \(32, 8\)"),
    ],
)
def test_a_basis_is_checked_with_and_without_its_hash(spoil, said, described):
    folder = described[0].parent
    model = tiny_model("llama")
    bases = load_file(folder / "basis.safetensors")
    name = next(name for name in bases if name.endswith("layers.0.self_attn.q_proj"))
    save_file({**bases, name: spoil(bases[name].clone())}, folder / "basis.safetensors")
    with pytest.raises(TokurError, match=r"basis.safetensors: has the SHA-256 .*, and posterior.json says"):
        load_posterior(str(folder), model, "tiny")
    forget_hash(folder)
    with pytest.raises(TokurError, match=f"basis.safetensors: {name} {said}; write the posterior again"):
        load_posterior(str(folder), model, "tiny")


def test_one_changed_bit_of_the_basis_is_refused_and_a_folder_without_the_hash_is_read(described):
    folder = described[0].parent
    model = tiny_model("llama")
    data = (folder / "basis.safetensors").read_bytes()
    assert hashlib.sha256(data).hexdigest() == described[1]["basis_sha256"]
    (folder / "basis.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(TokurError, match="has the SHA-256"):
        load_posterior(str(folder), model, "tiny")
    (folder / "basis.safetensors").write_bytes(data)
    forget_hash(folder)
    assert load_posterior(str(folder), model, "tiny").rank == 8


def test_a_basis_of_another_rank_is_refused(tmp_path):
    model = tiny_model("llama")
    folder = tmp_path / "posterior"
    keep(folder, model, build_posterior(model))
    bases = load_file(folder / "basis.safetensors")
    forget_hash(folder)
    save_file({name: basis[:, :4].contiguous() for name, basis in bases.items()}, folder / "basis.safetensors")
    with pytest.raises(TokurError, match=r"safetensors: .*q_proj is float32 \(32, 4\), not float32 \(32, 8\)"):
        load_posterior(str(folder), model, "tiny")
