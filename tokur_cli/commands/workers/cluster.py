"""Ray, started on this machine for one run or joined where it runs already, and kept from speaking for us."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any, BinaryIO, NamedTuple, NoReturn

from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.engine.loading.hardware import count_cores, count_gpus
from tokur_cli.engine.silenced import redirected
from tokur_cli.records.errors import TokurError, UsageError

_LONGEST_TEMPORARY = 30  # characters: Ray puts sockets there, whose whole names have a limit of about 100
_ALWAYS = {"RAY_ENABLE_AUTO_CONNECT": "0"}  # Ray would start anew where it is called after its end
ALONE = {  # what Ray reads when it is first imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's own way, on every system, to listen on the loopback alone
    "RAY_AUTH_MODE": "token",  # the machine's other users reach the loopback too
}


class Machine(NamedTuple):
    """What a machine has."""

    cpus: int
    gpus: int


class Share(NamedTuple):
    """What each of the workers gets."""

    workers: int
    cpus: int
    gpus: int


def divide(machines: Sequence[Machine], options: WorkerOptions, device_map: str) -> Share:
    """Divide the machines among workers; each gets as many cores as let all of them be placed.

    Args:
        machines: all that there are.
        options: how many workers, and the GPUs of one.
        device_map: where each puts its model.
    """
    wanted = options.gpus_per_worker
    gpus = 0 if device_map == "cpu" else wanted or int(any(machine.gpus for machine in machines))
    if options.workers not in (None, "auto"):
        workers = int(options.workers)
    elif gpus:
        workers = max(1, sum(machine.gpus // gpus for machine in machines))
    else:
        workers = len(machines)
    if threads := os.environ.get("OMP_NUM_THREADS", ""):
        return Share(workers, max(1, int(threads)) if threads.isdecimal() else 1, gpus)

    def places(cpus: int) -> int:
        return sum(min(m.cpus // cpus, m.gpus // gpus if gpus else m.cpus) for m in machines)

    most = max((machine.cpus for machine in machines), default=1)
    return Share(workers, next((cpus for cpus in range(most, 1, -1) if places(cpus) >= workers), 1), gpus)


def this_machine() -> Machine:
    """Return what this process may use."""
    return Machine(count_cores(), count_gpus())


@contextmanager
def running_ray(options: WorkerOptions, device_map: str) -> Iterator[tuple[Share, BinaryIO]]:
    """Start Ray or join the cluster; give each worker's share, and standard output, where nothing but us writes.

    At the end, also by Ctrl-C and SIGTERM, what was started is gone.

    Raises:
        UsageError: there is no Ray, or this machine has too few GPUs.
        TokurError: Ray doesn't start, or the cluster can't be reached.
    """
    address = options.cluster or os.environ.get("RAY_ADDRESS")
    with ExitStack() as stack:
        os.environ.update(_ALWAYS)
        arguments: dict[str, Any] = {"address": address}
        if not address:
            share = divide([this_machine()], options, device_map)
            if share.gpus * share.workers > count_gpus():
                raise UsageError(
                    f"{share.workers} workers with {share.gpus} GPU{'s' * (share.gpus > 1)} each need "
                    f"{share.gpus * share.workers}, but this machine has {count_gpus()}: give fewer --workers"
                )
            os.environ.update({**ALONE, "RAY_AUTH_TOKEN": secrets.token_hex(), **os.environ})
            folder = tempfile.mkdtemp(prefix="ray-", dir=_short_folder())
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            arguments = {
                "address": "local",
                "num_cpus": share.workers * share.cpus,
                "num_gpus": share.workers * share.gpus,
                "include_dashboard": False,
                "_temp_dir": folder,
            }
        try:
            import ray
        except ImportError:
            raise UsageError("several workers, or a cluster, need Ray: pip install 'tokur[ray]'") from None
        records = stack.enter_context(_records_apart())
        debug = os.environ.get("TOKUR_DEBUG") == "1"
        stack.callback(_shut_down)
        try:
            ray.init(**arguments, log_to_driver=debug, logging_level=logging.WARNING if debug else logging.CRITICAL)
        except Exception as error:
            what = f"the cluster at {address} can't be joined" if address else "Ray can't be started"
            raise TokurError(f"{what}: {' '.join(str(error).split())}") from error
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _end))
        if address:
            alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            machines = [Machine(int(has.get("CPU", 0)), int(has.get("GPU", 0))) for has in alive]
            share = divide([machine for machine in machines if machine.cpus], options, device_map)
        yield share, records


@contextmanager
def _records_apart() -> Iterator[BinaryIO]:
    """Give a descriptor of its own to standard output; what else is written there goes to standard error, or nowhere.

    Ray writes news of its own to standard output: long ones, of what is told shorter here.
    """
    with ExitStack() as stack:
        sys.stdout.flush()
        records = stack.enter_context(open(os.dup(sys.stdout.fileno()), "wb"))
        stack.enter_context(redirected(1, 2))
        nowhere = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(redirect_stdout(sys.stderr if os.environ.get("TOKUR_DEBUG") == "1" else nowhere))
        yield records


def _short_folder() -> str:
    folder = tempfile.gettempdir()
    return folder if len(folder) <= _LONGEST_TEMPORARY else "/tmp"


def _shut_down() -> None:
    import ray

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would leave processes behind
    ray.shutdown()
    signal.signal(signal.SIGINT, before)


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
