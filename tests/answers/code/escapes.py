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

from tokur_cli.answers.code.execution import ExecutionOutcome, Limits, run

Stage = dict[str, Any]

LIMITS = Limits(seconds=10, memory_bytes=256 << 20, file_bytes=1 << 20)
WITHOUT_LIMITS = Limits(seconds=10, memory_bytes=8 << 30, file_bytes=1 << 30, processes=4096)
ROW = {"prompt": "", "entry_point": "double", "test": "def check(candidate):\n    assert candidate(2) == 4\n"}

ESCAPES: dict[str, Callable[[Stage], object]] = {}
FOR_ROOT: set[str] = set()
"""What a normal user can't do outside either."""
PAST_LIMITS: set[str] = set()
"""What limits stop, with and without bubblewrap."""


def escape(function=None, *, root=False, past_limits=False):
    def keep(function):
        ESCAPES[function.__name__] = function
        if root:
            FOR_ROOT.add(function.__name__)
        if past_limits:
            PAST_LIMITS.add(function.__name__)
        return function

    return keep if function is None else keep(function)


@escape
def reads_a_file_of_the_user(stage):
    return open(stage["folder"] + "/secret").read() == stage["mark"]


@escape
def reads_it_through_a_link(stage):
    import os

    os.symlink(stage["folder"], "link")
    return open("link/secret").read() == stage["mark"]


@escape
def reads_it_through_the_root_of_another_process(stage):
    return open(f"/proc/{stage['parent']}/root{stage['folder']}/secret").read() == stage["mark"]


@escape
def reads_the_list_of_users(stage):
    return "root:" in open("/etc/passwd").read()


@escape
def writes_a_file_of_the_user(stage):
    return open(stage["folder"] + "/secret", "a").write("") == 0


@escape
def removes_a_file_of_the_user(stage):
    import os

    os.rename(stage["folder"] + "/secret", stage["folder"] + "/gone")
    os.rename(stage["folder"] + "/gone", stage["folder"] + "/secret")
    return True


@escape
def adds_a_module_to_site_packages(stage):
    import os
    import sys

    path = next(folder for folder in sys.path if "site-packages" in folder) + "/sitecustomize.py"
    open(path, "x").close()
    os.remove(path)
    return True


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
def leaves_shared_memory_for_others(stage):
    import os

    path = "/dev/shm/tokur-" + stage["mark"]
    open(path, "x").close()
    os.remove(path)
    return True


@escape
def fills_the_disk(stage):
    import os

    written = []
    for folder in (".", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/"):
        try:
            for number in range(100):
                path = os.path.join(folder, f"tokur-{stage['mark']}-{number}")
                with open(path, "xb") as file:
                    written.append(path)
                    file.write(bytes(1 << 20))
        except OSError:
            pass
    size = sum(map(os.path.getsize, written))
    for path in written:
        os.remove(path)
    return size > 80 << 20


@escape
def reads_the_environment_of_the_parent(stage):
    return b"HF_TOKEN=" in open(f"/proc/{stage['parent']}/environ", "rb").read()


@escape
def reads_every_environment(stage):
    import os

    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/environ", "rb") as environment:
                if b"HF_TOKEN=" in environment.read():
                    return True
        except OSError:
            pass
    return False


@escape
def reads_command_lines(stage):
    import glob

    return any(stage["mark"].encode() in open(path, "rb").read() for path in glob.glob("/proc/*/cmdline"))


@escape
def kills_a_process(stage):
    import os
    import signal

    os.kill(stage["victim"], signal.SIGKILL)
    return True


@escape
def kills_a_process_group(stage):
    import os
    import signal

    os.killpg(stage["victim"], signal.SIGKILL)
    return True


@escape
def slows_a_process(stage):
    import os

    os.setpriority(os.PRIO_PROCESS, stage["victim"], 19)
    return True


@escape
def limits_a_process(stage):
    import resource

    resource.prlimit(stage["victim"], resource.RLIMIT_NOFILE, (3, 3))
    return True


@escape
def traces_a_process(stage):
    import ctypes

    attach = 16
    return ctypes.CDLL(None).ptrace(attach, stage["victim"], None, None) == 0


@escape
def reads_the_memory_of_a_process(stage):
    with open(f"/proc/{stage['victim']}/maps") as maps, open(f"/proc/{stage['victim']}/mem", "rb") as memory:
        memory.seek(int(maps.readline().split("-")[0], 16))
        return memory.read(4) == b"\x7fELF"


@escape
def connects_by_tcp(stage):
    import socket

    return socket.create_connection(("127.0.0.1", stage["port"]), timeout=2)


@escape
def connects_by_tcp_without_the_socket_module(stage):
    import ctypes
    import struct

    libc = ctypes.CDLL(None)
    address = struct.pack("=H", 2) + struct.pack("!H4B8x", stage["port"], 127, 0, 0, 1)
    return libc.connect(libc.socket(2, 1, 0), address, len(address)) == 0


@escape
def connects_to_an_abstract_socket(stage):
    import socket

    socket.socket(socket.AF_UNIX).connect("\0tokur-" + stage["mark"])
    return True


@escape
def connects_to_a_socket_file(stage):
    import socket

    socket.socket(socket.AF_UNIX).connect(stage["folder"] + "/socket")
    return True


@escape
def opens_a_socket_to_the_host_of_a_virtual_machine(stage):
    import socket

    return socket.socket(40, socket.SOCK_STREAM)  # AF_VSOCK, which no network namespace holds


@escape
def sees_who_listens(stage):
    return f":{stage['port']:04X} " in open("/proc/net/tcp").read()


@escape
def lists_services(stage):
    import os

    return os.listdir("/run") or os.listdir("/var/run")


@escape
def lists_devices(stage):
    import os

    return os.listdir("/sys/class/net")


@escape
def writes_to_a_terminal(stage):
    import os

    return os.write(os.open(stage["terminal"], os.O_WRONLY | os.O_NOCTTY), b"\a")


@escape
def reads_shared_memory(stage):
    import ctypes

    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    return ctypes.string_at(libc.shmat(libc.shmget(stage["segment"], 0, 0), None, 0)) == stage["mark"].encode()


@escape
def fills_memory_with_shared_segments(stage):
    import ctypes

    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    size = 150 << 20
    segments = [libc.shmget(0, size, 0o600) for _ in range(2)]
    try:
        for segment in segments:
            address = libc.shmat(segment, None, 0)
            if address == ctypes.c_void_p(-1).value:
                return False
            ctypes.memset(address, 1, size)
            libc.shmdt(ctypes.c_void_p(address))
    finally:
        for segment in segments:
            libc.shmctl(segment, 0, None)
    return True


@escape
def fills_memory_with_files_in_memory(stage):
    import os

    return all(os.write(os.memfd_create(""), bytes(10 << 20)) for _ in range(30))


@escape
def reads_a_key_of_the_session(stage):
    import ctypes

    request_key, session = {"x86_64": 249, "aarch64": 218}[__import__("os").uname().machine], -3
    return ctypes.CDLL(None).syscall(request_key, b"user", stage["mark"].encode(), None, session) > 0


@escape
def enters_a_namespace_where_it_is_root(stage):
    import ctypes

    return ctypes.CDLL(None).unshare(0x10000000) == 0


@escape
def mounts_a_file_system(stage):
    import ctypes
    import os

    libc = ctypes.CDLL(None)
    libc.unshare(0x10000000 | 0x00020000)
    os.mkdir("mounted")
    return libc.mount(b"none", b"mounted", b"tmpfs", 0, None) == 0


@escape(root=True)
def is_root(stage):
    import os

    return os.geteuid() == 0


@escape(root=True)
def changes_its_root(stage):
    import os

    return os.chroot(".") is None


@escape(root=True)
def makes_a_device(stage):
    import os
    import stat

    return os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(7, 0)) is None


@escape(root=True)
def changes_a_device_of_all(stage):
    import os

    return os.chmod("/dev/null", 0o666) is None


@escape(root=True)
def changes_a_setting_of_the_kernel(stage):
    return open("/proc/sys/kernel/core_pattern", "r+")


@escape(root=True)
def names_the_machine(stage):
    import socket

    return socket.sethostname(socket.gethostname()) is None


@escape(past_limits=True)
def raises_its_limits(stage):
    import resource

    return resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20)) is None


@escape(past_limits=True)
def starts_processes(stage):
    import os
    import time

    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    return True


@escape(past_limits=True)
def starts_threads(stage):
    import threading

    return threading.Thread(target=print).start() is None


@escape(past_limits=True)
def takes_much_memory(stage):
    return bytearray(400 << 20)


@escape(past_limits=True)
def writes_a_large_file(stage):
    return open("large", "wb").write(bytes(2 << 20))


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


def kills_every_process(stage):
    """Only for a user that has no other process."""
    import os
    import signal

    os.kill(-1, signal.SIGKILL)
    return True


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
    keyctl, add_key = {"x86_64": (250, 248), "aarch64": (219, 217)}[os.uname().machine]
    libc.syscall(keyctl, 1, None)  # a session keyring of its own
    libc.syscall(add_key, b"user", mark.encode(), b"secret", 6, -3)
    primary, secondary = os.openpty()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=64) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        abstract.bind("\0tokur-" + mark)
        named.bind(folder + "/socket")
        abstract.listen()
        named.listen()
        try:
            yield {
                "mark": mark,
                "comm": "tokur-" + mark,
                "folder": folder,
                "parent": os.getpid(),
                "port": server.getsockname()[1],
                "terminal": os.ttyname(secondary),
                "segment": int(mark[:7], 16),
            }
        finally:
            libc.shmctl(segment, 0, None)
            shutil.rmtree(folder)
            os.close(primary)
            os.close(secondary)


def response_of(function: Callable[[Stage], object], stage: Stage) -> str:
    source = inspect.getsource(function)
    code = source[source.index("def ") :]
    return f"```python\n{code}\n\ndef double(x):\n    return 4 if {function.__name__}({stage!r}) else 0\n```"


def attempt(name: str, stage: Stage, *, isolated: bool) -> str:
    """What became of an escape: "escaped", or what stopped it."""
    limits = LIMITS if name not in PAST_LIMITS or (isolated and name != "outlives_its_run") else WITHOUT_LIMITS
    with _victim(stage["mark"]) as victim:
        stage = {**stage, "victim": victim.pid}
        response = response_of(ESCAPES.get(name, kills_every_process), stage)
        for _ in range(2 if name.startswith("leaves_a_file") else 1):
            execution = run(response, ROW, limits, isolated=isolated)
        if name == "outlives_its_run":
            time.sleep(0.5)
            left = processes_called(stage["comm"])
            for process in left:
                os.kill(process, signal.SIGKILL)
            assert execution.outcome is ExecutionOutcome.PASSED, execution
            return "escaped" if left else "is gone"
        if execution.outcome is ExecutionOutcome.PASSED:
            return "escaped"
        assert victim.poll() is None, f"{name} killed the victim"
        return f"{execution.outcome.value}: {execution.error}"


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
    as_root = os.geteuid() == 0
    names = sys.argv[2:] or [name for name in ESCAPES if as_root or name not in FOR_ROOT]
    with staged() as stage:
        for name in names:
            print(json.dumps([name, attempt(name, stage, isolated=isolated)]), flush=True)


if __name__ == "__main__":
    main()
