"""Records out: each written at once and as a whole; a file that a killed run left unfinished can be continued."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, cast

import jsonlines

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.outputs import STANDARD_OUTPUT, check_target, naming, writing_whole
from tokur_cli.records.provenance import differences, flat_settings
from tokur_cli.records.record import Record
from tokur_cli.records.streams import STDIN

SettingsOf = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Continuation:
    """What the records of an output that is continued are told by.

    Attributes:
        settings: the settings with which this run writes a record, by the ``tokur`` object that it comes with.
        settings_of: the settings that a ``tokur`` object was written with, which must be the same.
        identity: what an output record and the input record it was made from have in common; by default all values
            but ``tokur``.
    """

    settings: SettingsOf = lambda tokur: {}
    settings_of: SettingsOf = lambda tokur: {}
    identity: Callable[[Record], object] = Record.identity


@contextmanager
def open_output(
    path: str | None,
    *,
    force: bool = False,
    resume: bool | None = None,
    whole: bool = False,
    resuming: Continuation = Continuation(),
    standard_output: IO[bytes] | None = None,
) -> Iterator[RecordWriter]:
    """Open where records go.

    What an existing file holds is kept until the first record is written; with ``whole``, until all are. A file that is
    open here is written by no other run.

    Args:
        path: a file's name; None or ``-`` is standard output.
        force: replace what the file holds.
        resume: continue the file if it is there; None where a command cannot.
        whole: a file appears under its name when it is complete, and not at all otherwise.
        resuming: what the records there are told by.
        standard_output: what stands for it.

    Raises:
        UsageError: the file holds something that is neither to be replaced nor continued, or cannot be continued.
        TokurError: the file cannot be opened, or another run writes it.
    """
    with ExitStack() as stack:
        if path is None or path == STDIN:
            writer = RecordWriter(standard_output or sys.stdout.buffer, STANDARD_OUTPUT)
        elif whole:
            check_target(path, force=force)
            writer = RecordWriter(stack.enter_context(writing_whole(path)).buffer, path)
        else:
            with naming(path):
                file = stack.enter_context(open(path, "ab", buffering=0))
            is_file = os.path.isfile(path)
            if is_file:
                _lock(file, path)
            check_target(path, force=force, resume=resume)  # now that no other run can write it any more
            writer = RecordWriter(file, path, _Existing(path, bool(resume), resuming) if is_file else None)
        try:
            yield writer
        except KeyboardInterrupt as error:
            if resume is not None and writer.written:
                is_kept = writer.name == path
                kept = f"{path} keeps what is done: go on with --resume"
                error.args = (kept if is_kept else "with -o FILE, --resume goes on where a run was cut off",)
            raise
        with naming(writer.name):
            writer.settle()
            stack.close()


class RecordWriter:
    """Writes records, each at once and as a whole; :func:`open_output` makes one.

    Args:
        stream: where they go.
        name: its name, for messages.
        existing: the records of a file, of which some are kept.
    """

    def __init__(self, stream: IO[bytes], name: str, existing: _Existing | None = None) -> None:
        self.name, self.written = name, 0
        self._stream, self._existing = stream, existing
        self._lines = jsonlines.Writer(cast(IO[bytes], _WholeLines(stream)), dumps=bytes)

    def already_written(self, record: Record) -> Record | None:
        """Return the resumed file's next record if it is this input record's, and go on to the one after; else None.

        Call it for every input record, in order. None for an input that was skipped as invalid, and after the end of
        what the file holds.

        Raises:
            TokurError: the record in the file was written with other settings, or the line after it is not a record.
        """
        return None if self._existing is None else self._existing.take(record)

    def write(self, line: bytes) -> None:
        """Write an encoded record and its line end; nothing stays in a buffer.

        Raises:
            TokurError: the file that is resumed holds records that are not this input's, or the write fails.
            BrokenPipeError: nobody reads standard output any more.
        """
        with naming(self.name):
            self.settle(line)
            self._lines.write(line)
        self.written += 1

    def settle(self, due: bytes | None = None) -> None:
        """Leave nothing in the file but what this run recognised; then comes the line that is due, or no other."""
        existing, self._existing = self._existing, None
        if existing is not None:
            existing.check(None if due is None else Record.parse(due, None, None))
            self._stream.truncate(existing.size)
            self._stream.write(b"\n" * existing.lacks_end)


class _Existing:
    """The records of a file, in order; none of one that is not resumed.

    Attributes:
        size: of those that were taken, in bytes.
        lacks_end: whether the last of them has no line end.
    """

    def __init__(self, name: str, is_resumed: bool, resuming: Continuation) -> None:
        self.size, self.lacks_end = 0, False
        self._name, self._resuming = name, resuming
        self._missing: dict[int, RecordError] = {}  # inputs that are not the next record here, by their hash
        self._passed: dict[int, RecordError] = {}  # of these, the ones before an input that is here
        self._records = self._read() if is_resumed else iter(())
        self._next = next(self._records, None)

    def take(self, record: Record) -> Record | None:
        """Return the next record if it is this input record's, and go on to the one after; else None."""
        written = self._next
        if written is None:
            return None
        identity = self._resuming.identity(record)
        if self._resuming.identity(written) != identity:
            self._missing[hash(identity)] = record.error(f"is missing in {self._name}, though later records are there")
            return None
        self._check_settings(written, record)
        self._passed |= self._missing
        self._missing.clear()
        self._next = next(self._records, None)
        return written

    def check(self, due: Record | None) -> None:
        """Refuse to cut off records that were not taken, and to go on with one that comes before those that were."""
        fault = None if due is None else self._passed.get(hash(self._resuming.identity(due)))
        if self._next is not None:
            said = "this record does not come next in the input, so the file is not its beginning"
            fault = self._next.error(said)
        if fault is not None:
            raise TokurError(f"{fault}: resume with the same input, or write to another file")

    def _read(self) -> Iterator[Record]:
        """Yield the file's records; what a killed run began at its end is left out."""
        with open(self._name, "rb") as file:
            for number, line in enumerate(file, start=1):
                has_end = line.endswith(b"\n")
                if not line.isspace():
                    try:
                        yield Record.parse(line, self._name, number)
                    except RecordError as error:
                        if line.startswith(b"{") and not has_end:
                            return
                        raise TokurError(f"{error}; it cannot be resumed: fix the line, or start again") from None
                self.size, self.lacks_end = self.size + len(line), not has_end

    def _check_settings(self, written: Record, given: Record) -> None:
        try:
            then, now = self._resuming.settings_of(written.tokur), self._resuming.settings(given.tokur)
        except RecordError as error:
            raise TokurError(str(error)) from None
        made, here = (flat_settings(run=json.loads(encode_value(settings))) for settings in (then, now))
        different = list(differences(made, here))
        if different:  # another digest is named first, since others follow from it
            name, *values = min(different, key=lambda found: not found[0].endswith("_digest"))
            of = name.removeprefix("run.")
            was, has = (f"no {of}" if each is None else f"{of} {encode_value(each).decode()}" for each in values)
            raise TokurError(
                f"{self._name}:{written.line}: was written with {was}, but this run has {has}: resume with the same "
                "settings, or write to another file"
            )


class _WholeLines(io.RawIOBase):
    """Takes what jsonlines writes of a record, its text and then its line end, in one write: Ctrl-C may come."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._line = stream, b""

    def write(self, data: Any) -> int:
        if data != b"\n":
            self._line = data
            return len(data)
        rest = memoryview(self._line + b"\n")
        while rest:
            rest = rest[self._stream.write(rest) :]
        self._stream.flush()
        return len(data)


def _lock(file: IO[bytes], path: str) -> None:
    """Keep other runs from writing a file as long as it is open here; some file systems know no locks."""
    if sys.platform == "win32":
        return
    import fcntl

    with suppress(OSError):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TokurError(f"{path}: is being written by another run: wait for it, or give another -o FILE") from None
