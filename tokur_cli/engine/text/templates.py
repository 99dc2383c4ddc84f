"""A user's Jinja templates, filled in a sandbox; it imports no torch."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from jinja2 import Template


@functools.lru_cache
def compile_template(template: str) -> Template:
    """Compile a template.

    Raises:
        TokurError: it is none.
    """
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    with _explained():
        return ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined).from_string(template)


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Return a template's text with these values; a name that is none of them is an error.

    Raises:
        TokurError: filling fails, in whatever way; says how.
    """
    compiled = compile_template(template)
    with _explained():
        return compiled.render(values)


@contextmanager
def _explained() -> Iterator[None]:
    """Make one sentence of whatever goes wrong in a template.

    Raises:
        TokurError: the sentence.
    """
    try:
        yield
    except Exception as error:  # a template is a program
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
        line = getattr(error, "lineno", lines[-1] if lines else None)  # the former of one that cannot be compiled
        place = "" if line is None else f" (line {line} of the template)"
        raise TokurError(f"{type(error).__name__}: {error}{place}") from None
