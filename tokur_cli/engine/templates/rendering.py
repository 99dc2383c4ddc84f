"""Jinja templates, the user's and the model's, filled by one process that is killed when a template does not end.

Nothing else bounds a template: jinja's sandbox runs loops within loops and makes a string of any length, and neither a
signal handler nor a thread can interrupt ``'x' * 10**10`` or ``9 ** (9 ** 9)``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tokur_cli.records.errors import TokurError

SECONDS = 10.0
"""Wall-clock limit of one template."""
MEMORY_BYTES = 512_000_000
"""What a template may take."""

_START = (
    "import sys; sys.path[:] = sys.argv.pop().split('\\n'); from tokur_cli.engine.templates.worker import main; main()"
)


class TemplateProcess:
    """Fills templates, one at a time; the process starts with the first and is started anew after one that failed it.

    Args:
        seconds: wall-clock limit of one template.
        memory_bytes: what a template may take.
    """

    def __init__(self, seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES) -> None:
        self.seconds, self.memory_bytes = seconds, memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def check(self, template: str) -> None:
        """Compile a template.

        Raises:
            TokurError: it is none.
        """
        self._ask(template=template)

    def fill(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a template's text with these values; a name that is none of them is an error.

        Raises:
            TokurError: filling fails, in whatever way; says how.
        """
        return self._ask(template=template, values=values)

    def fill_chat(
        self,
        template: str,
        messages: Sequence[Mapping[str, Any]],
        special_tokens: Mapping[str, Any],
        answer_follows: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """Return a conversation's text, as transformers renders it.

        Raises:
            TokurError: filling fails, in whatever way; says how.
        """
        return self._ask(
            template=template,
            messages=messages,
            special_tokens=special_tokens,
            answer_follows=answer_follows,
            tools=tools,
        )

    def prepare_chat(self) -> None:
        """Have the process import what chats need, which takes a quarter of a second, while others work."""
        self._send(b"null\n")

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _ask(self, **request: Any) -> str:
        try:
            line = json.dumps(request).encode() + b"\n"
        except RecursionError:
            raise TokurError("its values are nested too deeply") from None
        try:
            reply = self._reply(line)
        except BaseException:
            self.close()  # a process that still holds a request would answer it to the next one
            raise
        if "error" in reply:
            raise TokurError(reply["error"])
        return str(reply["text"])

    def _reply(self, line: bytes) -> dict[str, Any]:
        process = self._send(line)
        assert process.stdout is not None
        reply = process.stdout.readline()
        if reply.endswith(b"\n"):
            found: dict[str, Any] = json.loads(reply)
            return found
        if process.wait() == -signal.SIGALRM:
            raise TokurError(f"it takes longer than {self.seconds:g} s")
        raise TokurError(f"its process ended with exit code {process.returncode}: is there too little memory?")

    def _send(self, line: bytes) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            limits = str(self.seconds), str(self.memory_bytes)
            path = "\n".join(os.path.abspath(folder) for folder in sys.path)
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *limits, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its death shows when the reply is read
            self._process.stdin.write(line)
            self._process.stdin.flush()
        return self._process


TEMPLATES = TemplateProcess()
"""The process that fills this process's templates."""
