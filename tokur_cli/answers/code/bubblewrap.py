"""bubblewrap's command line for code that nobody has read: what it sees is what Python needs, and nothing else.

The process has namespaces of its own (processes, network, inter-process communication, host name), no capabilities, a
``/tmp`` in memory as the only place to write, and of the machine's files the shared libraries, Python's own and its
site-packages, read-only. A filter refuses system calls that reach past namespaces (vsock, keyrings) or past limits on
memory (shared segments, files in memory, further namespaces).
"""

from __future__ import annotations

import os
import platform
import shutil
import site
import struct
import sys
from pathlib import Path

from tokur_cli.records.errors import TokurError

NOBODY = 65534
"""The user that root becomes before it runs code: limits on processes do not bind root, and it owns too much."""

FOLDER = "/tmp/run"
"""Where code starts and may write: not ``/tmp`` itself, where a Python of the user's may stand."""

_SCRATCH_BYTES = 64 << 20
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_X32_CALLS = 0x40000000
# The architecture's number in audit.h, and its calls: socket, shmget, msgget, semget, add_key, request_key, keyctl,
# unshare, setns, memfd_create, io_uring_setup. Threads and processes, clone's namespaces with them, fall to a limit.
_REFUSED_CALLS = {
    "x86_64": (0xC000003E, (41, 29, 68, 64, 248, 249, 250, 272, 308, 319, 425)),
    "aarch64": (0xC00000B7, (198, 194, 186, 190, 217, 218, 219, 97, 268, 279, 425)),
}


def python() -> str:
    """Return the path of the Python interpreter that virtual environments are made from."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def refusal(reason: str) -> TokurError:
    """Return the error that says why no code is run, and what runs it all the same."""
    return TokurError(f"code is not run: {reason}; --unsafe-code-execution runs it all the same, without isolation")


def arguments(script: Path) -> list[str]:
    """Return the command that runs whatever follows it in a sandbox, where ``script`` can be read, too.

    It lacks ``--seccomp`` with the descriptor of a file that holds ``call_filter``.

    Raises:
        TokurError: bubblewrap is not installed.
    """
    if (program := shutil.which("bwrap")) is None:
        on_linux = "install bubblewrap (apt install bubblewrap, dnf install bubblewrap)"
        raise refusal(on_linux if sys.platform == "linux" else "bubblewrap, which isolates it, exists for Linux only")
    command = [program, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    if os.geteuid() == 0:
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # the script becomes NOBODY by them
    command += ["--proc", "/proc", "--dir", "/dev", "--dev-bind", os.devnull, os.devnull]
    command += ["--size", str(_SCRATCH_BYTES), "--tmpfs", "/tmp", "--perms", "0777", "--dir", FOLDER]
    prefix = os.path.realpath(sys.base_prefix)
    folders = [*_LIBRARIES, f"{prefix}/lib", f"{prefix}/{sys.platlibdir}", *packages(), python(), str(script)]
    for path in filter(os.path.exists, dict.fromkeys(folders)):
        command += ["--dir", os.path.dirname(path), "--ro-bind", path, path]
    return [*command, "--remount-ro", "/", "--chdir", FOLDER]


def packages() -> list[str]:
    """Return the folders of site-packages."""
    return [os.path.abspath(folder) for folder in site.getsitepackages() if os.path.isdir(folder)]


def call_filter() -> bytes:
    """Return the filter of system calls: instructions of the Berkeley Packet Filter, as ``--seccomp`` reads them.

    Raises:
        TokurError: the calls of this kind of machine are not known here.
    """
    machine = platform.machine()
    if machine not in _REFUSED_CALLS:
        known = " and ".join(_REFUSED_CALLS)
        raise refusal(f"which system calls to refuse is known for {known} only, not for {machine}")
    architecture, calls = _REFUSED_CALLS[machine]
    kill, refuse, allow = 0x80000000, 0x00050001, 0x7FFF0000  # refused with EPERM
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    # (operation, jump if true, jump if false, constant), on struct seccomp_data {int nr; u32 arch; ...}
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, kill), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, _X32_CALLS), (give, 0, 0, kill)]
    for call in calls:
        program += [(equal, 0, 1, call), (give, 0, 0, refuse)]
    return b"".join(struct.pack("HBBI", *step) for step in [*program, (give, 0, 0, allow)])
