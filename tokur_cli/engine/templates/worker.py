"""The child process that fills templates: one JSON request per line in, one reply out.

It is expendable: its memory is limited, and the kernel's interval timer kills it (the default action of SIGALRM) when a
template takes too long, also where its parent was killed. Python's own signal handlers would not do, because they wait
for the running C call.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import resource
import signal
import sys
import traceback
import types
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

MOST_CHARACTERS = 64_000_000
"""The longest text that a template may make."""
_LONGEST_MESSAGE = 1000  # a template may raise a text of any length

_ENVIRONMENT = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False)
_compiled = functools.lru_cache(_ENVIRONMENT.from_string)


def main() -> None:
    """Fill templates until standard input ends: ``argv[1]`` seconds each, ``argv[2]`` bytes more than imports take."""
    seconds, memory = float(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes nowhere
    _limit_memory(memory)
    for line in sys.stdin.buffer:
        request: dict[str, Any] | None = json.loads(line)
        if request is None or "messages" in request:
            _import_transformers(memory)  # on a slow disk this takes time that is not the template's
        if request is not None:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            replies.write(_reply(request))
            replies.flush()
            signal.setitimer(signal.ITIMER_REAL, 0)


def _reply(request: dict[str, Any]) -> bytes:
    """Return the line with the template's ``text``, or with the ``error`` in words."""
    try:
        text = _chat(**request) if "messages" in request else _fill(**request)
        if len(text) <= MOST_CHARACTERS:
            return _encoded("text", text)
        message = f"it makes {len(text):,} characters, more than {MOST_CHARACTERS:,}"
    except MemoryError:
        message = "it takes too much memory"
    except jinja2.TemplateSyntaxError as error:
        message = f"{error.message} (line {error.lineno} of the template)"
    except jinja2.TemplateError as error:
        message = f"{error}{_place(error)}"
    except Exception as error:
        message = f"{type(error).__name__}: {error}{_place(error)}"
    return _encoded("error", message[:_LONGEST_MESSAGE])


def _encoded(name: str, text: str) -> bytes:
    return json.dumps({name: text}, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _fill(template: str, values: dict[str, Any] | None = None) -> str:
    compiled = _compiled(template)
    return "" if values is None else compiled.render(values)


def _chat(
    template: str,
    messages: list[dict[str, Any]],
    special_tokens: dict[str, Any],
    answer_follows: bool,
    tools: list[Any] | None,
) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    rendered: Any = render_jinja_template(
        [messages], tools=tools, chat_template=template, add_generation_prompt=answer_follows, **special_tokens
    )
    return str(rendered[0][0])  # (texts, where the assistant's tokens are)


def _place(error: Exception) -> str:
    """Return where in the template an error arose; empty if it is not known."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return f" (line {lines[-1]} of the template)" if lines else ""


@functools.cache
def _import_transformers(memory: int) -> None:
    _limit_memory(None)
    try:
        _import_chats_alone()
    except (ImportError, AttributeError):  # a transformers whose module needs its package: all of it then
        for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
            del sys.modules[name]
        import transformers.utils.chat_template_utils  # noqa: F401
    _limit_memory(memory)


def _import_chats_alone() -> None:
    """Import what renders chats without what its packages import besides, which takes four times as long."""
    spec = importlib.util.find_spec("transformers")
    assert spec is not None
    for name, folder in (("transformers", ""), ("transformers.utils", "utils")):
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [os.path.join(root, folder) for root in spec.submodule_search_locations or ()]
    importlib.import_module("transformers.utils.chat_template_utils")


def _limit_memory(more: int | None) -> None:
    """Limit the address space to so many bytes more than it has; None for any number."""
    if sys.platform != "linux":  # macOS does not enforce RLIMIT_AS: there the time limit alone bounds a template
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    with open("/proc/self/statm", "rb") as pages:
        size = int(pages.read().split()[0]) * resource.getpagesize()
    limit = most if more is None else size + more
    resource.setrlimit(resource.RLIMIT_AS, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
