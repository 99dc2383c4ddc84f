"""Checkpoints of a class that transformers does not load as a language model are called by their own name."""

import pytest
import transformers

from tests.engine.more_families import SMALL
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.loading.models import load_language_model
from tokur_cli.records.errors import TokurError

PICTURES = {"embed_dim": 8, "latent_channels": 8, "base_channels": 32, "channel_multiplier": [1]}
PICTURES |= {"num_res_blocks": 1, "codebook_size": 16, "attn_resolutions": []}


def refusal_of(model, folder):
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    with pytest.raises(TokurError) as caught:
        load_language_model(str(folder))
    return str(caught.value)


def test_a_model_of_texts_and_images_is_not_said_to_lack_weights_alone(tmp_path):
    config = transformers.Emu3Config(text_config=SMALL, vq_config=PICTURES, vocabulary_map={"<image>": 5, "a": 6})
    said = refusal_of(transformers.Emu3ForConditionalGeneration(config), tmp_path / "emu3")
    assert "is of the class Emu3ForConditionalGeneration, which transformers" in said
    assert "loads as Emu3ForCausalLM" in said


def test_a_causal_model_of_a_type_that_is_not_loaded_is_not_said_to_be_none(tmp_path):
    said = refusal_of(transformers.Emu3ForCausalLM(transformers.Emu3TextConfig(**SMALL)), tmp_path / "emu3-text")
    assert "(Emu3ForCausalLM): transformers" in said
    assert said.endswith("of the type emu3_text_model; tokur needs one that predicts the next token")
