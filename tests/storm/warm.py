"""A process with all imports done and the tiny model loaded, forked for every run of the command line.

A run in a child of its own costs some 50 ms instead of 4 s, and nothing that it does reaches the next one.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HANG_SECONDS = 20.0
MEMORY_BYTES = 1_000_000_000
"""What a run may take, with all modules; the model is tiny."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that reach a run from its first line on, and none of the lines here."""
LEFT_OUT = ("tokur_cli.engine.generation.vllm", "tokur_cli.commands.evaluate.report.plots")
"""What runs when it is imported, or needs an extra that may not be there."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        code: exit code; minus the signal's number if a signal ended it.
        out, err: what it wrote to standard output and standard error.
        seconds: wall-clock time.
        memory_bytes: most resident memory, of it or of a process that it started; all modules and the model count.
        hung: whether it was ended since it took longer than ``HANG_SECONDS``.
        left_behind: whether a process that it started outlived it.
    """

    code: int
    out: bytes
    err: bytes
    seconds: float
    memory_bytes: int
    hung: bool = False
    left_behind: bool = False


class Run:
    """A run of the command line that goes on in a child process."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self._folder = pid, folder
        self._started = time.monotonic()
        self._end = os.pidfd_open(pid)

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended, at most so long; return whether it has."""
        return bool(select.select([self._end], [], [], seconds)[0])

    def send(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def finish(self, seconds: float = HANG_SECONDS) -> Outcome:
        """Wait for its end, or bring it about after so many seconds."""
        hung = watched(self.pid, self._end, seconds)
        if not self.wait(0):
            os.kill(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        os.close(self._end)
        took = time.monotonic() - self._started
        left_behind = self._processes_left()
        out, err = (
            path.read_bytes() if (path := self._folder / name).is_file() else b"" for name in (".stdout", ".stderr")
        )
        return Outcome(os.waitstatus_to_exitcode(status), out, err, took, usage.ru_maxrss * 1024, hung, left_behind)

    def _processes_left(self) -> bool:
        """Return whether processes of its session stay on for more than a moment; end them."""
        deadline = time.monotonic() + HANG_SECONDS  # such as a worker that is still importing
        while time.monotonic() < deadline:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return False
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return True


def watched(pid: int, descriptor: int, seconds: float) -> bool:
    """Wait until a descriptor can be read, or the process takes far too much memory; return whether neither came."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if select.select([descriptor], [], [], 0.1)[0] or resident_bytes(pid) > 3 * MEMORY_BYTES:
            return False
    return True


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


class Warm:
    """Forks runs of the command line; imports and the model are there already.

    Args:
        model: the folder of a model, which is loaded now and given to every run that asks for it.
    """

    def __init__(self, model: Path) -> None:
        import torch

        torch.set_num_threads(1)
        import tokur_cli

        for module in pkgutil.walk_packages(tokur_cli.__path__, "tokur_cli."):
            if module.name not in LEFT_OUT:
                with suppress(ImportError):
                    importlib.import_module(module.name)
        _remember_model(model)
        deadline = time.monotonic() + 5  # the threads that loaded the weights end a little later
        while len(os.listdir("/proc/self/task")) > 1:
            if time.monotonic() > deadline:
                raise RuntimeError("a thread is there, so that nothing can be forked")
            time.sleep(0.01)

    def learn(self, arguments: Sequence[str], folder: Path, **options: Any) -> Outcome:
        """Run the command line, and import here what it imported: the next runs find it."""
        modules = folder / ".modules"
        outcome = self.start(arguments, folder, modules=modules, **options).finish()
        if modules.is_file():
            for name in modules.read_text().split("\n"):
                with suppress(Exception):
                    importlib.import_module(name)
            modules.unlink()
        gc.collect()
        gc.freeze()
        return outcome

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        stdin: int | Path | bytes | None = None,
        stdout: int | None = None,
        closed: Sequence[int] = (),
        prepare: Callable[[], None] | None = None,
        modules: Path | None = None,
    ) -> Run:
        """Start a run in a folder; what it prints goes to ``.stdout`` and ``.stderr`` there.

        Args:
            arguments: of ``tokur``.
            folder: the working folder.
            stdin: bytes for a pipe, a file, a descriptor, or None for nothing.
            stdout: a descriptor in place of the file.
            closed: which of the descriptors 0, 1 and 2 are closed.
            prepare: called in the child before the command line.
            modules: a file for the names of the modules that are imported at its end.
        """
        opened = []
        if not isinstance(stdin, int):
            stdin = opened_input(stdin, folder)
            opened.append(stdin)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        err = os.open(folder / ".stderr", flags)
        opened.append(err)
        if stdout is None:
            stdout = os.open(folder / ".stdout", flags)
            opened.append(stdout)
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        pid = os.fork()
        if pid == 0:
            _be_tokur(arguments, folder, (stdin, stdout, err), closed, prepare, modules)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        for descriptor in opened:
            os.close(descriptor)
        return Run(pid, folder)

    def run(self, arguments: Sequence[str], folder: Path, **options: Any) -> Outcome:
        """Run the command line to its end."""
        return self.start(arguments, folder, **options).finish()


def opened_input(given: Path | bytes | None, folder: Path) -> int:
    """Return a descriptor to read from: of a pipe for bytes (a file if they are too many), of a file, of nothing."""
    if isinstance(given, bytes) and len(given) <= 1 << 16:
        reader, writer = os.pipe()
        os.write(writer, given)
        os.close(writer)
        return reader
    if isinstance(given, bytes):
        (folder / ".stdin").write_bytes(given)
        given = folder / ".stdin"
    return os.open(given or os.devnull, os.O_RDONLY)


def _be_tokur(
    arguments: Sequence[str],
    folder: Path,
    descriptors: tuple[int, int, int],
    closed: Sequence[int],
    prepare: Callable[[], None] | None,
    modules: Path | None,
) -> None:
    """Become a run of the command line, in the way in which a new interpreter would run it; never return."""
    code = 1
    try:
        os.setsid()
        stand_in(folder, descriptors, closed)
        os.closerange(3, 256)
        if prepare is not None:
            prepare()
        code = run_here(arguments)
        if modules is not None:
            modules.write_text("\n".join(sys.modules))
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code & 0xFF)


def stand_in(folder: Path, descriptors: tuple[int, int, int], closed: Sequence[int] = ()) -> None:
    """Give this process a working folder, and descriptors and streams such as a new interpreter has."""
    import torch

    # A forked process makes PyTorch's pool of threads anew when that is first asked for: of two threads that ask at
    # once, as those that load weights may, the second finds none
    torch.set_num_threads(torch.get_num_threads())
    os.chdir(folder)
    for number, descriptor in enumerate([os.dup(descriptor) for descriptor in descriptors]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, (name, mode, errors) in enumerate(
        (("stdin", "r", "strict"), ("stdout", "w", "strict"), ("stderr", "w", "backslashreplace"))
    ):
        if number in closed:
            os.close(number)
        stream = None
        if number not in closed:
            stream = open(number, mode, 1 if number == 2 else -1, "utf-8", errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_here(arguments: Sequence[str]) -> int:
    """Run the command line; return what the interpreter would exit with after it."""
    sys.argv = ["tokur", *arguments]
    sys.modules["__main__"].__package__ = ""  # else usage errors say `python -m tests.storm`
    from tokur_cli.__main__ import main

    return _exit_code(main)


def _exit_code(main: Callable[[], None]) -> int:
    """Return what the interpreter would exit with after ``main``."""
    try:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            main()
            code = 0
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:  # else it came just after it
            traceback.print_exc()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        print("Exception ignored while flushing sys.stdout", file=sys.stderr)
        return 120
    return code


def _remember_model(folder: Path) -> None:
    """Load the model once; runs that ask for it as it is get it without reading its files again."""
    from tokur_cli.commands.shared import model as shared
    from tokur_cli.engine.loading import models
    from tokur_cli.engine.templates.rendering import TEMPLATES

    load = models.load_language_model
    loaded: dict[tuple[str, str], Any] = {(str(folder), "auto"): load(str(folder))}
    loaded[str(folder), "float32"] = load(str(folder), dtype="float32")

    def remembered(name: str, **options: Any) -> Any:
        plain = not options.get("revision") and options.get("device_map", "auto") in ("auto", "cpu")
        found = loaded.get((name, options.get("dtype", "auto"))) if plain else None
        return load(name, **options) if found is None else found

    TEMPLATES.close()  # its process would be shared by all that are forked
    for module in (models, shared):
        if hasattr(module, "load_language_model"):
            vars(module)["load_language_model"] = remembered
