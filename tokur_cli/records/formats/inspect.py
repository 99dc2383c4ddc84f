"""Samples of Inspect AI logs (``.eval``, ``.json``)."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import suppress
from typing import Any

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import TokurError
from tokur_cli.records.formats.base import Fields, Note, add_label, dicts, has, row_format
from tokur_cli.records.formats.chat_api import read_choice
from tokur_cli.records.mapping import find_value
from tokur_cli.records.prompt import read_response
from tokur_cli.records.record import Record
from tokur_cli.records.streams import Texts, elements

_ATTACHMENT = "attachment://"
_ZIP = b"PK\x03\x04"
_VERDICTS = {"C": True, "I": False, "N": False, "P": 0.5, "yes": True, "true": True, "no": False, "false": False}
_STATUS = rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:'
LOG = re.compile(_ZIP + b"|" + _STATUS)  # how a file begins that is a log
_HEADER = "header.json"
_STARTED = re.compile(_STATUS + rb'\s*"started"')
_UNFINISHED = 'the log has the status "started": its run did not end, and samples may be missing'


# --- samples ---


def _inline(record: Record, value: Any) -> Any:
    """Return a JSON value without attachments, which a sample keeps apart, and without fields that are null."""
    if isinstance(value, dict):
        return {name: _inline(record, item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_inline(record, item) for item in value]
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return record.fields["attachments"][value.removeprefix(_ATTACHMENT)]
    return value


def _verdict(value: Any) -> Any:
    """Return what Inspect's own metrics count a score's value as; what they cannot count is returned as it is."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return _VERDICTS.get(value, _VERDICTS.get(value.lower(), value))


def _verdicts(fields: Fields) -> dict[str, Any] | None:
    """Return what the scorers of a sample say, by the path to each; null where one failed, None where all did."""
    said: dict[str, Any] = {}
    for name, score in (find_value(fields, "scores", dict) or {}).items():
        if find_value(score, "metadata.tokur") is None:  # tokur's own scorer says nothing of right and wrong
            value = find_value(score, "value")
            values = {f".{part}": item for part, item in value.items()} if isinstance(value, dict) else {"": value}
            said |= {f"scores.{name}.value{part}": _verdict(item) for part, item in values.items()}
    return None if not said and fields.get("error") is not None else said


@row_format(has("epoch", "input", "target", "output"), _verdicts)
def inspect(record: Record) -> Record:
    """Return the record of a sample, whose output is a chat completion by other names."""
    output, error = record.fields["output"], record.get("error")
    if not dicts(output.get("choices")):  # a sample may have a response though its grading failed
        raise record.error(f"the sample failed: {find_value(error, 'message') or error or 'it has no output.choices'}")
    choice = _inline(record, output["choices"][0])
    message, reason = choice["message"], choice.pop("stop_reason", None)
    choice["finish_reason"] = "length" if reason in ("max_tokens", "model_length") else reason
    question, target = _inline(record, record.fields["input"]), record.fields["target"]
    # No target is written as an empty text, or as a list of none
    asked = {"reference": (target[0] if isinstance(target, list) and len(target) == 1 else target) or None}
    asked |= {"question": question} if isinstance(question, str) else {}
    response, last = read_response("output.choices[0].message", message, record), dicts(record.get("messages"))[-1:]
    is_last = last and last[0].get("role") == "assistant" and read_response("messages[-1]", last[0], record) == response
    if not is_last:
        # solvers may have added turns to the input, so the conversation, where there is one, is what the model saw
        asked["messages"] = question if isinstance(question, list) else None
    events = (dicts(record.get("events")) if message.get("id") is not None else [])[::-1]
    told = (event.get("tools") for event in events if find_value(event, "output.choices.0.message.id") == message["id"])
    if tools := [_inline(record, tool) for tool in dicts(next(told, None))]:
        asked["tools"] = tools
    model, sample = output.get("model") or None, record.fields["epoch"] - 1
    (adapted,) = read_choice(record, "output.choices[0]", choice, asked, model=model, sample=sample)
    said = [None] if error is not None else list((_verdicts(record.fields) or {}).values())
    if len(said) == 1:
        add_label(adapted, said[0])
    return adapted


# --- logs ---


def read_log(stream: io.BufferedReader, source: str, max_sample: int, note: Note) -> Texts:
    """Yield each sample's name, its line, and its JSON text, None where that is longer than so many bytes."""
    head = stream.peek(1)
    if _STARTED.match(head):
        note(f"{source}: {_UNFINISHED}")
    if head.startswith(_ZIP):
        samples = _archived(stream, source, max_sample, note)
    else:
        samples = elements(stream, source, (None, "samples"), max_sample)
    for name, line, text in samples:
        if text is not None and (b"NaN" in text or b"Infinity" in text):
            with suppress(ValueError):  # else the reader says what is wrong with it
                text = encode_value(json.loads(text))  # which says null
        yield name, line, text


def _archived(stream: io.BufferedReader, source: str, longest: int, note: Note) -> Texts:
    """Yield the samples of an ``.eval`` archive, in the order in which they were written."""
    if sys.version_info < (3, 14):
        from backports.zstd import zipfile  # Inspect compresses so
    else:
        import zipfile

    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            if not any(name.startswith((_HEADER, "samples/", "_journal/")) for name in names):
                raise ValueError("it is a zip archive of something else: give what it holds, unpacked")
            if _HEADER not in names or _STARTED.match(archive.read(_HEADER)):
                note(f"{source}: {_UNFINISHED}")
            # a sample that was written again is listed twice; the last is the one that counts
            for name in dict.fromkeys(names):
                if name.startswith("samples/") and name.endswith(".json"):
                    is_long = archive.getinfo(name).file_size > longest
                    yield f"{source}/{name}", 1, None if is_long else archive.read(name)
    except Exception as error:  # of zipfile, and of what unpacks its members
        raise TokurError(f"{source}: is not an Inspect log that can be read: {error}") from None
