"""``score`` on several processes: rank 0 reads, hands out windows of records and writes; all of them score.

A window is scored as a whole by one process, in the batches that a single process forms of it, so the numbers are the
same. Whoever is free takes the next window; rank 0 writes what comes back in the input's order, each record as soon as
those before it are there, and reads no further ahead than a few windows per process.
"""

from __future__ import annotations

import atexit
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from tokur_cli.commands.score.pipeline import Scoring
from tokur_cli.commands.shared.arrivals import Pause
from tokur_cli.commands.shared.errors import InvalidRecords, exit_code, message_for, say
from tokur_cli.engine.processes import Process, divide_threads
from tokur_cli.engine.rendezvous import Peer, gather_peers, join_rank_zero
from tokur_cli.records.errors import EXIT_FAILED, RecordError, TokurError
from tokur_cli.records.record import Record

Window = list[Record | RecordError]
Note = Callable[[str], None]
"""Called with what the user should know."""
LoadPipeline = Callable[[str | None, Note], Scoring]
"""Loads the model, which the records or the posterior may name, and makes its ``Scoring``."""

_WINDOWS_AHEAD = 2  # of each process: one at work, one to go on with
_FAREWELL_SECONDS = 10.0


# What rank 0 sends


@dataclass(frozen=True)
class _Begin:
    """Load the model, which the records or the posterior may name."""

    model_name: str | None


@dataclass(frozen=True)
class _Task:
    """Score a window."""

    number: int
    window: Window
    wanted: list[bool]
    skip_invalid: bool


@dataclass(frozen=True)
class _End:
    """End with this exit code once rank 0 has ended."""

    code: int


# What it gets back; a bad record is a RecordError


@dataclass(frozen=True)
class _Note:
    """Something that the user should know."""

    text: str


@dataclass(frozen=True)
class _Ready:
    """The model is loaded; what the numbers will depend on."""

    settings: dict[str, Any]


@dataclass(frozen=True)
class _Line:
    """A scored record as it will be written."""

    line: bytes
    tokens: int
    anew: bool


@dataclass(frozen=True)
class _Done:
    """Nothing more comes of this window."""


@dataclass(frozen=True)
class _Failure:
    """The process cannot go on."""

    message: str
    code: int


# What rank 0's own threads say


@dataclass(frozen=True)
class _Read:
    """A window of the input."""

    window: Window


@dataclass(frozen=True)
class _InputEnded:
    """There are no more windows, because of this error if there is one."""

    error: Exception | None


@dataclass(frozen=True)
class _Broken:
    """A thread cannot go on."""

    error: Exception


class _Failed(TokurError):
    """What another process could not do."""

    def __init__(self, peer: Peer, failure: _Failure) -> None:
        super().__init__(f"{peer}: {failure.message}")
        self.exit_code = failure.code


def _score_task(scoring: Scoring, task: _Task) -> Iterator[_Line | RecordError | _Done]:
    for outcome in scoring.score_window(task.window, task.wanted, task.skip_invalid):
        if isinstance(outcome, RecordError):
            yield outcome
        else:
            yield _Line(outcome.record.encode(), outcome.tokens, outcome.anew)
    yield _Done()


class Team:
    """All processes of a run, as rank 0 sees them; a context manager, whose end is the end of all.

    Threads read the input, score, and listen to each other process; they tell this one, which does all the rest.

    Args:
        command: name for messages.
        process: this one, rank 0.

    Raises:
        TokurError: the others did not come.
    """

    def __init__(self, command: str, process: Process) -> None:
        self.command = command
        self._peers = {peer.rank: peer for peer in gather_peers(process)}
        divide_threads(process)
        self._events: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()  # (who says it, what)
        self._own_tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._tasks: deque[_Task] = deque()
        self._idle: deque[int] = deque()
        self._window_of: dict[int, int] = {}  # what each process is at
        self._room = threading.Semaphore(_WINDOWS_AHEAD * process.size)
        self._model_name: str | None = None
        self._unbegun = list(self._peers.values())
        self._notes: set[str] = set()

    def __enter__(self) -> Team:
        for peer in self._peers.values():
            self._start(self._listen, peer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = exit_code(error)
        # The scoring thread may be within a batch of many seconds, and the interpreter must not be torn down under it
        atexit.register(_end_at_once, code)
        for peer in self._peers.values():
            with suppress(OSError):
                peer.connection.send(_End(code))

    def note(self, text: str) -> None:
        """Tell the user something once, however many processes say it."""
        self._events.put((0, _Note(text)))

    def begin(self, load_pipeline: LoadPipeline, model_name: str | None) -> Scoring:
        """Have the model loaded in all processes; return this one's.

        On each machine one process is first, so that what the cache lacks is made once and is the same for all.
        """
        here = socket.gethostname()
        self._model_name = model_name
        first = {peer.machine: peer for peer in reversed(self._unbegun)}
        self._begin([peer for machine, peer in first.items() if machine != here])
        scoring = load_pipeline(model_name, self.note)
        self._begin([peer for peer in self._unbegun if peer.machine == here])
        return scoring

    def run(
        self,
        scoring: Scoring,
        items: Iterable[Record | RecordError | Pause],
        write_line: Callable[[bytes], None],
        invalid: InvalidRecords,
        already_written: Callable[[Record], bool],
    ) -> None:
        """Score all records; as ``Scoring.run``, with encoded records written.

        Raises:
            TokurError: as there, or because of another process.
        """
        self._start(self._read, scoring.windows(items))
        self._start(self._score, scoring)
        self._idle.append(0)
        handed_out = written = 0
        ended: _InputEnded | None = None
        waiting: dict[int, deque[Any]] = defaultdict(deque)  # what came before its turn, by window
        while ended is None or written < handed_out:
            speaker, event = self._events.get()
            if isinstance(event, (_Line, RecordError, _Done)):
                waiting[self._window_of[speaker]].append(event)
                if isinstance(event, _Done):
                    self._idle.append(speaker)
                while waiting[written]:
                    if self._settle(waiting[written].popleft(), write_line, invalid, scoring):
                        del waiting[written]
                        written += 1
                        self._room.release()
            elif isinstance(event, _Read):
                wanted = scoring.choose(event.window, already_written)
                if any(wanted):
                    self._tasks.append(_Task(handed_out, event.window, wanted, invalid.skip))
                    handed_out += 1
                else:
                    self._room.release()
            elif isinstance(event, _InputEnded):
                ended = event
            else:
                self._hear(speaker, event, scoring)
            self._hand_out()
        scoring.finish()
        if ended.error is not None:
            raise ended.error

    def _hand_out(self) -> None:
        """Give work to whoever has none."""
        while self._tasks and self._idle:
            rank, task = self._idle.popleft(), self._tasks.popleft()
            self._window_of[rank] = task.number
            if rank == 0:
                self._own_tasks.put(task)
            else:
                self._send(self._peers[rank], task)

    def _settle(
        self,
        outcome: _Line | RecordError | _Done,
        write_line: Callable[[bytes], None],
        invalid: InvalidRecords,
        scoring: Scoring,
    ) -> bool:
        """Write, or count, the next outcome of the window whose turn it is; return whether it was the last one."""
        if isinstance(outcome, _Done):
            return True
        if isinstance(outcome, RecordError):
            invalid.skip_or_raise(outcome)
            scoring.progress.advance(1)
        else:
            write_line(outcome.line)
            scoring.written(outcome.tokens, outcome.anew)
        return False

    def _hear(self, speaker: int, event: Any, scoring: Scoring) -> None:
        """Handle a message of a process about itself.

        Raises:
            TokurError: it can't go on, or would compute something else.
        """
        if isinstance(event, _Broken):
            raise event.error
        if isinstance(event, _Failure):
            raise _Failed(self._peers[speaker], event)
        if isinstance(event, _Note):
            if event.text not in self._notes:
                self._notes.add(event.text)
                say(self.command, event.text)
            return
        assert isinstance(event, _Ready)
        peer = self._peers[speaker]
        for name, value in scoring.settings.items():
            if event.settings.get(name) != value:
                raise TokurError(
                    f"{peer} has {name} {event.settings.get(name)!r}, but process 0 has {value!r}: "
                    "give all processes the same model, settings and version of tokur"
                )
        self._begin([mate for mate in self._unbegun if mate.machine == peer.machine])
        self._idle.append(speaker)

    def _begin(self, peers: list[Peer]) -> None:
        for peer in peers:
            self._unbegun.remove(peer)
            self._send(peer, _Begin(self._model_name))

    def _send(self, peer: Peer, message: _Begin | _Task) -> None:
        try:
            peer.connection.send(message)
        except OSError:
            raise _lost(peer) from None

    @staticmethod
    def _start(work: Callable[[Any], None], subject: Any) -> None:
        threading.Thread(target=work, args=(subject,), daemon=True).start()

    def _read(self, windows: Iterator[Window]) -> None:
        error: Exception | None = None
        try:
            for window in windows:
                self._room.acquire()
                self._events.put((0, _Read(window)))
        except Exception as caught:
            error = caught
        self._events.put((0, _InputEnded(error)))

    def _score(self, scoring: Scoring) -> None:
        try:
            while True:
                for answer in _score_task(scoring, self._own_tasks.get()):
                    self._events.put((0, answer))
        except Exception as error:
            self._events.put((0, _Broken(error)))

    def _listen(self, peer: Peer) -> None:
        try:
            while True:
                self._events.put((peer.rank, peer.connection.recv()))
        except (EOFError, OSError):
            self._events.put((peer.rank, _Broken(_lost(peer))))


def _lost(peer: Peer) -> TokurError:
    return TokurError(f"{peer} ended unexpectedly: was it killed?")


def _end_at_once(code: int) -> None:
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class Helper:
    """A process that scores what rank 0 sends it, and ends as rank 0 ends.

    Args:
        command: name for messages.
        process: this one, not rank 0.

    Raises:
        TokurError: rank 0 can't be reached.
    """

    def __init__(self, command: str, process: Process) -> None:
        self.command, self.process = command, process
        self._connection = join_rank_zero(process)
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Ctrl-C goes to all processes; rank 0 answers it for all
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self, load_pipeline: LoadPipeline) -> NoReturn:
        """Score until rank 0 ends, then end with its exit code."""
        try:
            divide_threads(self.process)
            scoring = load_pipeline(self._messages.get().model_name, lambda text: self._connection.send(_Note(text)))
            self._connection.send(_Ready(scoring.settings))
            while True:
                for answer in _score_task(scoring, self._messages.get()):
                    self._connection.send(answer)
        except Exception as error:
            if os.environ.get("TOKUR_DEBUG") == "1":
                traceback.print_exc()
            with suppress(OSError):
                self._connection.send(_Failure(message_for(error), exit_code(error) or EXIT_FAILED))
        while True:
            threading.Event().wait()  # the listening thread ends the process

    def _listen(self) -> NoReturn:
        """Take messages; end the process when rank 0 ends, whatever the main thread is computing."""
        try:
            while not isinstance(message := self._connection.recv(), _End):
                self._messages.put(message)
        except (EOFError, OSError):
            if self.process.rank == 1 and sys.__stderr__ is not None:  # only one of those that are left reports it
                print(f"tokur {self.command}: process 0 ended unexpectedly: was it killed?", file=sys.__stderr__)
                sys.__stderr__.flush()
            os._exit(EXIT_FAILED)
        with suppress(EOFError, OSError):
            if self._connection.poll(_FAREWELL_SECONDS):
                self._connection.recv()
        os._exit(message.code)
