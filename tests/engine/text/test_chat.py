"""What ends a turn, on templates written in the style of the families that end it with a token of their own."""

import pytest
from transformers import GenerationConfig, LlamaConfig

from tests.engine.text.chats import FAMILIES, QUESTION, family
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.text.chat import end_token_ids
from tokur_cli.engine.text.tokens import ResponseTokenizer

BY_TEMPLATE = [name for name, (_, eos, _, end) in FAMILIES.items() if end != eos]


@pytest.mark.parametrize("name", FAMILIES)
def test_tokenize_ends_a_finished_response_with_the_familys_token(name):
    response = "  Seven.\n"
    tokenizer, ends, end = family(name)
    tok = ResponseTokenizer(tokenizer, end_ids=ends)
    prompt = tok.render_chat([QUESTION])
    located = tok.tokenize(prompt, response, finish_reason="stop")
    assert tok.decode(located.tokens.response_ids) == response
    assert located.tokens.response_ids[-1] == end
    assert located.offsets[-1] == (len(response), len(response))
    assert tok.tokenize(prompt, response).tokens.response_ids == located.tokens.response_ids[:-1]
    from_ids = tok.tokenize(tokenizer(prompt)["input_ids"], response, finish_reason="stop")
    assert from_ids.tokens.response_ids[-1] == end, "the same prompt as ids"


@pytest.mark.parametrize("name", BY_TEMPLATE)
def test_ending_of_a_prompt_that_is_no_chat_is_ended_by_the_tokenizers_end_token(name):
    tokenizer, ends, _ = family(name)
    tok = ResponseTokenizer(tokenizer, end_ids=ends)
    for prompt in ("How many?\n", tokenizer("How many?\n")["input_ids"]):
        assert tok.tokenize(prompt, "Seven.", finish_reason="stop").tokens.response_ids[-1] == tokenizer.eos_token_id
    tokenizer.chat_template = None
    tok = ResponseTokenizer(tokenizer, end_ids=ends)
    assert tok.tokenize("How many?", "Seven.", finish_reason="stop").tokens.response_ids[-1] == tokenizer.eos_token_id


def test_end_token_ids_are_the_generation_configs_else_the_models_and_the_tokenizers():
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(eos_token_id=[7, 8])
    assert end_token_ids(GenerationConfig(eos_token_id=[5, 6]), config, tokenizer) == (5, 6, 258)
    assert end_token_ids(GenerationConfig(eos_token_id=258), config, tokenizer) == (258,)
    assert end_token_ids(GenerationConfig(), config, tokenizer) == (7, 8, 258)
    assert end_token_ids(None, config, tokenizer) == (7, 8, 258)
    tokenizer.eos_token = None
    assert end_token_ids(None, config, tokenizer) == (7, 8)
    located = ResponseTokenizer(tokenizer, end_ids=(7, 8)).tokenize("Q", "hi", finish_reason="stop")
    assert located.tokens.response_ids[-1] == 7
