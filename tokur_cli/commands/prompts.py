"""From a record to the prompt its response follows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.records.errors import UsageError
from tokur_cli.records.prompt import Prompt
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    import jinja2

    from tokur_cli.engine.tokens import ResponseTokeniser

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
        template: ``chat`` (the model's chat template), ``raw`` (the question as it is), ``math`` (the paper's
            prompt) or the path of a Jinja template over the record's fields. What ``math`` and a file make is a
            user's turn if the model has a chat template and the whole prompt if it has none.
        system: text of a system turn, for chat templates.

    Raises:
        UsageError: no such template, or one that Jinja cannot read.
    """

    def __init__(self, template: str = "chat", system: str | None = None) -> None:
        self.template = template
        self.system = system
        self._jinja = None if template in ("chat", "raw") else _compile(template)
        if template == "raw" and system is not None:
            raise UsageError("--system needs a chat template; it cannot go with --template raw")

    def apply(self, record: Record, tokeniser: ResponseTokeniser) -> tuple[str | Sequence[int], bool]:
        """Return (prompt as text or exact ids, whether the tokenizer's special tokens belong before it).

        Raises:
            RecordError: the record has no prompt, or the template asks for a field that it lacks.
            TokurError: the model has no chat template.
        """
        prompt = record.prompt
        if prompt.token_ids is not None:
            return prompt.token_ids, False
        if prompt.text is not None and self._jinja is None:
            return prompt.text, True
        if prompt.messages is not None:
            return tokeniser.render_chat(self._with_system(prompt.messages)), False
        question = self._question(record, prompt)
        if self.template == "raw" or (self._jinja and not tokeniser.tokenizer.chat_template):
            return question, True
        return tokeniser.render_chat(self._with_system([{"role": "user", "content": question}])), False

    def _with_system(self, messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        return messages if self.system is None else [{"role": "system", "content": self.system}, *messages]

    def _question(self, record: Record, prompt: Prompt) -> str:
        if self._jinja is None:
            assert prompt.question is not None
            return prompt.question
        from jinja2 import TemplateError

        try:
            return self._jinja.render(record.fields)
        except TemplateError as error:
            raise record.error(f"the template cannot be filled: {error}") from error


def _compile(template: str) -> jinja2.Template:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    if template == "math":
        source = MATH_TEMPLATE
    else:
        try:
            source = Path(template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"--template {template}: neither chat, raw or math nor a readable file ({error})"
            ) from error
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=False)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise UsageError(f"--template {template}: {error}") from error
