"""Several processes that share a run, as ``torchrun`` and ``accelerate launch`` start them: who is who, how they meet.

Rank 0 has a connection to each other process, which has none but that one. A process that dies closes its connection
at once, and one that can't be reached any more is noticed within half a minute.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from tokur_cli.records.errors import TokurError, UsageError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

MEETING_SECONDS = 600.0
_KEY = "tokur-rank-0"
_LOOPBACK = "127.0.0.1"
_GREETING_SECONDS = 10.0
_SILENCE_SECONDS = 25


@dataclass(frozen=True)
class Process:
    """A process's place among those that share a run.

    Args:
        rank: its number among all, from 0.
        size: the number of all.
        local_rank: its number among those of its machine, from 0.
        local_size: the number of those.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


@dataclass(frozen=True)
class Peer:
    """Another process, as rank 0 sees it.

    Args:
        rank: its number among all.
        machine: the name of the machine it runs on.
        connection: what is sent to it and received from it.
    """

    rank: int
    machine: str
    connection: Connection

    def __str__(self) -> str:
        return f"process {self.rank} on {self.machine}"


def this_process() -> Process:
    """Return this process's place, from the environment variables that launchers set; a run of one without them.

    Raises:
        UsageError: a variable is not a number.
    """
    if not all(os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
        return Process()
    rank, size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    return Process(rank, size, _number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", size))


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdecimal():
        raise UsageError(f"the environment variable {name} is {value!r}, not a number: is it meant for a launcher?")
    return int(value)


def divide_threads(process: Process) -> None:
    """Give each process of a machine its part of the cores, unless OMP_NUM_THREADS says how many threads it has."""
    import torch

    asked = os.environ.get("OMP_NUM_THREADS")
    if asked is None or (asked == "1" and "TORCHELASTIC_RUN_ID" in os.environ):  # torchrun's own default
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // process.local_size))


def own_device_map(process: Process, device_map: str) -> str:
    """Return where a process puts its model: on its own GPU where ``auto`` is asked for and there are several."""
    import torch

    if process.size == 1 or device_map != "auto" or torch.cuda.device_count() < 2:
        return device_map
    return f"cuda:{process.local_rank}"


def gather_peers(process: Process) -> list[Peer]:
    """As rank 0, wait for all other processes and return them by rank.

    Raises:
        TokurError: some did not come.
    """
    one_machine = process.local_size == process.size
    token = secrets.token_bytes(32)  # so that nobody else's message is unpickled
    deadline = time.monotonic() + MEETING_SECONDS
    peers: list[Peer] = []
    with socket.create_server((_LOOPBACK if one_machine else "", 0)) as server:
        store = _store()
        store.set(_KEY, f"{_LOOPBACK if one_machine else _own_address()} {server.getsockname()[1]} {token.hex()}")
        while len(peers) < process.size - 1:
            server.settimeout(max(0.0, deadline - time.monotonic()))
            try:
                caller, _ = server.accept()
            except (TimeoutError, BlockingIOError):
                came = {0, *(peer.rank for peer in peers)}
                missing = ", ".join(str(rank) for rank in range(process.size) if rank not in came)
                raise TokurError(
                    f"process {missing} of {process.size} did not come within {MEETING_SECONDS:.0f} s"
                ) from None
            if (peer := _greet(caller, token)) is not None:
                peers.append(peer)
    return sorted(peers, key=lambda peer: peer.rank)


def join_rank_zero(process: Process) -> Connection:
    """As another process, connect to rank 0.

    Raises:
        TokurError: it can't be reached.
    """
    deadline = time.monotonic() + MEETING_SECONDS
    store = _store()
    while not store.check([_KEY]):  # not store.get, which Ctrl-C can't interrupt
        if time.monotonic() > deadline:
            raise TokurError(f"process 0 did not come within {MEETING_SECONDS:.0f} s")
        time.sleep(0.05)
    host, port, token = store.get(_KEY).decode().split()
    try:
        connected = socket.create_connection((host, int(port)), timeout=_GREETING_SECONDS)
        connected.sendall(bytes.fromhex(token))
    except OSError as error:
        raise TokurError(f"process 0 can't be reached at {host}, port {port}: {error}") from error
    connection = _to_connection(connected)
    connection.send((process.rank, socket.gethostname()))
    return connection


def _store() -> Store:
    """Return the store of the launcher, where rank 0 says how it is reached."""
    from torch.distributed.rendezvous import rendezvous

    store: Store = next(rendezvous("env://"))[0]
    return store


def _own_address() -> str:
    """Return the address of this machine for others, which all reach MASTER_ADDR."""
    master = os.environ["MASTER_ADDR"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((master, int(os.environ["MASTER_PORT"])))  # sends nothing, but chooses the route
        own: str = probe.getsockname()[0]
    # MASTER_ADDR is this machine where the route to it doesn't leave it; a host name may stand for a loopback address
    return master if own == socket.gethostbyname(master) or own.startswith("127.") else own


def _greet(caller: socket.socket, token: bytes) -> Peer | None:
    """Make a peer of who has connected; None if it is a stranger."""
    caller.settimeout(_GREETING_SECONDS)
    try:
        said = b""
        while len(said) < len(token) and (part := caller.recv(len(token) - len(said))):
            said += part
    except OSError:
        said = b""
    if not secrets.compare_digest(said, token):
        caller.close()
        return None
    connection = _to_connection(caller)
    rank, machine = connection.recv()
    return Peer(rank, machine, connection)


def _to_connection(connected: socket.socket) -> Connection:
    connected.settimeout(None)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 1000 * _SILENCE_SECONDS),
    ):
        if hasattr(socket, name):  # not on every system
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Connection(connected.detach())
