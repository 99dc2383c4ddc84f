"""Chats as text, and how a model's answer stands in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Any

from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import _compile_jinja_template

from tokur_cli.records.errors import TokurError
from tokur_cli.records.prompt import THINK_BEGINS, THINK_ENDS

Messages = Sequence[Mapping[str, Any]]
DATE = datetime(2024, 7, 26)
"""What a chat template is given as today, else each day would have other prompts: Llama 3's default."""

# Words that no template holds, with nothing at their ends that one would strip
_ASKED, _THOUGHT, _ANSWERED = "tokurquestion", "tokurthought", "tokuranswer"
_QUESTION, _ANSWER = {"role": "user", "content": _ASKED}, {"role": "assistant", "content": _ANSWERED}


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


class Chat:
    """A model's chats: conversations as its template writes them, what ends an answer, and where reasoning goes.

    Args:
        tokenizer: the model's; one without a chat template has no chats.
        end_ids: the tokens that end its responses, as ``end_token_ids`` returns them.
        date: what a template that asks for today's is given; None for ``DATE``.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, end_ids: Sequence[int], date: datetime | None = None
    ) -> None:
        self.tokenizer, self.end_ids, self._date = tokenizer, end_ids, date

    @property
    def template(self) -> str:
        """The template, of several the default one; empty without one."""
        found = self.tokenizer.chat_template or ""
        return found if isinstance(found, str) else str(found.get("default", ""))

    @property
    def date(self) -> datetime | None:
        """What the template is given as today's date; None if it asks for none."""
        return (self._date or DATE) if "strftime_now" in self.template else None

    def render(self, messages: Messages, tools: Messages | None = None, *, answer_follows: bool = True) -> str:
        """Return the text of a conversation, as transformers renders it, but on one date.

        Args:
            messages: the turns.
            tools: definitions of tools that the model may call.
            answer_follows: the text ends where the model's answer begins.

        Raises:
            TokurError: there is no template, or it, or the tokenizer's own code, fails with these messages.
        """
        if not self.tokenizer.chat_template:
            raise TokurError("the model has no chat template: give the prompt's with --template raw or --template FILE")
        # As transformers does: templates ask whether a field is there, not whether it is null
        turns = [{name: value for name, value in message.items() if value is not None} for message in messages]
        options: dict[str, Any] = {} if tools is None else {"tools": tools}
        options |= {"tokenize": False, "add_generation_prompt": answer_follows}
        try:
            if self.date is not None:
                # transformers keeps what it has compiled, and takes no function as an argument
                compiled = _compile_jinja_template(self.tokenizer.get_chat_template(tools=options.get("tools")))
                compiled.globals["strftime_now"] = self.date.strftime
            text = str(self.tokenizer.apply_chat_template(turns, **options))
            asked = next((turn["content"] for turn in turns if turn.get("role") == "user" and "content" in turn), "")
            if isinstance(asked, str) and asked.strip() not in text:  # templates for images may look for parts alone
                with suppress(Exception):
                    in_parts = str(self.tokenizer.apply_chat_template(list(map(_in_parts, turns)), **options))
                    text = in_parts if asked.strip() in in_parts else text
            return text
        except Exception as error:  # a template is a program
            raise TokurError(f"the model's chat template refuses these messages: {error}") from error

    def holds_control_tokens(self, text: str) -> bool:
        """Return whether a text has any sign of the model's chats: it was made by a chat template then."""
        return self.opens_answer(text) or any(token in text for token in self.tokenizer.all_special_tokens)

    def opens_answer(self, text: str) -> bool:
        """Return whether a text holds what the template puts between a user's words and the assistant's."""
        return self._around_answer is not None and self._around_answer[0] in text

    def stop_token_for(self, prompt: str | Sequence[int]) -> int | None:
        """Return the token that ends a response to this prompt; None where the model has no end token.

        After a chat prompt it is the end token that follows the assistant's words in the rendered conversation: Gemma's
        ``<end_of_turn>``, Phi's ``<|end|>``, GLM's ``<|user|>``. After any other prompt, and where the template puts
        none of the model's end tokens there, it is the tokenizer's end-of-sequence token, else the first end token.
        """
        if not isinstance(prompt, str):
            prompt = str(self.tokenizer.decode(list(prompt), clean_up_tokenization_spaces=False))
        if self._around_answer is not None and self.opens_answer(prompt):
            return self._around_answer[1]
        default = self.tokenizer.eos_token_id
        return int(default) if default is not None else next(iter(self.end_ids), None)

    def opens_thought(self, prompt: str) -> bool:
        """Return whether a prompt ends with the beginning of a thought, which the template writes itself."""
        opening = self._around_thought[0]
        return bool(opening) and prompt.endswith(opening)

    def after_empty_thought(self, prompt: str, response: str) -> str:
        """Return a prompt with an empty thought, as the template writes one, where it opens one that is not there."""
        _, before, between = self._around_thought
        lacks = not any(mark.strip() in response for mark in (THINK_BEGINS, THINK_ENDS))
        return prompt + before + between if lacks and self.opens_thought(prompt) else prompt

    def with_thought(self, prompt: str, response: str) -> tuple[str, Sequence[int]]:
        """Return a response as the template writes it, and where each place in that is in the response as it was given.

        Args:
            prompt: what it answers; after one that is no chat, the response stays as it is.
            response: with its reasoning, if it has any, as ``with_reasoning`` writes it.
        """
        thought, ends, text = response.removeprefix(THINK_BEGINS).partition(THINK_ENDS)
        if not (response.startswith(THINK_BEGINS) and self.opens_answer(prompt)):
            return response, range(len(response) + 1)
        _, before, between = self._around_thought
        between = between if ends else ""  # it was cut off within its reasoning
        places: list[int] = []
        written, given = "", 0
        for ours, theirs in ((before, THINK_BEGINS), (thought, thought), (between, ends), (text, text)):
            places += [given + min(place, len(theirs)) for place in range(len(ours))]
            written, given = written + ours, given + len(theirs)
        return written, [0, *places[1:], given]

    @cached_property
    def _around_answer(self) -> tuple[str, int] | None:
        """What the template puts before an assistant's words, white space apart, and the end token after them."""
        # Some templates end no turn: what ends it then is the token that begins the user's next one
        for later in ((), (_QUESTION,)):
            following = self._rendered(_QUESTION, _ANSWER, *later).partition(_ANSWERED)[2].lstrip()
            ids = self.tokenizer(following, add_special_tokens=False)["input_ids"]
            if self._prompt and ids and ids[0] in self.end_ids:
                return self._prompt.rpartition(_ASKED)[2].strip(), ids[0]
        return None

    @cached_property
    def _around_thought(self) -> tuple[str, str, str]:
        """What ends a prompt in which the template begins a thought itself, and what it writes before and after one.

        The first is empty where it begins none, the others are those of most where it leaves reasoning out.
        """
        prompt = self._prompt
        opening = prompt.rpartition(_ASKED)[2] if prompt.rstrip().endswith(THINK_BEGINS.strip()) else ""
        for name in ("reasoning_content", "thinking"):
            before, thought, after = self._rendered(_QUESTION, _ANSWER | {name: _THOUGHT}).partition(_THOUGHT)
            if thought and before.startswith(prompt) and _ANSWERED in after:
                return opening, before.removeprefix(prompt), after.partition(_ANSWERED)[0]
        begun = next(size for size in range(len(THINK_BEGINS), -1, -1) if prompt.endswith(THINK_BEGINS[:size]))
        return opening, THINK_BEGINS[begun:], THINK_ENDS

    @cached_property
    def _prompt(self) -> str:
        return self._rendered(_QUESTION, answer_follows=True)

    def _rendered(self, *turns: Mapping[str, Any], answer_follows: bool = False) -> str:
        """Return the text of a conversation; empty where the template takes none such, and so does not tell."""
        with suppress(TokurError):
            return self.render(turns, answer_follows=answer_follows)
        return ""


def _in_parts(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn whose words are a list of one part, as models that take images, too, are given them."""
    return {name: [{"type": "text", "text": said}] if name == "content" else said for name, said in turn.items()}
