"""The script that runs untrusted Python in a process of its own, started by ``execution``.

It uses the standard library alone. It reads one job from standard input and takes away, in this order, what the system
lets it take away:

1. with Linux namespaces: the network, sight of other processes, and writing to any file outside a small temporary one
   in memory; where namespaces are not permitted, Python's sockets alone are closed;
2. starting processes and threads, by a system call filter; where there is none, a resource limit bounds their number;
3. time, memory, file size and open files, by resource limits; all privileges, by dropping capabilities.

Then it forks, runs the program and the tests in the child, and the child reports on a pipe. Untrusted code runs in the
same interpreter as the report, so code that is written to attack this very script can forge it; code that prints,
exits, kills or hangs cannot.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
_CLONE_NEWPID, _CLONE_NEWNET = 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 2, 4, 16384, 1 << 18
_AT_FDCWD, _AT_RECURSIVE, _SYS_MOUNT_SETATTR, _MOUNT_ATTR_RDONLY = -100, 0x8000, 442, 1
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_LINUX_CAPABILITY_VERSION_3 = 0x20080522
_X32_CALLS = 0x40000000
_MOST_PROCESSES = 16

# Audit number of the architecture, and its calls fork, vfork, clone and clone3.
_STARTING_CALLS = {"x86_64": (0xC000003E, (56, 57, 58, 435)), "aarch64": (0xC00000B7, (220, 435))}


def main() -> None:
    """Run the job of standard input and report on the descriptor ``argv[1]``."""
    report = int(sys.argv[1])
    job = json.load(sys.stdin)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    isolation = list(_enter_namespaces(job["folder"]))
    if "processes" not in isolation and os.geteuid() == 0:
        _report(report, {"refused": "namespaces are not permitted here, and limits do not bind root"})
        return
    _report(report, {"isolation": isolation})
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    child = os.fork()
    if child:
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.waitpid(child, 0)
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if "processes" in isolation:
        os.setsid()  # a signal to its own group must not reach our parent; the namespace ends with this process
    else:
        sys.addaudithook(_refuse_sockets)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(job["folder"])
    _drop_privileges()
    _limit(job["limits"])
    # The kernel does not hold root to a limit on processes, in a namespace neither.
    if not _refuse_processes() and os.geteuid() == 0:
        _report(report, {"refused": "the number of processes of root cannot be limited here"})
        os._exit(0)
    verdict = _run(job["candidates"], job["test"], job["entry_point"])
    _report(report, {"nonce": job["nonce"], "passed": verdict is None, "error": verdict})
    os._exit(0)


def _run(candidates: list[str], test: str, entry_point: str) -> str | None:
    """Run the first candidate that is Python, then the tests; None if they pass, else what went wrong."""
    program = None
    problem = "SyntaxError"
    for candidate in candidates:
        try:
            program = compile(candidate, "<response>", "exec")
            break
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            problem = _describe(error)
    if program is None:
        return problem
    names: dict[str, Any] = {"__name__": "__response__"}
    try:
        exec(program, names)
        exec(compile(test, "<test>", "exec"), names)
        names["check"](names[entry_point])
    except BaseException as error:  # sys.exit() in a response must not end the test early
        return _describe(error)
    return None


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:300]
    except BaseException:  # its text is untrusted code too
        return "an exception that cannot be shown"


def _report(descriptor: int, message: dict[str, Any]) -> None:
    os.write(descriptor, json.dumps(message).encode() + b"\n")


def _enter_namespaces(folder: str) -> Iterator[str]:
    """Leave the network, the other processes and the writable file system; yield what has been left."""
    user, group = os.getuid(), os.getgid()
    flags = _CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWPID | _CLONE_NEWIPC | _CLONE_NEWNS
    if sys.platform != "linux" or _libc().unshare(flags) != 0:
        return
    yield "network"
    yield "processes"
    try:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    except OSError:
        return
    libc = _libc()
    read_only = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(len(read_only))
    if (
        libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
        and libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, read_only, size) == 0
        and libc.mount(b"tmpfs", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"size=64m,nr_inodes=4096") == 0
    ):
        yield "files"


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc().prctl(option, value, 0, 0, 0)


def _refuse_sockets(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith("socket."):
        raise PermissionError("no network for untrusted code")


def _limit(limits: dict[str, int]) -> None:
    """Set resource limits, except where a lower one is in force already or the system knows no such limit (macOS)."""
    for name, value in {
        resource.RLIMIT_CPU: limits["seconds"],
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_NPROC: _running_threads() + _MOST_PROCESSES,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }.items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(name, (value, value))


def _running_threads() -> int:
    """Return how many threads this user runs; all of them count towards its limit."""
    threads = 0
    for process in os.listdir("/proc") if os.path.isdir("/proc") else []:
        with contextlib.suppress(OSError):
            if process.isdigit() and os.stat(f"/proc/{process}").st_uid == os.getuid():
                threads += len(os.listdir(f"/proc/{process}/task"))
    return threads


def _refuse_processes() -> bool:
    """Filter out the system calls that start a process or thread; return whether that could be done."""
    architecture, calls = _STARTING_CALLS.get(os.uname().machine, (0, ()))
    if sys.platform != "linux" or not calls:
        return False
    kill, refuse, allow = 0x80000000, 0x00050000 | errno.EAGAIN, 0x7FFF0000
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    # (operation, jump if true, jump if false, constant), on struct seccomp_data {int nr; u32 arch; ...}
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, kill), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, _X32_CALLS), (give, 0, 0, kill)]
    for call in calls:
        program += [(equal, 0, 1, call), (give, 0, 0, refuse)]
    program.append((give, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    return bool(_libc().prctl(_PR_SET_SECCOMP, 2, header, 0, 0) == 0)


def _drop_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if sys.platform == "linux":
        header = struct.pack("Ii", _LINUX_CAPABILITY_VERSION_3, 0)
        _libc().capset(header, struct.pack("6I", 0, 0, 0, 0, 0, 0))


if __name__ == "__main__":
    main()
