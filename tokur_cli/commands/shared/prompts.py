"""From a record to the prompt that its response follows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.commands.options.model import PromptOptions
from tokur_cli.commands.shared.digests import content_digest
from tokur_cli.engine.text.templates import compile_template
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.mapping import find_value
from tokur_cli.records.prompt import SYSTEM_ROLES, Prompt
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.engine.text.tokens import LocatedResponse, ResponseTokenizer

_OPTIONS = ("template", "system", "few_shot")  # that prompts depend on, by which records name them

MATH_TEMPLATE = r"""Solve the following math problem efficiently and clearly:

- For simple problems (2 steps or fewer):
Provide a concise solution with minimal explanation.

- For complex problems (3 steps or more):
Use this step-by-step format:

## Step 1: [Concise description]
[Brief explanation and calculations]

## Step 2: [Concise description]
[Brief explanation and calculations]

...

Regardless of the approach, always conclude with:

Therefore, the final answer is: $\boxed{answer}$. I hope it is correct.

Where [answer] is just the final number or expression that solves the problem.

Problem: {{ question }}"""
"""The step-by-step prompt of the paper (appendix "Prompt Templates"), first published by Meta."""


class PromptForm:
    """How a record's question becomes a prompt.

    Args:
        options: what ``--template`` ``math`` or a file make is a user's turn if the model has a chat template, else the
            whole prompt. ``few_shot`` examples are turns of a chat or, without a chat template, question and answer on
            lines of their own. Records with messages, text or ids of their own keep them as they are.
    """

    def __init__(self, options: PromptOptions) -> None:
        self.options, template = options, options.template
        self._examples = _read_examples(options.few_shot) if options.few_shot is not None else []
        self._jinja = None if template in ("chat", "raw") else _read_template(template)

    def settings(self, tokenizer: ResponseTokenizer) -> dict[str, Any]:
        """Return what a prompt depends on beside the record: the options, and digests of what the files hold."""
        options = self.options
        contents = {
            "template_digest": self._jinja if options.template != "math" else None,
            "few_shot_digest": self._examples or None,
            "chat_template_digest": tokenizer.tokenizer.chat_template or None,  # of messages with raw, too
        }
        digests = {name: content_digest(content) for name, content in contents.items() if content is not None}
        dated = {} if (date := tokenizer.chat.date) is None else {"date": date.date().isoformat()}
        return {name: getattr(options, name) for name in _OPTIONS} | dated | digests

    def apply(self, record: Record, tokenizer: ResponseTokenizer) -> tuple[str | Sequence[int], bool]:
        """Return (prompt as text or exact ids, whether the tokenizer's special tokens belong before it)."""
        prompt = record.prompt
        if prompt.token_ids is not None:
            return prompt.token_ids, False
        if prompt.text is not None and self._jinja is None:
            return prompt.text, True
        if prompt.messages is not None:
            return self._rendered(record, tokenizer, prompt.messages, prompt.tools), False
        question = self._question(record, prompt)
        if self.options.template == "raw" or (self._jinja and not tokenizer.chat.template):
            if self.options.system is not None:
                raise record.error("--system is a turn of a chat, and this model has no chat template")
            shown = "".join(f"{asked}\n{answer}\n\n" for asked, answer in self._examples)
            return f"{shown}{question}\n" if shown else question, True
        turns = [
            {"role": role, "content": content}
            for example in self._examples
            for role, content in zip(("user", "assistant"), example, strict=True)
        ]
        return self._rendered(record, tokenizer, [*turns, {"role": "user", "content": question}]), False

    def tokenize(self, record: Record, tokenizer: ResponseTokenizer, model: str) -> LocatedResponse:
        """Tokenize a record's prompt and response for a model; another model's ids are ignored."""
        try:
            source = with_ids_of(record, model)
            prompt, special_tokens = self.apply(source, tokenizer)
            return tokenizer.tokenize(
                prompt,
                source.response,
                source.token_ids,
                token_strings=source.token_strings,
                special_tokens=special_tokens,
                finish_reason=source.tokur.get("finish_reason"),
            )
        except RecordError:
            raise
        except TokurError as error:
            raise record.error(str(error)) from None

    def remarks(self, record: Record, tokenizer: ResponseTokenizer) -> Iterator[str]:
        """Yield what a prompt of ``apply`` lacks, or may lack, of what was asked for or what the response is from."""
        prompt = record.prompt
        if record.tokur.get("reasoning") == "withheld":
            yield "the reasoning before some responses was withheld: they are scored as if there had been none"
        if (
            prompt.text is not None
            and self._jinja is None
            and tokenizer.chat.template
            and not tokenizer.chat.holds_control_tokens(prompt.text)
        ):
            yield (
                'a "prompt" without the chat template\'s control tokens is taken word for word; '
                "--question-field prompt puts it into the template"
            )
        text = find_value(record.fields, "prompt", str)
        ids = prompt.token_ids or [len(tokenizer.tokenizer)]
        is_of_ids = text is not None and not any(record.get(name) for name in ("question", "messages"))
        spelled = str(tokenizer.tokenizer.decode(ids)) if is_of_ids and max(ids) < len(tokenizer.tokenizer) else ""
        own = tokenizer.tokenizer.decode(tokenizer.tokenizer.encode(text, add_special_tokens=False)) if spelled else ""
        if "".join(str(own).split()) not in "".join(spelled.split()):  # spaces, of which decoding may drop some
            yield 'some prompt_token_ids do not spell the "prompt" beside them: give the -m MODEL that they are of'
        if self._jinja is None and prompt.question is not None and text not in (None, prompt.question):
            yield 'a "prompt" beside a "question" is left out: --question-field prompt asks it in its place'
        is_text = prompt.text is not None or (prompt.question is not None and self.options.template == "raw")
        if self._jinja is None and is_text and find_value(record.fields, "system_prompt", str):
            yield 'a "system_prompt" is left out where the prompt is no chat'
        has_system = prompt.token_ids is not None or (prompt.messages and prompt.messages[0]["role"] in SYSTEM_ROLES)
        if self._jinja is None and not has_system and find_value(record.fields, "system", str):
            yield 'the field "system" is not read: called "system_prompt" it would be the system turn'
        whole = "".join(f"{prompt.question}\n{record.get('system_prompt')}".split())
        for name in ("context", "passage"):
            beside = find_value(record.fields, name, str) or ""
            if self._jinja is None and prompt.question is not None and "".join(beside.split()) not in whole:
                yield f'the field "{name}" is not read: --template FILE can put it before the question'
        options, made = self.options, record.computed("generation")
        is_other = any(made.get(name) != getattr(options, name) for name in _OPTIONS)
        asked = options.system is not None or options.few_shot or (prompt.token_ids and options.template != "chat")
        if is_other and asked and (prompt.token_ids or (prompt.text is not None and self._jinja is None)):
            yield "prompts of token ids or whole text are not changed by --template, --system and --few-shot"
        if prompt.messages is None:
            return
        if self.options.template != "chat" or self._examples:
            yield "messages are a whole prompt: --template and --few-shot do not change them"
        if prompt.tools is None and any("tool_calls" in turn for turn in prompt.messages):
            yield "some prompts have calls of tools, but the records do not define them: they are left out"
        if prompt.tools is not None and "tools" not in tokenizer.chat.template:
            yield "the model's chat template has no place for tools: their definitions are left out"

    def _rendered(
        self,
        record: Record,
        tokenizer: ResponseTokenizer,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] | None = None,
    ) -> str:
        system = find_value(record.fields, "system_prompt", str) or self.options.system
        if system is not None and not (messages and messages[0]["role"] in SYSTEM_ROLES):
            messages = [{"role": "system", "content": system}, *messages]
        try:
            return tokenizer.chat.render(messages, tools)
        except TokurError as error:
            raise record.error(str(error)) from None

    def _question(self, record: Record, prompt: Prompt) -> str:
        if self._jinja is None:
            assert prompt.question is not None
            return prompt.question
        try:
            return compile_template(self._jinja)(record.fields)
        except TokurError as error:
            raise record.error(f"the template cannot be filled: {error}") from None


def is_of(record: Record, model: str) -> bool:
    """Return whether a record's token ids are the model's: it names this one or none."""
    return record.tokur.get("model") in (None, model)


def refuse_other_model(record: Record, model: str) -> None:
    """Raise a ``RecordError`` where a record names another model than those before it."""
    if not is_of(record, model):
        other = record.tokur.get("model")
        raise record.error(
            f"is of the model {other}, those before of {model}: part them, as with grep '{other}', or take one -m MODEL"
        )


def with_ids_of(record: Record, model: str) -> Record:
    """Return the record as it is if its token ids are the model's, else a copy without them: its text counts then."""
    if is_of(record, model):
        return record
    twin = record.copy()
    tokens = ("prompt_token_ids", "token_ids", "token_strings")
    twin.set("tokur", {k: v for k, v in record.tokur.items() if k not in tokens})
    return twin


def _read_examples(path: str) -> list[tuple[str, str]]:
    """Read (question, answer) pairs: an answer is the record's response or, without one, its reference."""
    examples = []
    for item in read_records(path):
        if isinstance(item, RecordError):
            raise item
        answer = item.reference if item.get("response") is None else item.response
        if answer is None:
            raise item.error('an example needs a "response" or a "reference"')
        examples.append((item.text("question"), answer))
    if not examples:
        raise UsageError(f"--few-shot {path}: holds no example")
    return examples


def _read_template(template: str) -> str:
    if template == "math":
        return MATH_TEMPLATE
    try:
        source = Path(template).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--template {template}: neither chat, raw or math nor a readable file ({error})") from error
    try:
        compile_template(source)
    except TokurError as error:
        raise UsageError(f"--template {template}: {error}") from None
    return source


def question_id(record: Record, prompt_ids: Sequence[int]) -> str:
    """Return the record's id, or one made of its prompt: the same for the same question wherever it stands."""
    name = record.id
    return name if name is not None else "q-" + hashlib.sha256(repr(prompt_ids).encode()).hexdigest()[:12]
