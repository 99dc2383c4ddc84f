"""Tokens by what they spell: the ids of those in the logs of other programs, and the texts of ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

TokenString = str | bytes
"""A token's text, or its bytes where they are not whole characters."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")  # the name of a byte where others may lack it, as in SentencePiece


class Spelling:
    """Finds the ids of tokens by what they spell.

    A token is known by the bytes that it adds to a text or, as some programs write it, by its name in the vocabulary
    (``Ġthe``, ``▁the``).
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._added = {token.content for token in tokenizer.added_tokens_decoder.values()}
        backend = getattr(tokenizer, "backend_tokenizer", None)
        is_over_bytes = backend is not None and "ByteLevel" in repr(backend.decoder)
        # The bytes by the characters that a tokenizer over bytes has for them; none for any other
        self._bytes_by_character = {char: byte for byte, char in bytes_to_unicode().items()} if is_over_bytes else {}

    def ids_from_strings(self, strings: Sequence[TokenString]) -> list[int] | None:
        """Return the one sequence of ids that is spelled so; None if there is none or there are several."""
        by_bytes = [self._ids_by_bytes.get(each.encode() if isinstance(each, str) else each) for each in strings]
        by_name = [self._ids_by_name.get(each) if isinstance(each, str) else None for each in strings]
        for ids in (by_bytes, by_name):
            if (found := [index for index in ids if index is not None]) and len(found) == len(ids):
                return found
        return None

    def text(self, index: int) -> str:
        """Return what a token adds to a text, its spaces included; empty for an id that the tokenizer does not have.

        A special token is spelled by its name, and U+FFFD stands for what is no whole character.
        """
        name = self.tokenizer.convert_ids_to_tokens(index)
        return self._bytes(name).decode("utf-8", "replace") if isinstance(name, str) else ""

    @cached_property
    def _ids_by_name(self) -> dict[str, int]:
        return self.tokenizer.get_vocab()  # for which tokenizers take 0.2 seconds, with 262,144 tokens

    @cached_property
    def _ids_by_bytes(self) -> dict[bytes, int | None]:
        """Each token's id by its bytes; None where several tokens have the same."""
        ids: dict[bytes, int | None] = {}
        single: dict[bytes, int | None] = {}  # one byte each, for what no other token spells
        for name, index in self._ids_by_name.items():
            data = self._bytes(name)
            same = single if _BYTE.fullmatch(name) and data != name.encode() else ids
            same[data] = None if data in same else index
        return {**single, **ids}

    def _bytes(self, name: str) -> bytes:
        """Return the bytes that the token of a name adds to a text."""
        if name in self._added:
            return name.encode()
        if self._bytes_by_character.keys() >= set(name):
            return bytes(self._bytes_by_character[character] for character in name)
        byte = _BYTE.fullmatch(name)
        return bytes.fromhex(byte[1]) if byte else name.replace("▁", " ").encode()
