"""A ``tokur`` for shell scripts that answers at once: its runs are forked from one process that has all imports done.

``python -m tests.warm SOCKET MODEL`` serves; the program that ``program`` writes sends it a run's arguments, folder,
environment and standard streams, and waits for its exit code. What a new interpreter costs, some 4 s, is paid once.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.readmes import ROOT

LEFT_OUT = ("tokur_cli.app.inspect", "tokur_cli.commands.evaluate.plots")
"""Modules that need an extra."""

LAZY = ("matplotlib.figure", "sklearn.linear_model", "sklearn.isotonic", "scipy.stats", "rich.live", "accelerate")
"""Modules that are first imported while a command runs."""

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
    _import_all(model)
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
                gc.collect()
                gc.freeze()
                if os.fork() == 0:
                    _run(json.loads(sent), (streams[0], streams[1], streams[2]), connection)
                for stream in streams:
                    os.close(stream)


def _import_all(model: Path) -> None:
    """Import the package, and load a model once: runs that ask for it as it is do not read its files again."""
    import torch

    torch.set_num_threads(1)
    import tokur_cli

    for module in pkgutil.walk_packages(tokur_cli.__path__, "tokur_cli."):
        if module.name not in LEFT_OUT:
            with suppress(ImportError):
                importlib.import_module(module.name)
    from tokur_cli.commands.session import model as shared
    from tokur_cli.engine.model.request import ModelRequest

    load = shared.load_language_model
    requests = [ModelRequest(str(model), dtype=dtype) for dtype in ("auto", "float32")]
    loaded = {request: load(request) for request in requests}

    def remembered(request: ModelRequest, **options: Any) -> Any:
        found = loaded.get(replace(request, device_map="auto") if request.device_map == "cpu" else request)
        return load(request, **options) if found is None else found

    shared.load_language_model = remembered
    deadline = time.monotonic() + 5  # the threads that loaded the weights end a little later
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > deadline:
            raise RuntimeError("a thread is there, so that nothing can be forked")
        time.sleep(0.01)
    for name in LAZY:  # with a thread of jemalloc's, which a fork does without
        importlib.import_module(name)


def _stand_in(folder: Path, descriptors: tuple[int, int, int]) -> None:
    """Give this process a working folder, and descriptors and streams such as a new interpreter has."""
    import torch

    # A forked process makes PyTorch's pool of threads when that is first asked for: of two threads that ask at once,
    # as those that load weights may, the second finds none
    torch.set_num_threads(torch.get_num_threads())
    os.chdir(folder)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, (name, mode, errors) in enumerate(
        (("stdin", "r", "strict"), ("stdout", "w", "strict"), ("stderr", "w", "backslashreplace"))
    ):
        stream = open(number, mode, 1 if number == 2 else -1, "utf-8", errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run_here(arguments: list[str]) -> int:
    """Run the command line; return what the interpreter would exit with after it."""
    sys.argv = ["tokur", *arguments]
    sys.modules["__main__"].__package__ = ""  # else usage errors say `python -m tests.warm`
    from tokur_cli.__main__ import main

    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    return code


def _run(run: dict[str, object], streams: tuple[int, int, int], connection: socket.socket) -> None:
    """Be the run, and tell how it ended; never return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(run["environment"])
        _stand_in(Path(run["folder"]), streams)
        code = _run_here(run["arguments"])
    finally:
        with suppress(OSError):
            connection.sendall(bytes([code & 0xFF]))
        os._exit(code & 0xFF)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
