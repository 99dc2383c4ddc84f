"""Loading models from folders and GGUF files, and what is said when that fails."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.engine.loading import IDS, load
from tests.tiny import (
    CHAT_TEMPLATE,
    CONTEXT_LENGTH,
    FAMILIES,
    tiny_gguf_file,
    tiny_model,
    tiny_model_folder,
    tiny_tokenizer,
)
from tokur_cli.engine.model import place
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.records.errors import TokurError


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "cache"))


def edit_config(folder: Path, **fields) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))


@pytest.mark.parametrize("family", FAMILIES)
def test_load_of_a_folder_of_each_family_gives_the_saved_models_logits(family, tmp_path, capfd):
    folder = tiny_model_folder(tmp_path, family)
    capfd.readouterr()
    loaded = load(folder)
    assert capfd.readouterr() == ("", "")
    assert torch.equal(loaded.model(IDS).logits, tiny_model(family)(IDS).logits)
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.tokenizer("a<|im_end|>").input_ids == [tiny_tokenizer().convert_tokens_to_ids("a"), 258]
    assert (loaded.name, loaded.revision, loaded.dtype) == (str(folder), None, "float32")
    assert loaded.context_length == CONTEXT_LENGTH
    assert loaded.device == torch.device("cpu")


def test_load_leaves_attention_with_a_cap_to_no_kernel_that_knows_none(tmp_path, monkeypatch):
    """Transformers before 5.24 does so for Gemma 2."""
    folder = tiny_model_folder(tmp_path, "gemma2")
    expected = tiny_model("gemma2", attn_implementation="eager")(IDS).logits
    family = transformers.models.gemma2.modeling_gemma2.Gemma2PreTrainedModel
    monkeypatch.setattr(family, "_supports_sdpa", True)
    assert tiny_model("gemma2").config._attn_implementation == "sdpa"
    assert torch.equal(load(folder).model(IDS).logits, expected)


def test_load_runs_remote_code_only_when_asked_to(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    folder = tiny_model_folder(tmp_path)
    (folder / "own.py").write_text(
        "from pathlib import Path\nfrom transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    edit_config(folder, model_type="own", architectures=["OwnModel"], auto_map=auto_map)
    with pytest.raises(TokurError, match=r"own Python code.*--trust-remote-code"):
        load(folder)
    assert not (tmp_path / "ran").exists()
    loaded = load(folder, trust_remote_code=True)
    assert torch.equal(loaded.model(IDS).logits, tiny_model()(IDS).logits)


def test_load_of_a_gguf_file_gives_the_logits_of_the_model_it_was_made_of(tmp_path):
    file, model = tiny_gguf_file(tmp_path, "smollm")
    said: list[str] = []
    for loaded in (load(file, progress=said.append), load(file, progress=said.append)):
        torch.testing.assert_close(loaded.model(IDS).logits, model(IDS).logits, rtol=0, atol=1e-5)
        assert not hasattr(loaded.model.config, "quantization_config")
        assert loaded.model.generation_config.eos_token_id == 258
        tokenizer = loaded.tokenizer
        assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (256, 257, 258)
        assert tokenizer.chat_template == CHAT_TEMPLATE
        assert tokenizer("abcd<|im_end|>").input_ids == [259, 260, 258]
        text = "▁ two  spaces , é\n\n世界 🙂"
        assert tokenizer.decode(tokenizer(text).input_ids) == text
        # GPT-2 splits "\n\n1" into "\n", "\n" and "1"; SmolLM takes the digit off first, which leaves "\n\n" whole
        pieces = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a\n\n12")
        assert [piece for piece, _ in pieces] == ["a", "ĊĊ", "1", "2"]
    assert [message.split()[0] for message in said] == ["converting"]


def test_load_refuses_a_damaged_gguf_file_and_keeps_nothing(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(TokurError, match=r"notes\.txt isn't a GGUF file"):
        load(tmp_path / "notes.txt")
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(TokurError, match=r"damaged\.gguf can't be loaded"):
        load(tmp_path / "damaged.gguf")
    assert not list((tmp_path / "cache" / "models").iterdir())


@pytest.mark.parametrize(
    ("cpu_info", "dtype"),
    [
        ("processor : 0\nflags\t\t: fpu avx512f avx512_bf16\n", torch.bfloat16),
        ("processor : 0\nflags\t\t: fpu avx2 avx512f\nbugs : amx_bf16\n", torch.float32),
        (None, torch.float32),
    ],
)
def test_resolve_dtype_is_bfloat16_only_on_a_cpu_that_multiplies_it_fast(cpu_info, dtype, tmp_path, monkeypatch):
    if cpu_info is not None:
        (tmp_path / "cpuinfo").write_text(cpu_info)
    monkeypatch.setattr(place, "CPU_INFO", tmp_path / "cpuinfo")
    assert place.resolve_dtype("auto", "cpu") == dtype


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device_map": "the-cloud"}, "the-cloud"),
        ({"device_map": "cuda:99"}, "can't be loaded: .*(CUDA|NVIDIA)"),
        ({"revision": "main"}, "a revision was asked for"),
    ],
)
def test_load_with_options_that_cannot_be_met_says_which(options, message, tmp_path):
    with pytest.raises(TokurError, match=message):
        load(tiny_model_folder(tmp_path), **options)


def test_place_weights_takes_one_gpu_where_they_fit_and_all_where_not(monkeypatch):
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda: {0: 1000, 1: 2000, "cpu": 10**6})
    assert place.place_weights(ModelRequest("m"), 1700) == {"device_map": {"": 1}}
    over_both = {"device_map": "auto", "max_memory": {0: 900, 1: 1800}}
    assert place.place_weights(ModelRequest("m"), 2600) == over_both
    assert place.place_weights(ModelRequest("m", device_map="balanced"), 10) == over_both | {"device_map": "balanced"}
    one = ModelRequest("m", device_map="cuda:1")
    assert place.place_weights(one, 1700) == {"device_map": "cuda:1"}


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def cut_weights(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])


def spoil_weight(number):
    def spoil(folder):
        weights = load_file(folder / "model.safetensors")
        weights["model.layers.1.mlp.up_proj.weight"][-1, -1] = number
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def pickle_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save(tiny_model().state_dict(), folder / "pytorch_model.bin")


def remove_tokenizer(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (write("config.json", b"{"), r"can't be loaded: .*not a valid JSON file"),
        (pickle_weights, r"has no weights in \*\.safetensors; pickled ones can run code"),
        (cut_weights, "weights of .* are damaged"),
        (spoil_weight(math.nan), r"damaged: model\.layers\.1\.mlp\.up_proj\.weight"),
        (lambda folder: edit_config(folder, vocab_size=10**12), "weights take .* GB, and main memory has"),
        (lambda folder: edit_config(folder, model_type="flurb"), "does not recognize this architecture"),
        (lambda folder: edit_config(folder, num_hidden_layers=3), r"lacks weights .*model\.layers\.2\."),
        (lambda folder: edit_config(folder, hidden_size=64), r"shape \(.*32\), not \(.*64\)"),
        (lambda folder: edit_config(folder, architectures=["LlamaForSequenceClassification"]), "isn't a causal"),
        (remove_tokenizer, r"no tokenizer that can be read|can't be loaded"),
    ],
)
def test_load_of_a_folder_that_cannot_be_used_says_why(spoil, message, tmp_path):
    folder = tiny_model_folder(tmp_path)
    spoil(folder)
    with pytest.raises(TokurError, match=message):
        load(folder)


def hub_model(*files):
    return lambda *_, **__: SimpleNamespace(sha="c0ffee", siblings=[SimpleNamespace(rfilename=file) for file in files])


def test_load_from_the_hub_takes_config_tokenizer_and_weights_of_one_commit(tmp_path, monkeypatch):
    folder, asked = tiny_model_folder(tmp_path), set()
    monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", hub_model("config.json"))
    for name in ("AutoConfig", "AutoTokenizer", "GenerationConfig", "AutoModelForCausalLM"):
        real = getattr(transformers, name).from_pretrained

        def local(place, *, revision=None, local_files_only=None, real=real, **options):
            if place != str(folder):
                asked.add((place, revision, local_files_only))
            return real(str(folder), **options)

        monkeypatch.setattr(getattr(transformers, name), "from_pretrained", local)
    assert load("org/tiny").revision == "c0ffee"
    assert asked == {("org/tiny", "c0ffee", None)}
    monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: True)
    for name, said in (("no such folder", "no folder and no GGUF file"), ("org/tiny", "nor is it in its cache")):
        with pytest.raises(TokurError, match=said):
            load(name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_load_takes_the_gpu_in_bfloat16(tmp_path):
    loaded = load_language_model(ModelRequest(str(tiny_model_folder(tmp_path))))
    assert (loaded.device.type, loaded.dtype) == ("cuda", "bfloat16")
