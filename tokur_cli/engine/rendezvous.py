"""How the processes of a run meet: rank 0 gets a connection to each other process, which has none but that one.

A process that dies closes its connection at once; one that can't be reached any more is noticed within half a minute.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from tokur_cli.engine.processes import Process
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

MEETING_SECONDS = 600.0
_KEY = "tokur-rank-0"
_LOOPBACK = "127.0.0.1"
_GREETING_SECONDS = 10.0
_SILENCE_SECONDS = 25


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
