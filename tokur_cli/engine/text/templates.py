"""Jinja templates, the user's and the models', filled in a sandbox; it imports no torch."""

from __future__ import annotations

import functools
import json
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from jinja2 import Template

DATE = datetime(2024, 7, 26)
"""What a chat template is told of today, where it has no default of its own: else each day would have other prompts."""
_OWN_DATE = re.compile(r"""set\s+(?:date_string|today)\s*=\s*["']([^"']+)["']""")
_DATE_FORMATS = ("%d %b %Y", "%d %B %Y", "%B %d, %Y", "%Y-%m-%d", "%d-%m-%Y")
_REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
_LONGEST_MESSAGE = 1000  # a template may raise a text of any length


def check_template(template: str) -> None:
    """Compile a template.

    Raises:
        TokurError: it is none.
    """
    with _explained():
        _compiled(template, chat=False)


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Return a template's text with these values; a name that is none of them is an error.

    Raises:
        TokurError: filling fails, in whatever way; says how.
    """
    with _explained():
        return _compiled(template, chat=False).render(values)


def fill_chat(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    special_tokens: Mapping[str, Any],
    answer_follows: bool,
    tools: Sequence[Mapping[str, Any]] | None = None,
    date: datetime | None = None,
) -> str:
    """Return a conversation's text, as transformers renders it, but on one date: that of ``chat_date`` or another.

    Raises:
        TokurError: filling fails, in whatever way; says how.
    """
    with _explained():
        return _compiled(template, chat=True).render(
            messages=[_with_reasoning_fields(message) for message in messages],
            tools=tools,
            documents=None,
            add_generation_prompt=answer_follows,
            strftime_now=(date or chat_date(template) or DATE).strftime,
            **special_tokens,
        )


def chat_date(template: str) -> datetime | None:
    """Return the date that a chat template is filled on; None if it asks for none."""
    if "strftime_now" not in template:
        return None
    for text in _OWN_DATE.findall(template):
        for form in _DATE_FORMATS:
            with suppress(ValueError):
                return datetime.strptime(text, form)
    return DATE


def _with_reasoning_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose reasoning stands under each name that templates look for, as in transformers."""
    reasoning = next((message[name] for name in _REASONING_FIELDS if message.get(name) is not None), None)
    if reasoning is None:
        return dict(message)
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


@functools.lru_cache
def _compiled(template: str, chat: bool) -> Template:
    """Compile a template in jinja's sandbox; one for chats with what transformers gives it."""
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if not chat:
        return ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined).from_string(template)

    class Generation(Extension):
        """Marks around the assistant's words, for training."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.globals["raise_exception"] = raise_exception
    # Jinja's own escapes HTML
    environment.filters["tojson"] = _to_json
    return environment.from_string(template)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


@contextmanager
def _explained() -> Iterator[None]:
    """Make one sentence of whatever goes wrong in a template."""
    import jinja2

    try:
        yield
    except MemoryError:
        message = "it takes too much memory"
    except jinja2.TemplateSyntaxError as error:
        message = f"{error.message} (line {error.lineno} of the template)"
    except jinja2.TemplateError as error:
        message = f"{error}{_place(error)}"
    except Exception as error:  # a template is a program
        message = f"{type(error).__name__}: {error}{_place(error)}"
    else:
        return
    raise TokurError(message[:_LONGEST_MESSAGE])


def _place(error: Exception) -> str:
    """Return where in the template an error arose; empty if it is not known."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return f" (line {lines[-1]} of the template)" if lines else ""
