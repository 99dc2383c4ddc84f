"""Ray, started on this machine for one run or joined where it runs already, and kept from speaking for us."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any, BinaryIO, NamedTuple, NoReturn

from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.engine.model.place import this_machine
from tokur_cli.engine.output import redirected
from tokur_cli.records.errors import TokurError, UsageError

ALONE = {  # what Ray reads when it is first imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's own way, on every system, to listen on the loopback alone
    "RAY_AUTH_MODE": "token",  # the machine's other users reach the loopback too
}
_ANSWERS_WITHIN_SECONDS = 10.0
_LONGEST_TEMPORARY = 30  # characters: Ray puts sockets there, whose whole names have a limit of about 100


class Share(NamedTuple):
    """How many workers there are, and what each gets."""

    workers: int
    cpus: int
    gpus: int


def divide(machines: Sequence[Mapping[str, float]], options: WorkerOptions, device_map: str) -> Share:
    """Divide machines, given as their numbers of ``CPU`` and ``GPU``, so that all workers have a place."""
    have = [int(machine.get("GPU", 0)) for machine in machines]
    gpus = 0 if device_map == "cpu" else options.gpus_per_worker or int(any(have))
    places = [count // gpus if gpus else 1 for count in have]
    workers = max(1, sum(places)) if options.workers in (None, "auto") else int(options.workers)
    a_machine = min(workers, max(places, default=1)) if gpus else -(-workers // max(1, len(machines)))
    cores = int(min((machine["CPU"] for machine in machines), default=1)) // max(1, a_machine)
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return Share(workers, max(1, int(threads) if threads.isdecimal() else cores), gpus)


def divide_this_machine(options: WorkerOptions, device_map: str) -> Share:
    """Divide what this process may use."""
    machine = this_machine()
    share, have = divide([machine], options, device_map), machine["GPU"]
    if (needed := share.workers * share.gpus) > have:
        raise UsageError(f"{share.workers} workers need {needed} GPUs, this machine has {have}: give fewer --workers")
    return share


@contextmanager
def running_ray(options: WorkerOptions, device_map: str) -> Iterator[tuple[Share, BinaryIO]]:
    """Start Ray or join the cluster; give each worker's share, and standard output, where nothing but us writes.

    At the end, also by Ctrl-C and SIGTERM, what was started is gone.
    """
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # it would start anew where it is called after its end
    debug = os.environ.get("TOKUR_DEBUG") == "1"
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _end))
        address = options.address
        arguments: dict[str, Any] = {"address": address}
        if address is None:
            share = divide_this_machine(options, device_map)
            os.environ.update({**ALONE, "RAY_AUTH_TOKEN": secrets.token_hex(), **os.environ})
            short = len(tempfile.gettempdir()) <= _LONGEST_TEMPORARY
            folder = tempfile.mkdtemp(prefix="ray-", dir=None if short else "/tmp")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            atexit.register(shutil.rmtree, folder, ignore_errors=True)  # what Ray leaves whose start was interrupted
            have = {"num_cpus": share.workers * share.cpus, "num_gpus": share.workers * share.gpus}
            arguments = {"address": "local", "include_dashboard": False, "_temp_dir": folder, **have}
        else:
            _check_reachable(address)
        import ray

        records = stack.enter_context(_records_apart(debug))
        stack.callback(_shut_down)
        try:
            # a cluster that refuses us would be said every second
            with redirected(2, sys.stdout.fileno()), _processes_in_groups_of_their_own():
                ray.init(**arguments, log_to_driver=debug, logging_level=logging.WARNING if debug else logging.CRITICAL)
        except SystemExit:  # by Ray's handler, whose code is not a shell's
            _end(signal.SIGTERM, None)
        except Exception as error:
            what = f"the cluster at {address} can't be joined" if address else "Ray can't be started"
            raise TokurError(f"{what}: {' '.join(str(error).split())}") from error
        signal.signal(signal.SIGTERM, _end)  # again: Ray has set its own
        if address:
            alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            share = divide([machine for machine in alive if machine.get("CPU")], options, device_map)
        yield share, records


def _check_reachable(address: str) -> None:
    """Refuse at once an address where nothing answers, which Ray would try for minutes; one without a port is Ray's."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_SECONDS).close()
    except OSError as error:
        reason = error.strerror or error
        raise TokurError(f"the cluster at {address} can't be reached ({reason}): does Ray run there?") from error


@contextmanager
def _records_apart(debug: bool) -> Iterator[BinaryIO]:
    """Give standard output a descriptor of its own, which Ray's news, written there too, don't reach."""
    sys.stdout.flush()
    elsewhere = sys.stderr.fileno() if debug else os.open(os.devnull, os.O_WRONLY)
    with (
        open(os.dup(sys.stdout.fileno()), "wb") as records,
        redirected(1, 2),
        open(elsewhere, "w", closefd=not debug) as news,
        redirect_stdout(news),
    ):
        yield records


@contextmanager
def _processes_in_groups_of_their_own() -> Iterator[None]:
    """Keep a signal to our group, as from ``timeout``, from Ray, on Linux, where its processes end with ours."""
    starting = [True]
    if sys.platform == "linux":
        os.register_at_fork(after_in_child=lambda: os.setpgid(0, 0) if starting else None)
    try:
        yield
    finally:
        starting.clear()


def _shut_down() -> None:
    import ray

    numbers = (signal.SIGINT, signal.SIGTERM)  # a second one would leave processes behind
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    if sys.platform != "win32":
        signal.alarm(0)  # a signal while Ray starts makes it abort us within 3 seconds
    ray.shutdown()
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
