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

from tests.engine.loading import IDS, load, save_adapter
from tests.engine.more_families import SMALL, more
from tests.tiny import (
    CHAT_TEMPLATE,
    CONTEXT_LENGTH,
    FAMILIES,
    quieten,
    tiny_gguf_file,
    tiny_model,
    tiny_model_folder,
    tiny_tokenizer,
)
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.model import place
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.engine.posterior.basis import weight_digest
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
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
    saved = tiny_model(family, attn_implementation=loaded.model.config._attn_implementation)
    assert torch.equal(loaded.model(IDS).logits, saved(IDS).logits)
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.tokenizer("a<|im_end|>").input_ids == [tiny_tokenizer().convert_tokens_to_ids("a"), 258]
    assert loaded.identity == {"model": str(folder), "revision": None, "dtype": "float32"}
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
    with pytest.raises(TokurError, match=r"notes\.txt can't be loaded: GGUF magic invalid"):
        load(tmp_path / "notes.txt")
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(TokurError, match=r"damaged\.gguf can't be loaded"):
        load(tmp_path / "damaged.gguf")
    assert not list((tmp_path / "cache" / "models").iterdir())


@pytest.mark.parametrize("has_amx", [False, True])
@pytest.mark.parametrize("has_avx512", [False, True])
def test_resolve_dtype_is_bfloat16_only_on_a_cpu_that_multiplies_it_fast(has_avx512, has_amx, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_amx)
    assert place.resolve_dtype("auto", "cpu") == ("bfloat16" if has_avx512 or has_amx else "float32")


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
        (lambda folder: (folder / "config.json").write_bytes(b"{"), r"can't be loaded: .*not a valid JSON file"),
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


def test_load_from_the_hub_takes_config_tokenizer_and_weights_of_one_commit(tmp_path, monkeypatch):
    folder, asked = tiny_model_folder(tmp_path), set()
    monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: False)
    info = SimpleNamespace(sha="c0ffee", siblings=[SimpleNamespace(rfilename="config.json")])
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: info)
    for name in ("AutoConfig", "AutoTokenizer", "GenerationConfig", "AutoModelForCausalLM"):
        real = getattr(transformers, name).from_pretrained

        def local(place, *, revision=None, local_files_only=None, real=real, **options):
            if place != str(folder):
                asked.add((place, revision, local_files_only))
            return real(str(folder), **options)

        monkeypatch.setattr(getattr(transformers, name), "from_pretrained", local)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **by: asked.add(by["revision"]))
    assert load("org/tiny").identity["revision"] == "c0ffee"
    assert asked == {None, ("org/tiny", "c0ffee", None)}, "for the hub's own cache, which commit the default one is"
    monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: True)
    for name, said in (("no such folder", "no folder and no GGUF file"), ("org/tiny", "nor is it in its cache")):
        with pytest.raises(TokurError, match=said):
            load(name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_load_takes_the_gpu_in_bfloat16(tmp_path):
    loaded = load_language_model(ModelRequest(str(tiny_model_folder(tmp_path))))
    assert (loaded.device.type, loaded.dtype) == ("cuda", "bfloat16")


PICTURES = {"embed_dim": 8, "latent_channels": 8, "base_channels": 32, "channel_multiplier": [1]}
PICTURES |= {"num_res_blocks": 1, "codebook_size": 16, "attn_resolutions": []}


def emu3():
    config = transformers.Emu3Config(text_config=SMALL, vq_config=PICTURES, vocabulary_map={"<image>": 5, "a": 6})
    return transformers.Emu3ForConditionalGeneration(config).eval()


def qwen3_5():
    tower = {"depth": 1, "hidden_size": 32, "num_heads": 4, "intermediate_size": 64, "out_hidden_size": 32}
    text = more("qwen3_5_text").config.to_dict()
    config = transformers.Qwen3_5Config(text_config=text, vision_config=tower)
    return transformers.Qwen3_5ForConditionalGeneration(config).eval()


def saved(model, folder):
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("family", "loaded_as"),
    [
        (emu3, "Emu3ForConditionalGeneration"),  # AutoModelForCausalLM finds none of its weights
        (qwen3_5, "Qwen3_5ForCausalLM"),
        *(("mistral3", "Mistral3ForConditionalGeneration"), ("qwen2_vl", "Qwen2VLForConditionalGeneration")),
        *(("gemma3", "Gemma3ForConditionalGeneration"), ("llava", "LlavaForConditionalGeneration")),
    ],
)
def test_load_uses_models_of_texts_and_images_for_texts(family, loaded_as, tmp_path):
    model = more(family) if isinstance(family, str) else family()
    loaded = load(saved(model, tmp_path))
    assert type(loaded.model).__name__ == loaded_as
    ids = torch.arange(20)[None] * 7 % 250
    torch.testing.assert_close(loaded.model(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)
    loaded.probe.check_scoring(None)
    loaded.probe.check_generation()


RESPONSE = TokenizedResponse([5, 77, 130, 9], [201, 33, 34, 60])


@pytest.fixture
def folder(tmp_path):
    model = tiny_model("llama", num_hidden_layers=4)
    quieten(model, 12)
    return saved(model, tmp_path / "model")


def bytes_in_memory(model):
    return sum(parameter.nbytes for parameter in model.parameters() if not parameter.is_meta)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("share", [0.7, 0.0])
def test_score_numbers_are_those_of_the_model_that_is_in_memory(share, dtype, folder, tmp_path):
    """With a part of the layers on disk, with the embeddings too, and with everything."""
    whole = load(folder, dtype=dtype)
    size = sum(parameter.numel() for parameter in tiny_model("llama", num_hidden_layers=4).parameters())
    limit = int(share * size * whole.model.dtype.itemsize)
    divided = load(
        folder, dtype=dtype, device_map="auto", offload_dir=str(tmp_path / "weights"), weights_memory=limit / 2**30
    )
    assert bytes_in_memory(divided.model) <= limit
    assert "disk" in divided.model.hf_device_map.values()
    assert weight_digest(divided.model, ()) == weight_digest(whole.model, ())
    results = []
    for loaded in (whole, divided):
        draws = Draws(build_posterior(loaded.model, cache=tmp_path / "bases"), 2)
        loaded.probe.check_scoring(draws.posterior)
        loaded.probe.check_generation()
        results.append(dict(Scorer(loaded.model, draws).score([RESPONSE]))[0])
    assert len(list((tmp_path / "bases").iterdir())) == 1, "the same weights"
    for name, values in results[0].items():
        assert results[1][name] == pytest.approx(values, abs=1e-4 if dtype == "float32" else 0.2), name
    assert bytes_in_memory(divided.model) <= limit, "nothing that was fetched stays"


def test_merge_adapter_refuses_weights_on_disk(folder, tmp_path):
    pytest.importorskip("peft")
    save_adapter(tmp_path / "adapter", "lora", folder, tiny_model("llama", num_hidden_layers=4))
    with pytest.raises(TokurError, match="weights are kept on disk"):
        load(tmp_path / "adapter", device_map="auto", offload_dir=str(tmp_path / "weights"), weights_memory=0.0)
