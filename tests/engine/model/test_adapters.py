"""Models that are kept as an adapter on a base: merged, they are what PEFT makes of the two."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.loading import IDS, KINDS, LORA, load, save_adapter
from tests.tiny import tiny_model, tiny_model_folder, tiny_tokenizer
from tokur_cli.records.errors import TokurError


@pytest.mark.parametrize("kind", KINDS)
def test_merge_adapter_of_each_kind_into_the_base_that_its_config_names(kind, tmp_path):
    base = tiny_model_folder(tmp_path)
    beside = save_adapter(tmp_path / "adapter", kind, base)
    loaded = load(tmp_path / "adapter")
    expected = beside(input_ids=IDS).logits
    assert (expected - tiny_model()(IDS).logits).abs().max() > 0.1
    torch.testing.assert_close(loaded.model(IDS).logits, expected, rtol=0, atol=2e-4)
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.identity == {
        "model": str(tmp_path / "adapter"), "revision": None, "base": str(base), "base_revision": None,
        "dtype": "float32",
    }  # fmt: skip


@pytest.mark.parametrize(
    "fields", [{"modules_to_save": ["embed_tokens", "lm_head"]}, {"trainable_token_indices": [259, 260]}]
)
@pytest.mark.parametrize("tied", [False, True])
def test_merge_adapter_brings_its_own_tokens_with_tokenizer_and_embeddings(fields, tied, tmp_path):
    model, tokenizer = tiny_model(tie_word_embeddings=tied), tiny_tokenizer()
    tokenizer.add_tokens(["<think>", "</think>"])
    base = tiny_model_folder(tmp_path, tie_word_embeddings=tied)
    model.resize_token_embeddings(264, mean_resizing=False)  # more than there are tokens, as for faster products
    beside = save_adapter(tmp_path / "adapter", ("LoraConfig", LORA | fields), base, model)
    tokenizer.save_pretrained(tmp_path / "adapter")
    loaded = load(tmp_path / "adapter")
    ids = loaded.tokenizer("a<think>b").input_ids
    assert ids[1] == 259
    torch.testing.assert_close(
        loaded.model(torch.tensor([ids])).logits, beside(input_ids=torch.tensor([ids])).logits, rtol=0, atol=2e-4
    )
    assert loaded.vocabulary_size == 261


def drop(*keys):
    def spoil(folder):
        weights = load_file(folder / "adapter_model.safetensors")
        save_file({k: v for k, v in weights.items() if not any(key in k for key in keys)}, folder / "kept")
        (folder / "kept").rename(folder / "adapter_model.safetensors")

    return spoil


def damage(folder):
    weights = load_file(folder / "adapter_model.safetensors")
    weights["base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"][-1, -1] = math.nan
    save_file(weights, folder / "adapter_model.safetensors")


def edit(**fields):
    def spoil(folder):
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | fields))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop("layers.1.self_attn.q_proj.lora_B"), r"put into .*: .*layers\.1.*q_proj.*in only one of the"),
        (damage, r"can't be put into .*merged, it is nan nats"),
        (
            lambda folder: (folder / "adapter_model.safetensors").unlink(),
            r"can't be put into .*file named adapter_model\.safetensors",
        ),
        (edit(target_modules=["wq"]), r"can't be put into .*wq"),
        (edit(r=8), "can't be put into"),
        (edit(base_model_name_or_path=None), r"names no base model: -m MODEL --adapter .* puts it on"),
        (edit(base_model_name_or_path="./gone"), r"an adapter on \./gone: there is no folder.*-m MODEL --adapter"),
        (edit(alora_invocation_tokens=[1, 2]), r"can't be put into.*aLoRA"),
    ],
)
def test_merge_adapter_says_why_it_cannot(spoil, message, tmp_path):
    save_adapter(tmp_path / "adapter", base=tiny_model_folder(tmp_path))
    spoil(tmp_path / "adapter")
    with pytest.raises(TokurError, match=message):
        load(tmp_path / "adapter")


def test_merge_adapter_takes_a_weak_one_of_a_deep_model_that_rounding_moves_as_far(tmp_path):
    base = tiny_model_folder(tmp_path, num_hidden_layers=8)
    deep = tiny_model(num_hidden_layers=8)
    save_adapter(tmp_path / "adapter", ("LoraConfig", LORA | {"lora_alpha": 0.01}), base, deep)
    assert load(tmp_path / "adapter", dtype="bfloat16").dtype == "bfloat16"


def test_merge_adapter_refuses_what_is_another_model_when_merged(tmp_path):
    """The input embeddings' adapter would change the head, too, which shares the weight."""
    tied = tiny_model(tie_word_embeddings=True)
    base = tiny_model_folder(tmp_path, tie_word_embeddings=True)
    save_adapter(tmp_path / "adapter", ("LoraConfig", LORA | {"target_modules": ["embed_tokens"]}), base, tied)
    with pytest.raises(TokurError, match=r"merged, it is .* nats a token from what it is beside the weights"):
        load(tmp_path / "adapter")
