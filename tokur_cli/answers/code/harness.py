"""The script that runs a response's code: started by ``execution`` as a process of its own, in bubblewrap or bare.

It uses the standard library alone. It reads one job from standard input, gives up root, sets limits that cannot be
raised again, says the job's nonce, runs the program and the tests, and says the nonce once more if they pass.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from typing import Any


def main() -> None:
    """Run the job of standard input and report on standard output, which the code itself does not get."""
    job = json.load(sys.stdin)
    if job["user"] is not None:
        os.setgroups([])
        os.setresgid(job["user"], job["user"], job["user"])
        os.setresuid(job["user"], job["user"], job["user"])
    report = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.close(nowhere)
    sys.path += job["path"]
    for name, value in job["limits"].items():
        with contextlib.suppress(ValueError, OSError):  # a lower one is in force already, or macOS knows no such limit
            resource.setrlimit(getattr(resource, name), (value, value))
    nonce = job["nonce"].encode()
    os.write(report, nonce)
    if _passes(job["programs"], job["test"], job["entry_point"]):
        os.write(report, nonce)
    os._exit(0)


def _passes(programs: list[str], test: str, entry_point: str) -> bool:
    """Return whether the first program that is Python passes the tests."""
    for program in programs:
        try:
            code = compile(program, "<response>", "exec")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        names: dict[str, Any] = {"__name__": "__response__"}
        try:
            exec(code, names)
            exec(compile(test, "<test>", "exec"), names)
            names["check"](names[entry_point])
        except BaseException:  # sys.exit() in a response must not end the test early
            return False
        return True
    return False


if __name__ == "__main__":
    main()
