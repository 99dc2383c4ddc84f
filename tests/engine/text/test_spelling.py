"""Tokens that logs spell are found again in the vocabulary."""

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from tests.tiny import tiny_tokenizer
from tokur_cli.engine.text.spelling import Spelling
from tokur_cli.engine.text.tokens import ResponseTokenizer

TEXT = "Ah é — 日本 🙂 ok"
END = 258


def wordpieces():
    """SentencePiece's form: ``▁`` for a space, ``<0x..>`` for a byte."""
    names = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁the", "the", "▁", "t", "h", "e", "▁é"]
    vocabulary = {name: index for index, name in enumerate(names)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


def test_ids_from_strings_finds_tokens_by_their_bytes():
    """As OpenAI's logs have them: the bytes of what is no whole character."""
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer(TEXT)["input_ids"], END]
    strings = [bytes([byte]) if byte > 127 else chr(byte) for byte in TEXT.encode()]
    assert Spelling(tokenizer).ids_from_strings([*strings, "<|im_end|>"]) == ids


def test_ids_from_strings_finds_sentencepiece_tokens():
    tokenizer = wordpieces()
    names = ("▁the", "the", "▁", "t", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "▁é", "</s>")
    ids = [tokenizer.get_vocab()[name] for name in names]
    strings = [" the", "the", " ", "t", b"\xf0", b"\x9f", b"\x99", b"\x82", " é", "</s>"]
    assert (spelling := Spelling(tokenizer)).ids_from_strings(strings) == ids
    assert spelling.ids_from_strings(["▁the", "the"]) == ids[:2], "names in the vocabulary"
    assert [spelling.text(index) for index in ids[:4]] == strings[:4]


def test_ids_from_strings_does_not_guess_and_reads_the_vocabulary_once(monkeypatch):
    spelling = Spelling(tokenizer := tiny_tokenizer())
    monkeypatch.setattr(tokenizer, "get_vocab", iter([tokenizer.get_vocab()]).__next__)
    for strings in (["a", "bc"], ["a", ""], ["", "é"], []):
        assert spelling.ids_from_strings(strings) is None


@pytest.fixture(scope="module")
def tok():
    return ResponseTokenizer(tiny_tokenizer())


@pytest.mark.parametrize("end", [[], ["<|im_end|>"]])
def test_tokenize_counts_the_end_token_once_whether_the_log_has_it_or_not(tok, end):
    located = tok.tokenize("Q", "hi", token_strings=["h", "i", *end], finish_reason="stop")
    assert (located.tokens.response_ids[-1], len(located.tokens.response_ids), located.exact) == (END, 3, True)
    assert located.offsets == [(0, 1), (1, 2), (2, 2)]


def test_tokenize_leaves_to_the_tokenizer_what_strings_do_not_spell_and_takes_ids_before_them(tok):
    plain = tok.tokenize("Q", "hi")
    assert not plain.exact
    for strings in (["h", "o"], ["h"], ["hi"], []):
        assert tok.tokenize("Q", "hi", token_strings=strings) == plain
    ids = [*plain.tokens.response_ids, END]
    assert tok.tokenize("Q", "hi", ids, token_strings=["h", "i"]).tokens.response_ids == ids
