"""Tokens that logs spell are found again in the vocabulary."""

import random

import pytest

from tests.tiny import tiny_tokenizer
from tokur_cli.engine.text.spelling import Spelling
from tokur_cli.engine.text.tokens import ResponseTokenizer

TEXT = "Ah é — 日本 🙂 ok"
END = 258


def as_openai(tokenizer, ids):
    """Each token's bytes, by the tokenizer's own decoding of the bytes before it and with it."""
    tokens = []
    for index in ids:
        text = tokenizer.decode([index])
        tokens.append(text if "\ufffd" not in text else TEXT.encode()[len(tokens) : len(tokens) + 1])
    return tokens


def as_vllm(tokenizer, ids):
    """A character of several tokens is spelled by its last, the others by nothing."""
    tokens, begin = [], 0
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[begin:end])
        tokens.append("" if text.endswith("\ufffd") else text)
        begin = begin if text.endswith("\ufffd") else end
    return tokens


def wordpieces():
    """SentencePiece's form: ``▁`` for a space, ``<0x..>`` for a byte."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    names = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁the", "the", "▁", "t", "h", "e", "▁é"]
    vocabulary = {name: index for index, name in enumerate(names)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


@pytest.mark.parametrize("spelled", [as_openai, as_vllm])
def test_tokens_of_parts_of_characters_are_found(spelled):
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer(TEXT)["input_ids"], END]
    assert Spelling(tokenizer).ids_from_strings(spelled(tokenizer, ids)) == ids


def test_sentencepiece_tokens_are_found():
    tokenizer = wordpieces()
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary[name] for name in ("▁the", "the", "▁", "t", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "▁é", "</s>")]
    strings = [" the", "the", " ", "t", "", "", "", "🙂", " é", "</s>"]
    assert Spelling(tokenizer).ids_from_strings(strings) == ids
    assert Spelling(tokenizer).ids_from_strings([*strings[:4], b"\xf0", b"\x9f", b"\x99", b"\x82", *strings[8:]]) == ids
    assert Spelling(tokenizer).ids_from_strings(["▁the", "the"]) == ids[:2], "names in the vocabulary"


def test_tokens_that_are_not_this_vocabularys_or_are_told_in_no_one_way_are_not_found():
    spelling = Spelling(tiny_tokenizer())
    assert spelling.ids_from_strings(["a", "bc"]) is None
    assert spelling.ids_from_strings(["a", ""]) is None
    assert spelling.ids_from_strings(["", "é", "", "b"]) is None


def ambiguous():
    """Four bytes of a character, which two tokens can make in two ways."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    bytes_ = [name for name, _ in sorted(tiny_tokenizer().get_vocab().items(), key=lambda item: item[1])][:256]
    a, b, c, d = (tiny_tokenizer().tokenize("🙂")[n] for n in range(4))
    vocabulary = {name: index for index, name in enumerate([*bytes_, a + b, c + d, a + b + c])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[(a, b), (c, d), (a + b, c)]))
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def test_a_character_that_so_many_tokens_make_in_several_ways_is_not_guessed():
    spelling = Spelling(ambiguous())
    assert spelling.ids_from_strings(["", "🙂"]) is None
    assert spelling.ids_from_strings([b"\xf0\x9f\x99", b"\x82"])[0] == 258
    assert len(spelling.ids_from_strings(["", "", "", "🙂"])) == 4


@pytest.fixture(scope="module")
def tok():
    return ResponseTokenizer(tiny_tokenizer())


@pytest.mark.parametrize("end", [[], ["<|im_end|>"]])
def test_the_end_token_counts_once_whether_the_log_has_it_or_not(tok, end):
    located = tok.tokenize("Q", "hi", token_strings=["h", "i", *end], finish_reason="stop")
    assert (located.tokens.response_ids[-1], len(located.tokens.response_ids), located.exact) == (END, 3, True)
    assert located.offsets == [(0, 1), (1, 2), (2, 2)]
    unfinished = tok.tokenize("Q", "hi", token_strings=["h", "i"])
    assert len(unfinished.tokens.response_ids) == 2


def test_tokens_that_spell_another_text_leave_the_response_to_the_tokenizer(tok):
    plain = tok.tokenize("Q", "hi")
    assert not plain.exact
    for strings in (["h", "o"], ["h"], ["hi"], []):
        assert tok.tokenize("Q", "hi", token_strings=strings) == plain


def test_ids_come_before_strings_and_strings_before_the_text(tok):
    ids = tok.tokenize("Q", "hi").tokens.response_ids
    assert tok.tokenize("Q", "hi", [*ids, END], token_strings=["h", "i"]).tokens.response_ids == [
        *ids,
        END,
    ]


@pytest.mark.real_model
def test_any_tokens_of_the_real_vocabulary_are_found_from_what_vllm_writes():
    """Whatever ids a model writes, whole characters of them: the ids are those that were spelled."""
    from transformers import AutoTokenizer

    from tokur_cli.engine.model.embedded import LANGUAGE, embedded_folder

    tokenizer = AutoTokenizer.from_pretrained(embedded_folder(LANGUAGE, print))
    spelling, rng = Spelling(tokenizer), random.Random(0)
    whole = [index for index in range(len(tokenizer)) if "\ufffd" not in tokenizer.decode([index])]
    ids = rng.choices(whole, k=5000)
    assert spelling.ids_from_strings([tokenizer.decode([index]) for index in ids]) == ids
    split = tokenizer("日本語 🙂👩‍🔬 ∑ тест 한국어")["input_ids"]
    assert spelling.ids_from_strings(as_vllm(tokenizer, split)) == split
