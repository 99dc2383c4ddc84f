"""Prompts and responses as token ids, with each response token's place in the response's text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Any

from transformers import PreTrainedTokenizerBase

from tokur_cli.engine.model.errors import tokenizing
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.engine.text.chat import ChatForm, chat_date, default_template, render
from tokur_cli.engine.text.spelling import Spelling, TokenString
from tokur_cli.records.errors import TokurError
from tokur_cli.records.prompt import THINK_BEGINS, THINK_ENDS

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


@dataclass(frozen=True)
class LocatedResponse:
    """A tokenized response whose tokens know their place.

    Args:
        tokens: the ids.
        offsets: T spans [start, end) of code points in the response's text, without gaps between them; several
            tokens that make one character carry the same span, special tokens an empty one.
        exact: whether the ids are the response's own, not those of its text tokenized again.
        without_thought: whether it has no reasoning where its prompt opens one, and so was put after an empty one.
    """

    tokens: TokenizedResponse
    offsets: Offsets
    exact: bool
    without_thought: bool = False


class ResponseTokenizer:
    """Turns prompts and responses into ids for one model.

    Args:
        tokenizer: the model's.
        context_length: positions that the model has; None for any number.
        end_ids: the tokens that end the model's responses; None for the tokenizer's end-of-sequence token alone.
        vocabulary_size: how many ids the model takes; None for as many as the tokenizer has.
        date: what a chat template that asks for today's is given; None for its own, see ``chat_date``.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        context_length: int | None = None,
        end_ids: Sequence[int] | None = None,
        vocabulary_size: int | None = None,
        date: datetime | None = None,
    ) -> None:
        self.tokenizer, self._date = tokenizer, date
        self.vocabulary_size = len(tokenizer) if vocabulary_size is None else vocabulary_size
        self.context_length = context_length
        self.spelling = Spelling(tokenizer)
        if end_ids is None:
            end_ids = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)
        self._form = ChatForm(tokenizer, end_ids)
        self._piece = cache(lambda index: self.decode([index]))

    @property
    def has_chat_template(self) -> bool:
        """Whether the model's prompts are chats."""
        return bool(self.tokenizer.chat_template)

    @property
    def chat_date(self) -> str | None:
        """The date, YYYY-MM-DD, that the chat template is given as today's; None if it asks for none."""
        date = chat_date(default_template(self.tokenizer))
        return None if date is None else (self._date or date).date().isoformat()

    @property
    def takes_tools(self) -> bool:
        """Whether the chat template tells the model of tools."""
        return "tools" in default_template(self.tokenizer)

    def holds_control_tokens(self, text: str) -> bool:
        """Return whether a text has any sign of the model's chats: it was made by a chat template then."""
        return self._form.opens_answer(text) or any(token in text for token in self.tokenizer.all_special_tokens)

    def render_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> str:
        """Return the text of a conversation up to where the model's answer begins.

        Raises:
            TokurError: the tokenizer has no chat template, or its template refuses these messages.
        """
        if not self.has_chat_template:
            raise TokurError(
                "the model has no chat template: say how the prompt reads with --template raw or --template FILE"
            )
        return render(self.tokenizer, messages, answer_follows=True, tools=tools, date=self._date)

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
            raise TokurError(
                f"the prompt has {len(ids):,} tokens; the model's context of {self.context_length:,} leaves no room "
                "for a response"
            )
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
            finish_reason: why it ended: after ``stop`` the token that ends it belongs to it (see ``ChatForm``)
                unless its text spells one; exact ids have it. After ``length``, it may have ended within a thought.

        Raises:
            TokurError: nothing to score, no token before the response, more tokens than the model's context holds,
                ids that the model does not take or that do not spell the response.
        """
        if not isinstance(prompt, str):
            self._check_ids(prompt, "prompt_token_ids")
        self._check_ids(response_ids or (), "token_ids")
        exact_ids, without_thought = None, False
        if response_ids is not None:
            exact_ids = list(response_ids)
        elif token_strings:
            exact_ids = self._spelled(token_strings, response)
        if exact_ids is not None:
            prompt_ids, ids, offsets = self._encode(prompt, special_tokens), exact_ids, self.locate(exact_ids, response)
        elif isinstance(prompt, str):
            has_thought = any(mark.strip() in response for mark in (THINK_BEGINS, THINK_ENDS))
            if self.has_chat_template and finish_reason != "length" and not has_thought:
                after_thought = self._form.after_empty_thought(prompt)
                prompt, without_thought = after_thought, after_thought != prompt
            text, places = response, None
            if response.startswith(THINK_BEGINS) and THINK_ENDS in response and self._form.opens_answer(prompt):
                text, places = self._form.with_thought(response)
            prompt_ids, ids, offsets = self._encode_together(prompt, text, special_tokens)
            if places is not None:
                offsets = [(places[start], places[end]) for start, end in offsets]
        else:
            _, ids, offsets = self._encode_together("", response, special_tokens=False)
            prompt_ids = list(prompt)
        if not ids:
            raise TokurError("the response is empty: there is no token to score")
        if not prompt_ids:
            raise TokurError("the prompt is empty: the response's first token follows nothing")
        lacks_end = response_ids is None and finish_reason == "stop" and set(ids).isdisjoint(self._form.end_ids)
        if lacks_end and (end := self._form.stop_token_for(prompt)) is not None:
            ids.append(end)
            offsets.append((len(response), len(response)))
        self._check_ids([*prompt_ids, *ids], "the tokenizer")
        tokens = TokenizedResponse(prompt_ids, ids)
        if self.context_length is not None and tokens.length > self.context_length:
            raise TokurError(
                f"prompt and response have {tokens.length:,} tokens; the model's context holds {self.context_length:,}"
            )
        return LocatedResponse(tokens, offsets, exact_ids is not None, without_thought)

    def _spelled(self, strings: Sequence[TokenString], response: str) -> list[int] | None:
        """Return the ids of the tokens that are spelled so; None if they do not spell the response."""
        ids = self.spelling.ids_from_strings(strings)
        with suppress(TokurError):
            if ids and self.locate(ids, response):
                return ids
        return None

    def locate(self, ids: Sequence[int], response: str) -> Offsets:
        """Return each token's span in the response that the ids spell.

        Text before or after the response (white space that was stripped, a stop string that was cut off) gets empty
        spans at the response's ends.

        Args:
            ids: token ids.
            response: the text they spell, up to cuts at its ends.

        Raises:
            TokurError: the ids do not spell the response.
        """
        decoded = self.decode(ids)
        begin = 0 if decoded.startswith(response) else len(decoded) - len(decoded.lstrip())
        spans = self._spans(ids, decoded)
        if spans is None or not decoded.startswith(response, begin):
            raise TokurError("token_ids do not spell the response: leave them out to have its text tokenized")
        size = len(response)
        return [(min(max(start - begin, 0), size), min(max(end - begin, 0), size)) for start, end in spans]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, to the character, without special tokens."""
        with tokenizing():
            return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _spans(self, ids: Sequence[int], decoded: str) -> Offsets | None:
        """Return each token's span in the decoded text; None if they cannot be found."""
        pieces = [self._piece(index) for index in ids]
        if "".join(pieces) != decoded:  # bytes of one character in several tokens, or spaces that depend on neighbours
            return self._spans_in_context(ids, decoded)
        ends = list(itertools.accumulate(map(len, pieces)))
        return list(zip([0, *ends], ends, strict=False))

    def _spans_in_context(self, ids: Sequence[int], decoded: str) -> Offsets | None:
        """Measure each token by decoding a short stretch with and without it.

        The stretch begins again at each whole character, so the time stays linear; the tokens of one character share
        its span.
        """
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
        self, prompt: str, response: str, special_tokens: bool
    ) -> tuple[list[int], list[int], Offsets]:
        """Tokenize prompt + response; a token that lies across the border belongs to the response."""
        if not self.tokenizer.is_fast:
            raise TokurError("this model's tokenizer cannot tell where its tokens are: give the response's token_ids")
        text, border = prompt + response, len(prompt)
        with tokenizing():
            encoding = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, spans = encoding["input_ids"], _without_gaps(encoding["offset_mapping"], text)
        first = next((index for index, (_, end) in enumerate(spans) if end > border), len(ids))
        offsets = [(max(start - border, 0), end - border) for start, end in spans[first:]]
        return [*self._beginning(prompt, special_tokens), *ids[:first]], ids[first:], offsets

    def _check_ids(self, ids: Sequence[int], what: str) -> None:
        """Refuse ids that the model does not have, which may come from another one."""
        if (largest := max(ids, default=0)) >= self.vocabulary_size:
            raise TokurError(f"{what} has {largest}, but the model's vocabulary ends at {self.vocabulary_size - 1}")
