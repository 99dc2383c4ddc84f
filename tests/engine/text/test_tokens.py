import unicodedata

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.tiny import tiny_tokenizer
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError

END = 258


@pytest.fixture(scope="module")
def tok():
    return ResponseTokenizer(tiny_tokenizer())


TEXTS = [
    "plain",
    " leading and trailing ",
    "héllo 日本 🙂!",
    "e\u0301 \u200d👩\u200d🔬",
    "line\u2028\n\ttab",
    "a\x00\x1bb",
]


@pytest.mark.parametrize("text", TEXTS)
def test_tokenize_offsets_of_a_byte_are_those_of_its_character(tok, text):
    """The tokenizer's tokens are single bytes: each must carry the span of the character it is a part of."""
    expected = [(i, i + 1) for i, character in enumerate(text) for _ in character.encode()]
    located = tok.tokenize("Q\n", text)
    assert located.offsets == expected
    again = tok.tokenize("Q\n", text, located.tokens.response_ids)
    assert again.offsets == expected
    assert again.tokens == located.tokens


def test_tokenize_a_response_that_stopped_by_itself_ends_with_the_end_token(tok):
    located = tok.tokenize("Q", "hi", finish_reason="stop")
    assert located.tokens.response_ids[-1] == END
    assert located.offsets == [(0, 1), (1, 2), (2, 2)]
    assert tok.tokenize("Q", "hi<|im_end|>", finish_reason="stop").tokens.response_ids.count(END) == 1
    exact = tok.tokenize("Q", "hi", [*b"hi"][:0] or located.tokens.response_ids[:2], finish_reason="stop")
    assert END not in exact.tokens.response_ids, "exact ids are taken as they are"


@pytest.mark.parametrize("prompt", ["Q: ", "Q: a"])
def test_tokenize_gives_offsets_of_whole_characters_where_the_tokenizer_composes_them(prompt):
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    tok = ResponseTokenizer(tokenizer)
    for written in (
        ["e\u0301", "y", "4"],
        ["\u0323", "e\u0323", "\u0301", "\u1112\u1161\u11ab", "\u09c7\u09be"],
        ["é", "x"],
    ):
        response = "".join(written)
        located = tok.tokenize(prompt, response)
        text = unicodedata.normalize("NFC", prompt + response)
        assert [*located.tokens.prompt_ids, *located.tokens.response_ids] == tokenizer(text)["input_ids"]
        spans = dict.fromkeys(located.offsets)
        assert [response[start:end] for start, end in spans] == written
        assert [located.offsets.count(span) for span in spans][-1] == len(
            unicodedata.normalize("NFC", written[-1]).encode()
        )


def test_tokenize_adds_what_a_tokenizer_puts_before_a_text_and_nothing_after_it():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A <|im_end|>", special_tokens=[("<|im_start|>", 257), ("<|im_end|>", END)]
    )
    tok = ResponseTokenizer(tokenizer)
    bare = tokenizer("Q", add_special_tokens=False)["input_ids"]
    assert tokenizer("Q")["input_ids"] == [257, *bare, END]
    assert tok.tokenize_prompt("Q", special_tokens=True) == [257, *bare]
    by_text = tok.tokenize("Q", "ab", special_tokens=True).tokens
    assert tok.tokenize("Q", "ab", by_text.response_ids, special_tokens=True).tokens == by_text
    assert by_text.prompt_ids == [257, *bare]


def test_locate_text_cut_off_at_the_ends_leaves_empty_spans_there(tok):
    ids = tok.tokenize("Q", "  answer STOP").tokens.response_ids
    assert tok.locate(ids, "answer")[:4] == [(0, 0), (0, 0), (0, 1), (1, 2)]
    assert tok.locate(ids, "answer")[-6:] == [(5, 6), *[(6, 6)] * 5]


@pytest.mark.parametrize("claimed", ["swer", "other", "answers"])
def test_locate_ids_that_do_not_spell_the_response_are_refused(tok, claimed):
    ids = tok.tokenize("Q", "answer").tokens.response_ids
    assert tok.locate(ids, claimed) is None
    with pytest.raises(TokurError, match="do not spell"):
        tok.tokenize("Q", claimed, ids)


def test_tokenize_a_token_across_the_border_belongs_to_the_response():
    backend = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "ab": 2, "c": 3}, merges=[("a", "b")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    located = ResponseTokenizer(PreTrainedTokenizerFast(tokenizer_object=backend)).tokenize("ca", "bc")
    assert (located.tokens.prompt_ids, located.tokens.response_ids) == ([3], [2, 3])
    assert located.offsets == [(0, 1), (1, 2)]


def test_tokenize_spaces_that_a_tokenizer_leaves_to_nobody_belong_to_the_next_word():
    backend = Tokenizer(models.WordLevel(vocab={"the": 0, "end": 1, "?": 2}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    located = ResponseTokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?")).tokenize(
        "? ", "the  end"
    )
    assert located.offsets == [(0, 3), (3, 8)]


@pytest.mark.parametrize(
    ("prompt", "response", "ids", "message"),
    [
        ("Q", "", None, "response is empty"),
        ("", "answer", None, "prompt is empty"),
        ([1, 999], "answer", None, "prompt_token_ids has 999.*ends at 258"),
        ("Q", "answer", [1, 259], "token_ids has 259"),
    ],
)
def test_tokenize_what_cannot_be_scored_is_said(tok, prompt, response, ids, message):
    with pytest.raises(TokurError, match=message):
        tok.tokenize(prompt, response, ids)


def test_tokenize_ids_are_those_that_the_model_takes_whatever_the_tokenizer_has():
    padded, short = (ResponseTokenizer(tiny_tokenizer(), vocabulary_size=size) for size in (300, END))
    located = padded.tokenize([1, 299], "ab", [*padded.tokenize("Q", "ab").tokens.response_ids, 259, 299])
    assert located.offsets == [(0, 1), (1, 2), (2, 2), (2, 2)]
    with pytest.raises(TokurError, match="ids has 300, but the model's vocabulary ends at 299"):
        padded.tokenize([1, 300], "a")
    for given in ({"response": "yes <|im_end|> no"}, {"response": "yes", "finish_reason": "stop"}):
        with pytest.raises(TokurError, match="the tokenizer has 258, but the model's vocabulary ends at 257"):
            short.tokenize("Q", **given)
