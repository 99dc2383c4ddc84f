"""Chats as text, and how a model ends its turn in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase

from tokur_cli.engine.text.panics import tokenizing
from tokur_cli.engine.text.templates import fill_chat
from tokur_cli.records.errors import TokurError
from tokur_cli.records.prompt import THINK_BEGINS, THINK_ENDS

Messages = Sequence[Mapping[str, Any]]

_ASKED = "tokurquestion"  # words that no template holds, with nothing at their ends that one would strip
_ANSWERED = "tokuranswer"
_THOUGHT = "tokurthought"


def end_token_ids(
    generation: GenerationConfig | None, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase
) -> tuple[int, ...]:
    """Return the tokens that end a response: the generation config's, else the model config's; and the tokenizer's."""
    configured: int | list[int] | None = None
    for source in (generation, config, config.get_text_config(decoder=True)):
        if configured is None:
            configured = getattr(source, "eos_token_id", None)
    ids = configured if isinstance(configured, list) else [configured]
    return tuple(dict.fromkeys(index for index in (*ids, tokenizer.eos_token_id) if index is not None))


def render(
    tokenizer: PreTrainedTokenizerBase,
    messages: Messages,
    *,
    answer_follows: bool,
    tools: Messages | None = None,
    date: datetime | None = None,
) -> str:
    """Return the text of a conversation.

    Args:
        tokenizer: has the chat template; a class that overrides ``apply_chat_template`` is asked itself.
        messages: the turns.
        answer_follows: the text ends where the model's answer begins.
        tools: definitions of tools that the model may call.
        date: what the template is given as today's; None for the usual one.

    Raises:
        TokurError: the template, or the tokenizer's own code, fails with these messages.
    """
    # As transformers does: templates ask whether a field is there, not whether it is null
    turns = [{name: value for name, value in message.items() if value is not None} for message in messages]
    try:
        if type(tokenizer).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template:
            given: dict[str, Any] = {} if tools is None else {"tools": [dict(tool) for tool in tools]}
            return str(
                tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=answer_follows, **given)
            )
        template, tokens = tokenizer.get_chat_template(), tokenizer.special_tokens_map
        text = fill_chat(template, turns, tokens, answer_follows, tools, date)
        asked = next((turn["content"] for turn in turns if turn.get("role") == "user" and "content" in turn), "")
        if isinstance(asked, str) and asked.strip() not in text:  # templates for images may look for parts alone
            with suppress(TokurError):
                in_parts = fill_chat(template, _in_parts(turns), tokens, answer_follows, tools, date)
                text = in_parts if asked.strip() in in_parts else text
        return text
    except Exception as error:  # a tokenizer's own code may raise anything
        raise TokurError(f"the model's chat template refuses these messages: {error}") from error


def _in_parts(turns: Messages) -> list[dict[str, Any]]:
    """Return turns whose words are lists of one part, as models that take images, too, are given them."""
    return [
        {name: [{"type": "text", "text": value}] if name == "content" else value for name, value in turn.items()}
        for turn in turns
    ]


@dataclass(frozen=True)
class ThinkingForm:
    """How a chat template writes a response with reasoning.

    Args:
        opening: what ends a prompt in which the template begins the reasoning itself; empty where it does not.
        before: the text before the reasoning.
        between: the text between it and the response.
    """

    opening: str
    before: str
    between: str

    def after_empty_thought(self, prompt: str) -> str:
        """Return a prompt with an empty thought, as the template writes one, where the prompt opens a thought."""
        opens = self.opening and prompt.endswith(self.opening)
        return prompt + self.before + self.between if opens else prompt

    def write(self, response: str) -> tuple[str, Callable[[int], int]]:
        """Return a response as the template writes it, and where a place in that is in the response as it was given.

        Args:
            response: with its reasoning as ``with_reasoning`` writes it.
        """
        thought, _, text = response.removeprefix(THINK_BEGINS).partition(THINK_ENDS)
        parts = [(self.before, THINK_BEGINS), (thought, thought), (self.between, THINK_ENDS), (text, text)]

        def place(position: int) -> int:
            given = 0
            for ours, theirs in parts:
                if position < len(ours):
                    return given + min(position, len(theirs))
                given, position = given + len(theirs), position - len(ours)
            return given

        return "".join(ours for ours, _ in parts), lambda position: place(position) if position else 0


def thinking_form(tokenizer: PreTrainedTokenizerBase) -> ThinkingForm:
    """Return how a model's chat template writes reasoning; the form of most where it leaves reasoning out."""
    question = {"role": "user", "content": _ASKED}
    prompt = render(tokenizer, [question], answer_follows=True)
    opening = prompt.rpartition(_ASKED)[2] if prompt.rstrip().endswith(THINK_BEGINS.strip()) else ""
    for name in ("reasoning_content", "thinking"):
        try:
            answer = {"role": "assistant", "content": _ANSWERED, name: _THOUGHT}
            conversation = render(tokenizer, [question, answer], answer_follows=False)
        except TokurError:  # a template that takes no such turn does not tell
            continue
        before, thought, after = conversation.partition(_THOUGHT)
        if thought and before.startswith(prompt) and _ANSWERED in after:
            return ThinkingForm(opening, before.removeprefix(prompt), after.partition(_ANSWERED)[0])
    # Some begin the reasoning themselves, where the answer begins
    begun = next(size for size in range(len(THINK_BEGINS), -1, -1) if prompt.endswith(THINK_BEGINS[:size]))
    return ThinkingForm(opening, THINK_BEGINS[begun:], THINK_ENDS)


@dataclass(frozen=True)
class _AssistantTurn:
    """How a chat template writes an assistant's turn.

    Args:
        opening: the text between a user's words and the assistant's, without white space at its ends.
        end: the end token that follows the assistant's words.
    """

    opening: str
    end: int


class Ending:
    """Tells which token ended a response that is known as text alone.

    After a chat prompt it is the end token that follows the assistant's words in the rendered conversation: Gemma's
    ``<end_of_turn>``, Phi's ``<|end|>``, GLM's ``<|user|>``. After any other prompt, and where the template puts none
    of the model's end tokens there, it is the tokenizer's end-of-sequence token, else the first end token.

    Args:
        tokenizer: the model's.
        end_ids: the tokens that end its responses, as ``end_token_ids`` returns them.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_ids: Sequence[int]) -> None:
        self.tokenizer, self.end_ids = tokenizer, end_ids

    def stop_token_for(self, prompt: str | Sequence[int]) -> int | None:
        """Return the token that ends a response to this prompt; None where the model has no end token."""
        turn = self._assistant_turn
        if turn is not None and turn.opening in self._text(prompt):
            return turn.end
        default = self.tokenizer.eos_token_id
        return int(default) if default is not None else next(iter(self.end_ids), None)

    def opens_answer(self, text: str) -> bool:
        """Return whether a text holds what the template puts between a user's words and the assistant's."""
        turn = self._assistant_turn
        return turn is not None and turn.opening in text

    def _text(self, prompt: str | Sequence[int]) -> str:
        if isinstance(prompt, str):
            return prompt
        with tokenizing():
            return str(self.tokenizer.decode(list(prompt), clean_up_tokenization_spaces=False))

    @cached_property
    def _assistant_turn(self) -> _AssistantTurn | None:
        """How the template writes any assistant's turn: our own words show where it begins and what follows it."""
        if not self.tokenizer.chat_template:
            return None
        question = {"role": "user", "content": _ASKED}
        answer = {"role": "assistant", "content": _ANSWERED}
        # Some templates end no turn: what ends it then is the token that begins the user's next one
        for messages in ([question, answer], [question, answer, question]):
            try:
                prompt = render(self.tokenizer, [question], answer_follows=True)
                conversation = render(self.tokenizer, messages, answer_follows=False)
            except TokurError:  # a template that takes no such conversation does not tell
                continue
            following = conversation.partition(_ANSWERED)[2].lstrip()
            with tokenizing():
                ids = self.tokenizer(following, add_special_tokens=False)["input_ids"]
            if ids and ids[0] in self.end_ids:
                return _AssistantTurn(prompt.rpartition(_ASKED)[2].strip(), ids[0])
        return None
