"""A user's Jinja templates, filled in a sandbox, and the date that a model's is filled on; it imports no torch."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from jinja2 import Template

DATE = datetime(2024, 7, 26)
"""What a chat template is given as today where it has no default: else each day would have other prompts."""
_OWN_DATE = re.compile(r"""set\s+(?:date_string|today)\s*=\s*["']([^"']+)["']""")
_DATE_FORMATS = ("%d %b %Y", "%d %B %Y", "%B %d, %Y", "%Y-%m-%d", "%d-%m-%Y")
_LONGEST_MESSAGE = 1000  # a template may raise a text of any length


def check_template(template: str) -> None:
    """Compile a template.

    Raises:
        TokurError: it is none.
    """
    with _explained():
        _compiled(template)


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Return a template's text with these values; a name that is none of them is an error.

    Raises:
        TokurError: filling fails, in whatever way; says how.
    """
    with _explained():
        return _compiled(template).render(values)


def chat_date(template: str) -> datetime | None:
    """Return the date that a chat template is filled on; None if it asks for none."""
    if "strftime_now" not in template:
        return None
    for text in _OWN_DATE.findall(template):
        for form in _DATE_FORMATS:
            with suppress(ValueError):
                return datetime.strptime(text, form)
    return DATE


@functools.lru_cache
def _compiled(template: str) -> Template:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined).from_string(template)


@contextmanager
def _explained() -> Iterator[None]:
    """Make one sentence of whatever goes wrong in a template.

    Raises:
        TokurError: the sentence.
    """
    import jinja2

    try:
        yield
    except Exception as error:  # a template is a program
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
        if isinstance(error, jinja2.TemplateSyntaxError):
            lines = [error.lineno]
        kind = "" if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: "
        place = f" (line {lines[-1]} of the template)" if lines else ""
        message = error.message if isinstance(error, jinja2.TemplateError) else error
        raise TokurError(f"{kind}{message}{place}"[:_LONGEST_MESSAGE]) from None
