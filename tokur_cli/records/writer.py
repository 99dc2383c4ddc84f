"""Records out: each written at once and as a whole; a file that a killed run left unfinished can be continued."""

from __future__ import annotations

import fcntl
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

import jsonlines

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.outputs import STANDARD_OUTPUT, check_target, naming
from tokur_cli.records.record import Record, differences, flat_settings
from tokur_cli.records.streams import STDIN


@dataclass(frozen=True)
class Continuation:
    """What the records of an output that is continued are told by."""

    settings: Callable[[Record], Mapping[str, Any]] = lambda record: {}  # with which this run writes an input record
    settings_of: Callable[[Record], Mapping[str, Any]] = lambda record: {}  # with which one there was written: the same
    identity: Callable[[Record], object] = Record.identity  # what a record and the one it was made from have in common


@contextmanager
def open_output(
    path: str | None,
    *,
    force: bool = False,
    resume: bool | None = None,
    resuming: Continuation = Continuation(),
    standard_output: IO[bytes] | None = None,
) -> Iterator[RecordWriter]:
    """Open where records go.

    What an existing file holds is kept until the first record is written. A file that is open here is written by no
    other run. None or ``-`` is standard output, or what stands for it; ``resume`` is None where a command cannot.

    Raises:
        UsageError: the file holds something that is neither to be replaced nor continued.
        TokurError: the file cannot be opened, or another run writes it.
    """
    with ExitStack() as stack:
        if path is None or path == STDIN:
            writer = RecordWriter(standard_output or sys.stdout.buffer, STANDARD_OUTPUT)
        else:
            with naming(path):
                file = stack.enter_context(open(path, "ab", buffering=0))
            there = None
            if os.path.isfile(path):
                with suppress(OSError):  # some file systems know no locks
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        raise TokurError(f"{path}: another run is writing it: give another -o FILE") from None
                check_target(path, force=force, resume=resume)  # now that no other run can write it any more
                there = _written(path) if resume else iter(())
            writer = RecordWriter(file, path, there, resuming)
        try:
            yield writer
        except KeyboardInterrupt as error:
            if resume is not None and writer.name == path:
                error.args = (f"{path} keeps what is done: go on with --resume",)
            raise
        with naming(writer.name):
            writer.settle()
            stack.close()


@dataclass
class RecordWriter:
    """Writes records, each at once and as a whole."""

    stream: IO[bytes]  # where they go
    name: str  # of that, for messages
    # The records of a file with which this run goes on, and where each ends; None where nothing can be taken away
    there: Iterator[tuple[Record, int]] | None = None
    resuming: Continuation = Continuation()  # what these are told by

    def __post_init__(self) -> None:
        self._next = next(self.there or iter(()), None)
        self._end = 0  # of the last one that this run recognised
        self._missing: dict[int, RecordError] = {}  # inputs before the last record there that are not there, by hash

    def already_written(self, record: Record) -> Record | None:
        """Return the resumed file's next record if it is this input record's, and go on to the one after; else None.

        Call it for every input record, in order. None for an input that was skipped as invalid, and after the end of
        what the file holds.

        Raises:
            TokurError: the record in the file was written with other settings, or the line after it is not a record.
        """
        if self.there is None or self._next is None:
            return None
        (written, end), identity = self._next, self.resuming.identity(record)
        if self.resuming.identity(written) != identity:
            self._missing[hash(identity)] = record.error(f"is missing in {self.name}, though later records are there")
            return None
        settings = self.resuming.settings_of(written), self.resuming.settings(record)
        then, now = (flat_settings(json.loads(encode_value(each))) for each in settings)
        # Another digest is named first, since others follow from it
        for name, *values in sorted(differences(then, now), key=lambda found: not found[0].endswith("_digest")):
            was, has = (f"no {name}" if each is None else f"{name} {encode_value(each).decode()}" for each in values)
            advice = "resume with the same settings, or write to another file"
            raise TokurError(f"{written.error(f'was written with {was}, but this run has {has}')}: {advice}")
        self._next, self._end = next(self.there, None), end
        return written

    def write(self, line: bytes) -> None:
        """Write an encoded record and its line end in one call, since Ctrl-C may come; nothing stays in a buffer.

        Raises:
            TokurError: the file that is resumed holds records that are not this input's, or the write fails.
            BrokenPipeError: nobody reads standard output any more.
        """
        whole = io.BytesIO()
        jsonlines.Writer(whole, dumps=bytes).write(line)
        rest = memoryview(whole.getvalue())
        with naming(self.name):
            self.settle(line)
            while rest:
                rest = rest[self.stream.write(rest) :]
            self.stream.flush()

    def settle(self, due: bytes | None = None) -> None:
        """Leave nothing in the file but what this run recognised; then comes the line that is due, or no other.

        Raises:
            TokurError: that would take away other records, or the line comes before one that is there.
        """
        if self.there is None:
            return
        self.there, fault = None, None
        if self._next is not None:
            fault = self._next[0].error("does not come next in the input, so the file is not its beginning")
        elif due is not None:
            fault = self._missing.get(hash(self.resuming.identity(Record.parse(due, None, None))))
        if fault is not None:
            raise TokurError(f"{fault}: resume with the same input and options, or write to another file")
        self.stream.truncate(self._end)
        if self._end:
            self.stream.write(b"\n")


def _written(name: str) -> Iterator[tuple[Record, int]]:
    """Yield a file's records, and where each ends; what a killed run began at its end is left out."""
    end = 0
    with open(name, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                if not line.isspace():
                    yield Record.parse(line, name, number), end + len(line.removesuffix(b"\n"))
            except RecordError as error:
                if line.startswith(b"{") and not line.endswith(b"\n"):
                    return
                raise TokurError(f"{error}; it cannot be resumed: fix the line, or start again") from None
            end += len(line)
