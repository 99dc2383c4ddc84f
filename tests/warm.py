"""A ``tokur`` for shell scripts that answers at once: its runs are forked from one process that has all imports done.

``python -m tests.warm SOCKET MODEL`` serves; the program that ``program`` writes sends it a run's arguments, folder,
environment and standard streams, and waits for its exit code. What a new interpreter costs, some 4 s, is paid once.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.readmes import ROOT
from tests.storm.warm import Warm, run_here, stand_in

LEARNED = ("accelerate", "matplotlib", "rich", "safetensors", "scipy", "sklearn", "torch", "transformers", "typer")
"""Packages whose modules are imported for later runs once a run has needed them."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""With others nothing could be forked."""

CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    run = {"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
    socket.send_fds(server, [json.dumps(run).encode() + b"\\n"], [0, 1, 2])
    ended = server.recv(1)
sys.exit(ended[0] if ended else 134)
"""


@contextmanager
def warm_tokur(folder: Path, model: Path) -> Iterator[Path]:
    """Yield a folder with such a program, called ``tokur``; the process behind it ends with this.

    Args:
        folder: where the program and its socket are.
        model: the folder of a model that is loaded once, for all runs that ask for it.
    """
    place = folder / "socket"
    command = [sys.executable, "-m", "tests.warm", place, model]
    server = subprocess.Popen(command, cwd=ROOT, env=os.environ | ONE_THREAD, start_new_session=True)
    client = folder / "client.py"
    client.write_text(CLIENT, encoding="utf-8")
    (folder / "bin").mkdir()
    program = folder / "bin" / "tokur"
    words = [sys.executable, "-ISE", str(client), str(place)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    try:
        while not place.exists():
            assert server.poll() is None, "the process did not start"
            time.sleep(0.05)
        yield program.parent
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def serve(place: Path, model: Path) -> None:
    """Fork a run for every connection, for ever."""
    import transformers.utils.logging

    transformers.utils.logging.disable_progress_bar()  # whose thread would stand in the way of forking
    Warm(model)
    learned = place.parent / "learned"
    learned.mkdir()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the runs
    before = place.with_suffix(".before")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(before))
        listening.listen(64)
        before.rename(place)
        while True:
            connection, _ = listening.accept()
            with connection:
                sent, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
                while not sent.endswith(b"\n"):
                    sent += connection.recv(1 << 16)
                _learn(learned)
                gc.collect()
                gc.freeze()
                if os.fork() == 0:
                    _run(json.loads(sent), (streams[0], streams[1], streams[2]), connection, learned)
                for stream in streams:
                    os.close(stream)


def _learn(learned: Path) -> None:
    for told in learned.glob("*.txt"):
        for name in told.read_text(encoding="utf-8").split("\n"):
            if name.partition(".")[0] in LEARNED:
                with suppress(Exception):
                    importlib.import_module(name)
        told.unlink()


def _run(run: dict[str, object], streams: tuple[int, int, int], connection: socket.socket, learned: Path) -> None:
    """Be the run, and tell how it ended; never return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(run["environment"])
        known = set(sys.modules)
        stand_in(Path(run["folder"]), streams)
        code = run_here(run["arguments"])
        if new := set(sys.modules) - known:
            told = learned / f"{os.getpid()}"
            told.write_text("\n".join(sorted(new)), encoding="utf-8")
            told.rename(told.with_suffix(".txt"))
    finally:
        with suppress(OSError):
            connection.sendall(bytes([code & 0xFF]))
        os._exit(code & 0xFF)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
