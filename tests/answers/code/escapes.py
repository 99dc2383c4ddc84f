"""Ways out of a sandbox, each of which tells whether it got out: `python -m tests.answers.code.escapes isolated`.

A function here is the code of a response. It gets what is on the stage that ``main`` has built for it as the user that
runs this (a file, a process, sockets, …), does its harm and returns whether the harm is done; then its tests pass.
``bare`` instead of ``isolated`` runs them without bubblewrap: there they have to get out, else they prove nothing.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokur_cli.answers.code.execution import Limits, passes

Stage = dict[str, Any]

LIMITS = Limits(seconds=10, memory_bytes=256 << 20, file_bytes=1 << 20)
WITHOUT_LIMITS = Limits(seconds=10, memory_bytes=8 << 30, file_bytes=1 << 30, processes=4096)
ROW = {"prompt": "", "entry_point": "double", "test": "def check(candidate):\n    assert candidate(2) == 4\n"}

ESCAPES: dict[str, Callable[[Stage], object]] = {}
PAST_LIMITS: set[str] = set()
"""What limits stop, with and without bubblewrap."""


def escape(function=None, *, past_limits=False):
    def keep(function):
        ESCAPES[function.__name__] = function
        if past_limits:
            PAST_LIMITS.add(function.__name__)
        return function

    return keep if function is None else keep(function)


@escape
def reads_a_file_of_the_user(stage):
    return open(stage["folder"] + "/secret").read() == stage["mark"]


@escape
def writes_a_file_of_the_user(stage):
    return open(stage["folder"] + "/secret", "a").write("") == 0


@escape
def leaves_a_file_for_the_next_run(stage):
    import os

    path = "/tmp/tokur-" + stage["mark"]  # main runs this twice
    if os.path.exists(path):
        os.remove(path)
        return True
    open(path, "x").close()
    return False


@escape
def reads_the_environment_of_the_parent(stage):
    return b"HF_TOKEN=" in open(f"/proc/{stage['parent']}/environ", "rb").read()


@escape
def kills_a_process(stage):
    import os
    import signal

    os.kill(stage["victim"], signal.SIGKILL)
    return True


@escape
def connects_by_tcp(stage):
    import socket

    return socket.create_connection(("127.0.0.1", stage["port"]), timeout=2)


@escape
def connects_to_a_socket_file(stage):
    import socket

    socket.socket(socket.AF_UNIX).connect(stage["folder"] + "/socket")
    return True


@escape
def reads_shared_memory(stage):
    import ctypes

    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    return ctypes.string_at(libc.shmat(libc.shmget(stage["segment"], 0, 0), None, 0)) == stage["mark"].encode()


@escape
def enters_a_namespace_where_it_is_root(stage):
    import ctypes

    return ctypes.CDLL(None).unshare(0x10000000) == 0


@escape(past_limits=True)
def starts_processes(stage):
    import os
    import time

    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    return True


@escape(past_limits=True)
def takes_much_memory(stage):
    return bytearray(400 << 20)


@escape(past_limits=True)
def outlives_its_run(stage):
    import ctypes
    import os
    import time

    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            ctypes.CDLL(None).prctl(15, stage["comm"].encode(), 0, 0, 0)
            time.sleep(20)
        os._exit(0)
    time.sleep(0.2)
    return True  # main looks whether it did


_VICTIM = """
import ctypes, time
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # whoever may trace it at all may also under Yama
print(flush=True)
time.sleep(600)
"""


@contextmanager
def _victim(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    victim = subprocess.Popen(
        [sys.executable, "-I", "-c", _VICTIM, mark], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        victim.stdout.readline()
        yield victim
    finally:
        victim.kill()
        victim.wait()
        victim.stdout.close()


@contextmanager
def staged() -> Iterator[Stage]:
    """What the escapes are after, as the user that runs this; the bare runs show that it can be reached."""
    mark = os.urandom(4).hex()
    folder = tempfile.mkdtemp(prefix="tokur-stage-")
    Path(folder, "secret").write_text(mark)
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    segment = libc.shmget(int(mark[:7], 16), 100, 0o1600)
    ctypes.memmove(libc.shmat(segment, None, 0), mark.encode(), len(mark))
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server, socket.socket(socket.AF_UNIX) as named:
        named.bind(folder + "/socket")
        named.listen()
        try:
            yield {
                "mark": mark,
                "comm": "tokur-" + mark,
                "folder": folder,
                "parent": os.getpid(),
                "port": server.getsockname()[1],
                "segment": int(mark[:7], 16),
            }
        finally:
            libc.shmctl(segment, 0, None)
            shutil.rmtree(folder)


def response_of(function: Callable[[Stage], object], stage: Stage) -> str:
    source = inspect.getsource(function)
    code = source[source.index("def ") :]
    return f"```python\n{code}\n\ndef double(x):\n    return 4 if {function.__name__}({stage!r}) else 0\n```"


def attempt(name: str, stage: Stage, *, isolated: bool) -> str:
    """What became of an escape: "escaped", or that it was stopped."""
    limits = LIMITS if name not in PAST_LIMITS or (isolated and name != "outlives_its_run") else WITHOUT_LIMITS
    with _victim(stage["mark"]) as victim:
        stage = {**stage, "victim": victim.pid}
        response = response_of(ESCAPES[name], stage)
        for _ in range(2 if name.startswith("leaves_a_file") else 1):
            passed = passes(response, ROW, limits, isolated=isolated)
        if name == "outlives_its_run":
            time.sleep(0.5)
            left = processes_called(stage["comm"])
            for process in left:
                os.kill(process, signal.SIGKILL)
            assert passed
            return "escaped" if left else "is gone"
        if passed:
            return "escaped"
        assert victim.poll() is None, f"{name} killed the victim"
        return "is stopped"


def processes_called(name: str) -> list[int]:
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", process, "comm").read_text().strip() == name:
                found.append(int(process))
        except OSError:
            pass
    return found


def main() -> None:
    isolated = {"isolated": True, "bare": False}[sys.argv[1]]
    with staged() as stage:
        for name in ESCAPES:
            print(json.dumps([name, attempt(name, stage, isolated=isolated)]), flush=True)


if __name__ == "__main__":
    main()
