"""Records out, one at a time; and a file that was left half-written, continued."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, BinaryIO, cast

import jsonlines

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.outputs import (
    STANDARD_OUTPUT,
    Replacement,
    check_target,
    check_writable,
    is_replaced,
    lock,
    naming,
)
from tokur_cli.records.record import Record
from tokur_cli.records.streams import STDIN

Settings = Mapping[str, Any]

DIGEST = "_digest"
"""Ends the names of settings that tell the content of files."""
SettingsOf = Callable[[dict[str, Any]], Settings]

_BUFFER = 1 << 20  # what is shorter goes to the file in one piece


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


def open_output(
    path: str | None,
    *,
    force: bool = False,
    resume: bool | None = None,
    whole: bool = False,
    resuming: Continuation = Continuation(),
    standard_output: BinaryIO | None = None,
) -> RecordWriter:
    """Open where records go.

    What an existing file holds is kept until the first record is written (or :meth:`RecordWriter.finish`), so a run
    that fails before that does no harm; with ``whole``, until all are. A file that is open here is written by no other
    run.

    Args:
        path: a file's name; None or ``-`` is standard output.
        force: replace what the file holds.
        resume: continue the file if it is there, see :meth:`RecordWriter.already_written`; None where a command cannot.
        whole: a file appears under its name when it is complete, and not at all otherwise.
        resuming: what the records there are told by.
        standard_output: what stands for it.

    Raises:
        UsageError: the file holds something that is neither to be replaced nor continued, or cannot be continued.
        TokurError: the file cannot be opened, or another run writes it.
    """
    check_target(path, force=force, resume=resume)
    if path is None or path == STDIN:
        return RecordWriter(None, STANDARD_OUTPUT, resume=resume, standard_output=standard_output)
    if whole and is_replaced(path):
        return _open_whole(path, force)
    with naming(path):
        file = io.BufferedWriter(io.FileIO(path, "w", opener=_without_truncating), _BUFFER)
    try:
        if os.path.isfile(path):
            lock(file, path)
            check_target(path, force=force, resume=resume)  # again: another run may have ended meanwhile
        return RecordWriter(file, path, resume=resume, resuming=resuming)
    except TokurError:
        file.close()
        raise


def _open_whole(path: str, force: bool) -> RecordWriter:
    check_writable(path)
    with naming(path):
        replacement = Replacement(path)
    try:
        check_target(path, force=force)  # again: another run may have ended meanwhile
        return RecordWriter(replacement.file, path, replacement=replacement)
    except TokurError:
        replacement.close()
        raise


class RecordWriter:
    """Writes records, each at once and as a whole; a context manager. :func:`open_output` makes one.

    Args:
        file: the output file, or None for standard output.
        name: its name, for messages.
        replacement: what the file belongs to where it appears as a whole.

    The other arguments are those of :func:`open_output`.
    """

    def __init__(
        self,
        file: io.BufferedWriter[Any] | None,
        name: str,
        *,
        replacement: Replacement | None = None,
        resume: bool | None = None,
        resuming: Continuation = Continuation(),
        standard_output: BinaryIO | None = None,
    ) -> None:
        self._file = file
        self._replacement = replacement
        self._can_be_resumed = resume is not None and file is not None and os.path.isfile(name)
        self._starts_over = resume is not None and file is None
        self._written = 0
        stream: BinaryIO = file or standard_output or sys.stdout.buffer
        self._lines = jsonlines.Writer(cast(IO[bytes], _WholeLines(stream)), dumps=_encoded)
        self._name = name
        self._resuming = resuming
        self._positioned = file is None  # whether the next write goes after the last record to keep
        self._kept_bytes = 0
        self._tail = b""  # the unfinished line at the end, known when the records before it have been passed
        self._tail_line = 0
        self._existing = self._read_existing() if resume and file is not None else iter(())
        self._next_existing: Record | None = None
        self._next_identity: object = None
        self._missing: dict[int, RecordError] = {}  # input records not in the file so far, by their identity's hash
        self._passed: dict[int, RecordError] = {}  # of these, the ones that come before a record in the file
        self._advance()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt) and self._can_be_resumed and self._positioned:
            error.args = (f"{self._name} keeps what is done: go on with --resume",)
        elif isinstance(error, KeyboardInterrupt) and self._starts_over and self._written:
            records = f"{self._written:,} record{'s were' if self._written > 1 else ' was'}"
            error.args = (f"{records} written; with -o FILE, --resume goes on where a run was cut off",)
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    def already_written(self, record: Record) -> Record | None:
        """Return the resumed file's next record if it is this input record's, and go on to the one after; else None.

        Call it for every input record, in order. None for an input that was skipped as invalid, and after the end of
        what the file holds. One that was skipped will be skipped again: writing it is an error, for its place is taken.

        Raises:
            TokurError: the record in the file was written with other settings, or the line after it is not a record.
        """
        written = self._next_existing
        if written is None:
            return None
        identity = self._resuming.identity(record)
        if self._next_identity != identity:
            self._missing.setdefault(hash(identity), record.error("is missing in"))
            return None
        self._check_settings(written, record)
        self._passed |= self._missing
        self._missing.clear()
        self._advance()
        return written

    def write(self, record: Record) -> None:
        """Write a record and its line end; nothing stays in a buffer.

        Raises:
            TokurError: the file that is resumed holds records that are not this input's, or the write fails.
            BrokenPipeError: nobody reads standard output any more.
        """
        self.write_line(record.encode())

    def write_line(self, line: bytes) -> None:
        """Write a record that is encoded already, as :meth:`write` does."""
        if self._passed:
            self._refuse_passed(Record.parse(line, None, None))
        if self._tail and not self._positioned:
            self._check_tail(Record.parse(line, None, None))
        self._position()
        try:
            self._lines.write(line)
            self._written += 1
        except OSError:
            if self._file is not None:
                self._file.raw.close()  # closing the buffer alone would try to write it again
            with naming(self._name):
                raise

    def finish(self) -> None:
        """Declare the output complete: nothing but what this run wrote or recognised is left in the file.

        Raises:
            TokurError: the file that is resumed holds records that are not this input's.
        """
        if self._tail and not self._positioned and self._next_existing is None:
            self._check_tail(None)
        self._position()
        if self._replacement is not None:
            with naming(self._name):
                self._replacement.put()

    def close(self) -> None:
        """Close the file without declaring it complete."""
        if self._file is not None:
            self._file.close()
            self._positioned = True
        if self._replacement is not None:
            self._replacement.close()

    def check_passed(self) -> None:
        """Refuse a file that is resumed if it holds records beyond those that were recognised.

        Raises:
            TokurError: it does.
        """
        if self._next_existing is not None:
            raise TokurError(
                f"{self._name}:{self._next_existing.line}: this record does not come next in the input, so the file is "
                "not its beginning: resume with the same input, or write to another file"
            )

    def _position(self) -> None:
        if self._positioned or self._file is None:
            return
        self.check_passed()
        if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.truncate(self._kept_bytes)
            self._file.seek(self._kept_bytes)
        self._positioned = True

    def _check_tail(self, due: Record | None) -> None:
        """Refuse to cut off the unfinished line at the end if it is another record than the one that comes next."""
        try:
            whole = Record.parse(self._tail, self._name, self._tail_line)
        except RecordError:
            if self._tail.lstrip().startswith(b"{"):
                return
        else:
            if due is not None and self._resuming.identity(whole) == self._resuming.identity(due):
                self._check_settings(whole, due)
                return
        raise TokurError(
            f"{self._name}:{self._tail_line}: this line has no end, and is not the record that comes next: resume with "
            "the same input, or write to another file"
        )

    def _refuse_passed(self, record: Record) -> None:
        passed = self._passed.get(hash(self._resuming.identity(record)))
        if passed is not None:
            raise TokurError(
                f"{passed} {self._name}, though records that come after it are there: resume with the same input, or "
                "write to another file"
            )

    def _read_existing(self) -> Iterator[Record]:
        """Yield the file's complete records, counting the bytes of those taken; an unfinished last line is apart."""
        with open(self._name, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    if not line.isspace():
                        self._tail, self._tail_line = line, number
                    return
                if not line.isspace():
                    try:
                        yield Record.parse(line, self._name, number)
                    except RecordError as error:
                        raise TokurError(f"{error}; it cannot be resumed: fix the line, or start again") from None
                self._kept_bytes += len(line)

    def _advance(self) -> None:
        self._next_existing = next(self._existing, None)
        if self._next_existing is not None:
            self._next_identity = self._resuming.identity(self._next_existing)

    def _check_settings(self, written: Record, given: Record) -> None:
        try:
            before = _flat(json.loads(encode_value(dict(self._resuming.settings_of(written.tokur)))))
            here = _flat(json.loads(encode_value(dict(self._resuming.settings(given.tokur)))))
        except RecordError as error:
            raise TokurError(str(error)) from None
        edited = [name for name in before if name.endswith(DIGEST) and name in here]  # what other settings follow from
        for name in {**dict.fromkeys(edited), **here, **before}:
            then, now = _spell(before, name), _spell(here, name)
            if before.get(name) != here.get(name) or (name in before) != (name in here):
                if name.endswith(DIGEST) and name in before and name in here:
                    raise TokurError(
                        f"{self._name}:{written.line}: was written with another content of "
                        f"{name.removesuffix(DIGEST)}: {then} then, {here[name]} now: "
                        "undo what was changed in its files, or write to another file"
                    )
                raise TokurError(
                    f"{self._name}:{written.line}: was written with {then}, but this run has {now}: "
                    "resume with the same settings, or write to another file"
                )


class _WholeLines(io.RawIOBase):
    """Takes what jsonlines writes of a record, its text and then its line end, in one write: Ctrl-C may come between.

    Args:
        stream: where lines go; nothing stays in its buffer.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._line = stream, b""

    def write(self, data: Any) -> int:
        if data != b"\n":
            self._line = data
        else:
            self._stream.write(self._line + b"\n")
            self._stream.flush()
        return len(data)


def _encoded(line: Any) -> bytes:
    """Return a line as jsonlines is to write it: records are encoded already, by whoever made them."""
    return line if isinstance(line, bytes) else encode_value(line)


def _without_truncating(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_TRUNC, 0o666)


def _flat(settings: Settings) -> dict[str, Any]:
    """Return settings with those within them under names such as ``prompts.template``."""
    parts = {name: value if isinstance(value, dict) else {"": value} for name, value in settings.items()}
    return {f"{name}.{of}" if of else name: value for name, part in parts.items() for of, value in part.items()}


def _spell(settings: Settings, name: str) -> str:
    return f"{name} {json.dumps(settings[name], ensure_ascii=False)}" if name in settings else f"no {name}"
