"""Ways out of a sandbox, each of which tells whether it got out.

A function here is the code of a response. It gets what is on the stage that is built for it as the user that runs the
tests (a file, a process, sockets, …), does its harm and returns whether the harm is done; then its tests pass.
"""

from __future__ import annotations

import ctypes
import inspect
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
from unittest.mock import patch

from tokur_cli.answers.code import execution

Stage = dict[str, Any]

LIMITS = {**execution.LIMITS, "RLIMIT_AS": 256 << 20, "RLIMIT_FSIZE": 1 << 20}
WITHOUT_LIMITS = {**execution.LIMITS, "RLIMIT_AS": 8 << 30, "RLIMIT_FSIZE": 1 << 30, "RLIMIT_NPROC": 4096}
ROW = {"prompt": "", "entry_point": "double", "test": "def check(candidate):\n    assert candidate(2) == 4\n"}


def reads_a_file_of_the_user(stage):
    return open(stage["folder"] + "/secret").read() == stage["mark"]


def writes_a_file_of_the_user(stage):
    return open(stage["folder"] + "/secret", "a").write("") == 0


def leaves_a_file_for_the_next_run(stage):
    import os

    path = "/tmp/tokur-" + stage["mark"]  # this is run twice
    if os.path.exists(path):
        os.remove(path)
        return True
    open(path, "x").close()
    return False


def reads_the_environment_of_a_process(stage):
    return b"HF_TOKEN=" in open(f"/proc/{stage['victim']}/environ", "rb").read()


def kills_a_process(stage):
    import os
    import signal

    os.kill(stage["victim"], signal.SIGKILL)
    return True


def connects_by_tcp(stage):
    import socket

    return socket.create_connection(("127.0.0.1", stage["port"]), timeout=2)


def reads_shared_memory(stage):
    import ctypes

    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    return ctypes.string_at(libc.shmat(libc.shmget(stage["segment"], 0, 0), None, 0)) == stage["mark"].encode()


def enters_a_namespace_where_it_is_root(stage):
    import ctypes

    return ctypes.CDLL(None).unshare(0x10000000) == 0


def starts_processes(stage):
    import os
    import time

    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    return True


def takes_much_memory(stage):
    return bytearray(400 << 20)


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
    return True  # whether it did is looked for


PAST_LIMITS = (starts_processes, takes_much_memory, outlives_its_run)
"""What limits stop, with and without bubblewrap."""

ESCAPES = (
    *(reads_a_file_of_the_user, writes_a_file_of_the_user, leaves_a_file_for_the_next_run, kills_a_process),
    *(reads_the_environment_of_a_process, connects_by_tcp, reads_shared_memory),
    *(enters_a_namespace_where_it_is_root, *PAST_LIMITS),
)

_VICTIM = """
import ctypes, time
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # whoever may trace it at all may also under Yama
print(flush=True)
time.sleep(600)
"""


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
    victim = subprocess.Popen([sys.executable, "-Ic", _VICTIM], stdout=subprocess.PIPE, env={"HF_TOKEN": "hf"})
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        try:
            victim.stdout.readline()
            yield {
                "mark": mark,
                "comm": "tokur-" + mark,
                "folder": folder,
                "victim": victim.pid,
                "port": server.getsockname()[1],
                "segment": int(mark[:7], 16),
            }
        finally:
            victim.kill()
            victim.communicate()
            libc.shmctl(segment, 0, None)
            shutil.rmtree(folder)


def escapes(function: Callable[[Stage], object], *, isolated: bool) -> bool:
    """Run an escape on a stage of its own; return whether it got out."""
    is_stopped_by_bubblewrap = isolated and function is not outlives_its_run
    limits = LIMITS if function not in PAST_LIMITS or is_stopped_by_bubblewrap else WITHOUT_LIMITS
    source = inspect.getsource(function)
    with staged() as stage, patch.object(execution, "LIMITS", limits):
        response = f"```python\n{source}\n\ndef double(x):\n    return 4 if {function.__name__}({stage!r}) else 0\n```"
        for _ in range(2 if function is leaves_a_file_for_the_next_run else 1):
            passed = execution.passes(response, ROW, isolated=isolated)
        if function is not outlives_its_run:
            return passed
        assert passed
        time.sleep(0.5)
        left = processes_called(stage["comm"])
        for process in left:
            os.kill(process, signal.SIGKILL)
        return bool(left)


def processes_called(name: str) -> list[int]:
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", process, "comm").read_text().strip() == name:
                found.append(int(process))
        except OSError:
            pass
    return found
