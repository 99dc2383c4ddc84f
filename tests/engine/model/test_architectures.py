"""Checkpoints of a class that transformers does not load as a model of texts alone are loaded as what they are."""

import pytest
import torch
import transformers

from tests.engine.more_families import SMALL, more
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest

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
    loaded = load_language_model(ModelRequest(saved(model, tmp_path), dtype="float32", device_map="cpu"))
    assert type(loaded.model).__name__ == loaded_as
    ids = torch.arange(20)[None] * 7 % 250
    torch.testing.assert_close(loaded.model(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)
    loaded.probe.check_scoring(None)
    loaded.probe.check_generation()
