"""Tokens as the logs of other programs spell them: back to their ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

TokenString = str | bytes
"""A token's text, or its bytes where they are not whole characters."""


class Spelling:
    """Finds the ids of tokens by what they spell.

    A token is known by the bytes that it adds to a text or, as some programs write it, by its name in the vocabulary
    (``Ġthe``, ``▁the``). vLLM spells a character that several tokens make with the last of them and writes the others
    as empty strings; their ids are known if the character's bytes are divided into so many tokens in one way only.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    def ids(self, strings: Sequence[TokenString]) -> list[int] | None:
        """Return the one sequence of ids that is spelled so; None if there is none or there are several."""
        found: list[int] = []
        parts = 1  # tokens that the next string stands for
        for string in strings:
            data = string.encode() if isinstance(string, str) else string
            if not data:
                parts += 1
                continue
            divisions = list(self._divisions(data, parts))
            if len(divisions) != 1:
                return self._named(strings)
            found += divisions[0]
            parts = 1
        return found if parts == 1 else None

    def _named(self, strings: Sequence[TokenString]) -> list[int] | None:
        vocabulary = self.tokenizer.get_vocab()
        ids = [vocabulary.get(string) if isinstance(string, str) else None for string in strings]
        return None if None in ids else [index for index in ids if index is not None]

    def _divisions(self, data: bytes, parts: int) -> Iterator[list[int]]:
        """Yield every way to divide bytes into tokens, of which all but the last end within a character."""
        if parts == 1:
            index = self._ids_by_bytes.get(data)
            if index is not None:
                yield [index]
            return
        for end in range(1, len(data) - parts + 2):
            index = self._ids_by_bytes.get(data[:end])
            if index is not None and data[end] & 0xC0 == 0x80:  # what follows continues a character
                for rest in self._divisions(data[end:], parts - 1):
                    yield [index, *rest]

    @cached_property
    def _ids_by_bytes(self) -> dict[bytes, int | None]:
        """Each token's id by its bytes; None where several tokens have the same."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        decoder = json.dumps(json.loads(backend.to_str())["decoder"]) if backend is not None else ""
        names = {character: byte for byte, character in bytes_to_unicode().items()} if "ByteLevel" in decoder else None
        added = {token.content for token in self.tokenizer.added_tokens_decoder.values()}
        ids: dict[bytes, int | None] = {}
        single: dict[bytes, int] = {}  # one byte each, for what no other token spells
        for name, index in self.tokenizer.get_vocab().items():
            if name in added:
                data = name.encode()
            elif names is not None and names.keys() >= set(name):
                data = bytes(names[character] for character in name)
            elif len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
                single[bytes.fromhex(name[3:5])] = index
                continue
            else:
                data = name.replace("▁", " ").encode()
            ids[data] = None if data in ids else index
        return {**single, **ids}
