"""A user's Jinja templates, filled in a sandbox; it imports no torch."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tokur_cli.records.errors import TokurError


@functools.lru_cache
def compile_template(template: str) -> Callable[..., str]:
    """Return what fills a template: its text with these values; a name that is none of them is an error.

    Raises:
        TokurError: it is none, or filling it fails, in whatever way; says how.
    """
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    with _explained():
        compiled = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined).from_string(template)
    return _explained()(compiled.render)


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
