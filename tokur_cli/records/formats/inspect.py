"""Samples of Inspect AI logs (``.eval``, ``.json``)."""

from __future__ import annotations

import copy
import io
import math
import re
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

from tokur_cli.records.arrays import array_elements
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.base import (
    Adapter,
    Container,
    Format,
    Note,
    labelled_by_row,
    required,
    typed,
    with_fields,
    with_tokur,
)
from tokur_cli.records.formats.chat_api import logged_tokens
from tokur_cli.records.prompt import is_withheld, read_response
from tokur_cli.records.record import Record
from tokur_cli.records.streams import MAX_LINE, in_bytes, open_zstd

if TYPE_CHECKING:
    import zipfile

_NAME = "inspect"
_ATTACHMENT = "attachment://"
_LENGTH_REASONS = ("max_tokens", "model_length")  # which everyone else calls "length"
_VERDICTS: dict[str, float | bool] = {"C": True, "I": False, "N": False, "P": 0.5}
_VERDICTS |= {"yes": True, "true": True, "no": False, "false": False}
_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
_STARTED = re.compile(_LOG.pattern + rb'\s*"started"')
_UNFINISHED = 'the log has the status "started": its run did not end, and samples may be missing'
_ARCHIVE = b"PK\x03\x04"
_CHUNK = 1 << 16
_COPIED = 64  # a copy may be as large as this many of the longest members
_STRING_OR_CONSTANT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN', re.DOTALL)
_OF_A_LOG = ("samples/", "_journal/")
_ZIP_ZSTD = 93  # how Inspect compresses; zipfile reads it only from Python 3.14 on


def _adapt(record: Record) -> Record:
    message = _read_message(record)
    response = _inline(record, read_response("output.choices[0].message", message, record))
    fields: dict[str, Any] = {"response": response}
    question = required(record, "input", _NAME, str, list)
    if isinstance(question, str):
        fields["question"] = _inline(record, question)
    if not _ends_with_response(record, response):
        # solvers may have added turns to the input, so the conversation, where there is one, is what the model saw
        fields["messages"] = question if isinstance(question, list) else None
    if tools := _tools(record, message.get("id")):
        fields["tools"] = tools
    target = typed(record, '"target"', record.get("target"), _NAME, str, list)
    # No target is written as an empty text, or as a list of none
    fields["reference"] = (target[0] if isinstance(target, list) and len(target) == 1 else target) or None
    required(record, "id", _NAME, int, str)
    epoch = required(record, "epoch", _NAME, int)
    output = record.fields["output"]
    choice = output["choices"][0]
    stop_reason = choice.get("stop_reason")
    return with_tokur(
        with_fields(record, **fields),
        model=output.get("model") or None,
        sample=epoch - 1,
        finish_reason="length" if stop_reason in _LENGTH_REASONS else stop_reason,
        reasoning="withheld" if is_withheld(message) else None,
        **logged_tokens(choice),
    )


def _read_message(record: Record) -> dict[str, Any]:
    """Return the message that is the response; a sample may have one though its grading failed."""
    choices = required(record, "output", _NAME, dict).get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message: dict[str, Any] = typed(record, '"output.choices[0].message"', choices[0].get("message"), _NAME, dict)
        return message
    error = record.get("error")
    if error is not None:
        raise record.error(f"the sample failed: {error.get('message') if isinstance(error, dict) else error}")
    raise record.error(f'is not an {_NAME} sample with a response: "output.choices" is empty')


def _ends_with_response(record: Record, response: str) -> bool:
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        return False
    last = messages[-1]
    return last.get("role") == "assistant" and read_response("messages[-1]", last, record) == response


def _inline(record: Record, text: str) -> str:
    """Return a text that may be kept among the sample's attachments."""
    if not text.startswith(_ATTACHMENT):
        return text
    attachments = record.get("attachments")
    kept = attachments.get(text.removeprefix(_ATTACHMENT)) if isinstance(attachments, dict) else None
    if kept is None:
        raise record.error(f'"{text}" is missing: write the log again with resolve_attachments=True')
    return record.checked_text(f"attachments.{text.removeprefix(_ATTACHMENT)}", kept)


def _tools(record: Record, message: Any) -> list[dict[str, Any]]:
    """Return the tools that the model was told of when it wrote a message."""
    events = record.get("events")
    for event in reversed(events if isinstance(events, list) else []):
        if not isinstance(event, dict) or event.get("event") != "model" or not isinstance(event.get("tools"), list):
            continue
        output = event.get("output")
        choices = output.get("choices") if isinstance(output, dict) else None
        written = (
            choices[0].get("message") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else 0
        )
        if isinstance(written, dict) and written.get("id") == message is not None:
            return [_inlined(record, tool) for tool in event["tools"]]
    return []


def _inlined(record: Record, value: Any) -> Any:
    """Return a JSON value without attachments, and without fields that are null."""
    if isinstance(value, dict):
        return {name: _inlined(record, item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_inlined(record, item) for item in value]
    return _inline(record, value) if isinstance(value, str) else value


def verdict(value: Any) -> Any:
    """Return what Inspect's own metrics count a score's value as; what they cannot count is returned as it is."""
    if isinstance(value, str):
        if (counted := _VERDICTS.get(value, _VERDICTS.get(value.lower()) if len(value) > 1 else None)) is not None:
            return counted
        try:
            number = float(value)
        except ValueError:
            return value
        return number if math.isfinite(number) else value
    return value


def _verdicts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the scorers of a sample say, by the path to each; null where one failed."""
    scores = fields.get("scores")
    return dict(_verdicts_of(scores)) if isinstance(scores, dict) else {}


def _verdicts_of(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, score in scores.items():
        metadata = score.get("metadata") if isinstance(score, dict) else None
        if isinstance(metadata, dict) and "tokur" in metadata:
            continue  # tokur's own scorer says nothing of right and wrong
        value = score.get("value") if isinstance(score, dict) else None
        if isinstance(value, dict):
            yield from ((f"scores.{name}.value.{part}", verdict(item)) for part, item in value.items())
        else:
            yield f"scores.{name}.value", verdict(value)


def _samples_of_log(
    stream: io.BufferedReader, source: str, max_line: int, note: Note
) -> Iterator[tuple[str, int, bytes | None]]:
    """Yield the samples of a ``.json`` log."""
    if _STARTED.match(stream.peek()):
        note(_UNFINISHED)
    for index, (line, text) in enumerate(array_elements(stream, source, "samples", max_line)):
        yield f"{source}[{index}]", line, text and _without_constants(text)


def _samples_of_archive(
    stream: io.BufferedReader, source: str, max_member: int, note: Note
) -> Iterator[tuple[str, int, bytes | None]]:
    """Yield the samples of an ``.eval`` archive, in the order in which they were written."""
    import zipfile  # which every start would pay for

    with _seekable(stream, source, max_member) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if not any(name == "header.json" or name.startswith(_OF_A_LOG) for name in archive.namelist()):
                    raise TokurError(
                        f"{source}: is a zip archive, but not an Inspect log: unpack it, and give what it holds"
                    )
                if _is_unfinished(archive):
                    note(_UNFINISHED)
                # a sample that was written again is listed twice; the last is the one that counts
                for name in dict.fromkeys(archive.namelist()):
                    if name.startswith("samples/") and name.endswith(".json"):
                        text = _read_member(archive, archive.getinfo(name), source, max_member)
                        yield f"{source}/{name}", 1, text and _without_constants(text)
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, OSError) as error:
            raise TokurError(f"{source}: is not an Inspect log that can be read: {error}") from None


@contextmanager
def _seekable(stream: io.BufferedReader, name: str, max_member: int) -> Iterator[IO[bytes]]:
    """Give the bytes of a stream to read out of order: those of a pipe or an archive are copied to a temporary file."""
    if stream.seekable():
        yield stream
        return
    with tempfile.TemporaryFile() as kept:
        while data := stream.read1(_CHUNK):
            if kept.tell() + len(data) > _COPIED * max_member:
                raise TokurError(
                    f"{name}: holds more than {in_bytes(_COPIED * max_member)}, too much to be copied: give it "
                    "unpacked, as a file, or raise --set max_line"
                )
            kept.write(data)
        kept.seek(0)
        yield cast(IO[bytes], kept)


def _without_constants(text: bytes) -> bytes:
    """Return JSON text with null for ``NaN`` and ``Infinity``; nothing inside a string changes."""
    if b"NaN" not in text and b"Infinity" not in text:
        return text
    return _STRING_OR_CONSTANT.sub(lambda match: match[0] if match[0].startswith(b'"') else b"null", text)


def _is_unfinished(archive: zipfile.ZipFile) -> bool:
    """Return whether a log has no final header, or one that says so; its header is small."""
    if "header.json" not in archive.namelist():
        return True
    header = _read_member(archive, archive.getinfo("header.json"), "header.json", MAX_LINE)
    return _STARTED.match(header or b"") is not None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str, max_member: int) -> bytes | None:
    """Return a member's contents, None if they are too long; if they are longer than the archive says, that fails."""
    import zipfile

    if member.file_size > max_member:
        return None
    if member.compress_type != _ZIP_ZSTD or sys.version_info >= (3, 14):
        return archive.read(member)
    stored = copy.copy(member)  # its bytes as they are, to which the checksum does not belong
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, member.compress_size
    del stored.CRC
    with open_zstd(archive.open(stored), f"{source}/{member.filename}") as contents:
        data = contents.read(member.file_size + 1)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise zipfile.BadZipFile(f"{member.filename}: its size or its checksum is wrong")
    return data


class _Inspect(Adapter):
    """Reads samples, and counts those that were invalidated."""

    def __init__(self) -> None:
        super().__init__(lambda row: iter((labelled_by_row(INSPECT, row, _adapt(row)),)))
        self._invalidated = 0

    def read(self, row: Record, position: int) -> Iterator[Record | RecordError]:
        """Yield the sample's record."""
        self._invalidated += row.get("invalidation") is not None
        return super().read(row, position)

    def finish(self, count: int) -> Iterator[str]:
        """Say how many samples were invalidated."""
        if self._invalidated:
            samples = f"{self._invalidated:,} sample{'s were' if self._invalidated > 1 else ' was'}"
            yield f"{samples} invalidated by who ran the evaluation, but read"


INSPECT = Format(
    _NAME,
    "Inspect AI logs (.eval, .json): id, epoch, input, target, output",
    lambda fields: {"epoch", "input", "target", "output"} <= fields.keys(),
    lambda given: _Inspect(),
    verdicts=_verdicts,
    failed=lambda fields: fields.get("error") is not None,
    logprobs=("output.choices.0.logprobs",),
    containers=(
        Container(lambda head: head.startswith(_ARCHIVE), _samples_of_archive),
        Container(lambda head: _LOG.match(head) is not None, _samples_of_log),
    ),
)
