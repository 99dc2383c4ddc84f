"""Prompts and responses as token ids, with each response token's place in the response's text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime
from functools import cache, cached_property
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from tokur_cli.engine.model.errors import tokenizing
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.engine.text.chat import Chat
from tokur_cli.engine.text.spelling import Spelling, TokenString
from tokur_cli.records.errors import TokurError

Offsets = list[tuple[int, int]]

_REPLACEMENT = "\ufffd"  # what a decoder writes for bytes that are not a whole character
_BYTES_PER_CHARACTER = 4  # at most, in UTF-8: after as many tokens a character is whole or broken for good


def _without_gaps(spans: Sequence[tuple[int, int]], text: str) -> Offsets:
    """Return the spans of a text's tokens with what the tokenizer gives to none of them.

    White space belongs to the token after it; anything else, such as a mark that a normaliser has composed with its
    letter, to the one before it.
    """
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    reached = 0
    for start, end in [*spans, (len(text), len(text))]:
        if start > reached:
            ends[reached] = starts[start] = reached + len(text[reached:start].rstrip())
        reached = max(reached, end)
    return [(starts.get(start, start), ends.get(end, end)) for start, end in spans]


class LocatedResponse(NamedTuple):
    """A tokenized response whose tokens know their place."""

    tokens: TokenizedResponse
    # T spans [start, end) of code points in the response's text, without gaps between them; several tokens that make
    # one character carry the same span, special tokens an empty one
    offsets: Offsets
    exact: bool  # whether the ids are the response's own, not those of its text tokenized again
    # Whether it has no reasoning where its prompt opens one, and so was put after an empty one
    without_thought: bool = False


class ResponseTokenizer:
    """Turns prompts and responses into ids for one model.

    Args:
        tokenizer: the model's.
        context_length: positions that the model has; None for any number.
        end_ids: the tokens that end the model's responses; None for the tokenizer's end-of-sequence token alone.
        vocabulary_size: how many ids the model takes; None for as many as the tokenizer has.
        date: of chats, see ``Chat``.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        context_length: int | None = None,
        end_ids: Sequence[int] | None = None,
        vocabulary_size: int | None = None,
        date: datetime | None = None,
    ) -> None:
        self.tokenizer, self.context_length = tokenizer, context_length
        self.vocabulary_size = len(tokenizer) if vocabulary_size is None else vocabulary_size
        if end_ids is None:
            end_ids = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)
        self.chat, self.spelling = Chat(tokenizer, end_ids, date), Spelling(tokenizer)
        self._piece = cache(lambda index: self.decode([index]))

    def tokenize_prompt(self, prompt: str | Sequence[int], *, special_tokens: bool = False) -> list[int]:
        """Return the ids of a prompt to generate from, as in ``tokenize``.

        Raises:
            TokurError: the prompt is empty, leaves no room for a response, or holds ids that the model does not take.
        """
        ids = self._encode(prompt, special_tokens)
        self._check_ids(ids, "the tokenizer" if isinstance(prompt, str) else "prompt_token_ids")
        if not ids:
            raise TokurError("the prompt is empty: there is nothing to answer")
        if self.context_length is not None and len(ids) >= self.context_length:
            raise TokurError(f"the prompt has {len(ids):,} tokens; the model's context holds {self.context_length:,}")
        return ids

    def tokenize(
        self,
        prompt: str | Sequence[int],
        response: str,
        response_ids: Sequence[int] | None = None,
        *,
        token_strings: Sequence[TokenString] | None = None,
        special_tokens: bool = False,
        finish_reason: str | None = None,
    ) -> LocatedResponse:
        """Return the ids and offsets of a response after its prompt.

        Args:
            prompt: text, or the exact ids.
            response: its text.
            response_ids: its exact ids where they are known; else the response is tokenized together with a text
                prompt, or by itself after a prompt of ids.
            token_strings: its exact tokens as a log spells them, where ids are not known; they count if they spell the
                response in this tokenizer's vocabulary, and may lack the end-of-sequence token.
            special_tokens: whether the tokenizer puts its own (a beginning-of-sequence token) before a text prompt
                that does not begin with one; a rendered chat template has them already.
            finish_reason: why it ended: after ``stop`` the token that ends it belongs to it (see ``Chat``) unless its
                text spells one; exact ids have it. After ``length``, it may have ended within a thought.

        Raises:
            TokurError: nothing to score, no token before the response, more tokens than the model's context holds,
                ids that the model does not take or that do not spell the response.
        """
        if not isinstance(prompt, str):
            self._check_ids(prompt, "prompt_token_ids")
        self._check_ids(response_ids or (), "token_ids")
        given = prompt
        exact_ids = self.spelling.ids_from_strings(token_strings or ()) if response_ids is None else list(response_ids)
        offsets = None if exact_ids is None else self.locate(exact_ids, response)
        if exact_ids is not None and offsets is not None:
            prompt_ids, ids = self._encode(prompt, special_tokens), exact_ids
        elif response_ids is not None:
            raise TokurError("token_ids do not spell the response: leave them out to have its text tokenized")
        else:
            exact_ids = None
            if isinstance(prompt, str) and finish_reason != "length":
                prompt = self.chat.after_empty_thought(prompt, response)
            prompt_ids, ids, offsets = self._encode_together(prompt, response, special_tokens)
        if not ids:
            raise TokurError("the response is empty: there is no token to score")
        if not prompt_ids:
            raise TokurError("the prompt is empty: the response's first token follows nothing")
        lacks_end = response_ids is None and finish_reason == "stop" and set(ids).isdisjoint(self.chat.end_ids)
        if lacks_end and (end := self.chat.stop_token_for(prompt)) is not None:
            ids.append(end)
            offsets.append((len(response), len(response)))
        self._check_ids([*prompt_ids, *ids], "the tokenizer")
        tokens = TokenizedResponse(prompt_ids, ids)
        if self.context_length is not None and tokens.length > self.context_length:
            raise TokurError(
                f"prompt and response have {tokens.length:,} tokens; the model's context holds {self.context_length:,}"
            )
        return LocatedResponse(tokens, offsets, exact_ids is not None, without_thought=prompt != given)

    def locate(self, ids: Sequence[int], response: str) -> Offsets | None:
        """Return each token's span in the response that ids spell; None if they do not spell it.

        Text before or after the response (white space that was stripped, a stop string that was cut off) gets empty
        spans at the response's ends.
        """
        decoded = self.decode(ids)
        begin = 0 if decoded.startswith(response) else len(decoded) - len(decoded.lstrip())
        spans = self._spans(ids, decoded)
        if spans is None or not decoded.startswith(response, begin):
            return None
        size = len(response)
        return [(min(max(start - begin, 0), size), min(max(end - begin, 0), size)) for start, end in spans]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, to the character, without special tokens."""
        with tokenizing():
            return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _spans(self, ids: Sequence[int], decoded: str) -> Offsets | None:
        """Return each token's span in the decoded text; None if they cannot be found."""
        pieces = [self._piece(index) for index in ids]
        if "".join(pieces) == decoded:
            ends = list(itertools.accumulate(map(len, pieces)))
            return list(zip([0, *ends], ends, strict=False))
        # Bytes of one character in several tokens, which share its span, or spaces that depend on neighbours: each is
        # measured by decoding a stretch with and without it, which begins again at each whole character
        spans: Offsets = []
        context, begin, reached = 0, 0, 0  # the stretch is ids[context:], of which ids[context:begin] have their spans
        for index in range(len(ids)):
            known, text = self.decode(ids[context:begin]), self.decode(ids[context : index + 1])
            unfinished = text.endswith(_REPLACEMENT) and index - begin + 1 < _BYTES_PER_CHARACTER
            if unfinished and index + 1 < len(ids):
                continue
            end = reached + len(text) - len(known)
            spans += [(reached, end)] * (index + 1 - begin)
            context, begin, reached = begin, index + 1, end
        return spans if reached == len(decoded) else None

    def _encode(self, prompt: str | Sequence[int], special_tokens: bool) -> list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        with tokenizing():
            ids: list[int] = self.tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"]
        return [*self._beginning(prompt, special_tokens), *ids]

    def _beginning(self, text: str, special_tokens: bool) -> list[int]:
        """Return the tokens that stand before a text; none where it begins with one, as a rendered chat may."""
        token = self.tokenizer.bos_token
        begins = bool(token) and text.startswith(token)
        return self._added_before if special_tokens and not begins else []

    @cached_property
    def _added_before(self) -> list[int]:
        """The ids that the tokenizer puts before any text; what it puts after one is no token of a prompt."""
        bare, whole = (self.tokenizer("a", add_special_tokens=added)["input_ids"] for added in (False, True))
        before = next(place for place in range(len(whole)) if whole[place : place + len(bare)] == bare)
        return list(whole[:before])

    def _encode_together(
        self, prompt: str | Sequence[int], response: str, special_tokens: bool
    ) -> tuple[list[int], list[int], Offsets]:
        """Tokenize text prompt + response; a token that lies across the border belongs to the response."""
        if not self.tokenizer.is_fast:
            raise TokurError("this model's tokenizer cannot tell where its tokens are: give the response's token_ids")
        before = prompt if isinstance(prompt, str) else ""
        written, places = self.chat.with_thought(before, response)
        text, border = before + written, len(before)
        with tokenizing():
            encoding = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, spans = encoding["input_ids"], _without_gaps(encoding["offset_mapping"], text)
        first = next((index for index, (_, end) in enumerate(spans) if end > border), len(ids))
        offsets = [(places[max(start - border, 0)], places[end - border]) for start, end in spans[first:]]
        if not isinstance(prompt, str):
            return list(prompt), ids, offsets
        return [*self._beginning(prompt, special_tokens), *ids[:first]], ids[first:], offsets

    def _check_ids(self, ids: Sequence[int], what: str) -> None:
        """Refuse ids that the model does not have, which may come from another one."""
        if (largest := max(ids, default=0)) >= self.vocabulary_size:
            raise TokurError(f"{what} has {largest}, but the model's vocabulary ends at {self.vocabulary_size - 1}")
