"""The ``samples_*.jsonl`` files that lm-evaluation-harness writes with ``--log_samples``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, UsageError, there_are
from tokur_cli.records.formats.base import (
    Adapter,
    Format,
    Given,
    add_label,
    required,
    spelled,
    with_fields,
    with_tokur,
)
from tokur_cli.records.record import Record

_NAME = "lm-eval"


class _LmEval(Adapter):
    """Reads one row of each response.

    The harness writes every row once for each of its task's filters; the extracted answer and its verdict alone differ.
    """

    def __init__(self, given: Given) -> None:
        self._wanted = given.filter
        self._filters: dict[
            bytes, str
        ] = {}  # by response: the filter whose row is read, or one while that has not come
        self._read: Counter[str] = Counter()  # rows by their filters
        self._passed: Counter[str] = Counter()
        self._questions: dict[int | str, bytes] = {}
        self._source: str | None = None

    def read(self, row: Record, position: int) -> Iterator[Record | RecordError]:
        """Yield a record for each repeat of each request, if the row is of the filter that is read."""
        self._source = row.source
        name = sys.intern(str(row.get("filter")))
        response = _digest(row, "doc_id", "arguments", "resps")
        if name == self._wanted:
            self._filters[response] = name
        first = self._filters.setdefault(response, name)
        if name != (self._wanted or first):
            self._passed[name] += 1
            return
        self._read[name] += 1
        doc_id = required(row, "doc_id", _NAME, int, str)
        question = _digest(row, "doc_id", "arguments")
        if self._questions.setdefault(doc_id, question) != question:  # a row does not say of which task it is
            doc_id = f"{doc_id}-{question.hex()}"
        yield from _adapt_row(row, doc_id)

    def finish(self, count: int) -> Iterator[str]:
        """Say whose rows were passed over.

        Raises:
            UsageError: the filter that is wanted has no row.
        """
        if self._wanted is None:
            if self._passed:
                yield (
                    f"read {_counted(self._read)}, passed over {_counted(self._passed)}, which are of the same "
                    "responses: --format lm-eval:NAME chooses"
                )
            return
        if self._passed and not self._read:
            raise UsageError(
                f"--format lm-eval:{self._wanted}: no row of {self._source} has this filter"
                f"{there_are(self._passed, self._wanted)}"
            )
        if without := sum(name != self._wanted for name in self._filters.values()):
            responses = f"{without:,} response{'s have' if without > 1 else ' has'}"
            yield f"{responses} no row of the filter {self._wanted} and {'are' if without > 1 else 'is'} left out"


def _counted(rows: Counter[str]) -> str:
    """Return how many rows there are of each filter, in words."""
    return ", ".join(f"{count:,} row{'s' * (count > 1)} of the filter {name}" for name, count in rows.items())


def _digest(record: Record, *names: str) -> bytes:
    """Return 8 bytes for these fields of a row."""
    return blake2b(encode_value([record.get(name) for name in names]), digest_size=8).digest()


def _adapt_row(record: Record, doc_id: int | str) -> Iterator[Record]:
    """Return one record for each repeat of each request: ``resps`` is requests x repeats."""
    responses = required(record, "resps", _NAME, list)
    requests = _read_requests(record)
    if not requests:
        raise record.error(f"is not an {_NAME} row: it has no arguments")
    if len(requests) != len(responses):
        raise record.error(f"is not an {_NAME} row: {len(requests)} arguments but {len(responses)} resps")
    for number, (request, repeats) in enumerate(zip(requests, responses, strict=True)):
        prompt = _read_prompt(record, request)
        if not isinstance(repeats, list):
            raise record.error(f"is not an {_NAME} row: resps[{number}] is not a list of repeats")
        if not repeats:
            raise record.error(f"resps[{number}] is empty")
        for sample, response in enumerate(repeats):
            if not isinstance(response, str):
                raise record.error(f"is not an {_NAME} row: resps[{number}][{sample}] is not a string")
            one = record.copy()
            if len(requests) * len(repeats) > 1:
                one.set("resps", [[response]])  # else every record would carry all the others' responses
            one = with_fields(
                one,
                id=doc_id if len(requests) == 1 else f"{doc_id}-{number}",
                response=response,
                reference=spelled(record, "target"),
                **prompt,
            )
            said = list(_metrics(record.fields).values())
            if len(said) == len(requests) * len(repeats) == 1:
                add_label(one, bool(said[0]) if said[0] in (0, 1) else said[0])
            yield with_tokur(one, sample=sample)


def _read_requests(record: Record) -> list[list[Any]]:
    """Return each request's arguments; older versions wrote a list, newer ones ``{"gen_args_0": {"arg_0": …}}``."""
    arguments = required(record, "arguments", _NAME, list, dict)
    requests = list(arguments.values()) if isinstance(arguments, dict) else arguments
    return [list(request.values()) if isinstance(request, dict) else request for request in requests]


def _read_prompt(record: Record, request: Any) -> dict[str, Any]:
    """Return the fields that hold the prompt of one request."""
    if not isinstance(request, list) or len(request) < 2 or not isinstance(request[1], dict):
        raise record.error(
            "holds log-likelihoods, no response: only tasks with output_type generate_until can be scored"
        )
    prompt = request[0]
    if isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        # what was sent to a chat API: the turns as JSON, in a list of one
        try:
            return {"messages": json.loads(prompt[0])}
        except ValueError:
            pass
    raise record.error(f"is not an {_NAME} row: its prompt is neither text nor chat turns")


def _metrics(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the harness's metrics say of a row's response, by name; older versions did not list them."""
    names = fields.get("metrics")
    listed = names if isinstance(names, list) else []
    return {name: fields[name] for name in listed if isinstance(name, str) and name in fields}


LM_EVAL = Format(
    _NAME,
    "lm-evaluation-harness samples_*.jsonl: doc_id, arguments, resps, target",
    lambda fields: {"doc_id", "doc", "arguments", "resps"} <= fields.keys(),
    _LmEval,
    takes_filter=True,
    verdicts=_metrics,
)
