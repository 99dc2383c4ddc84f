"""The ``samples_*.jsonl`` files that lm-evaluation-harness writes with ``--log_samples``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tokur_cli.records.errors import UsageError, there_are
from tokur_cli.records.formats.base import Fields, Format, Given, Items, adapt_rows, add_label, digest, has, with_tokur
from tokur_cli.records.mapping import with_fields
from tokur_cli.records.record import Record, as_text


def _read(rows: Items, given: Given) -> Items:
    """Yield a record for each repeat of each request, of one row of each response.

    The harness writes every row once for each of its task's filters; the extracted answer and its verdict alone differ.
    The filter that is wanted is read, else the one whose row comes first.
    """
    filters: dict[bytes, str] = {}  # the first one of each response
    questions: dict[Any, bytes] = {}  # the first one of each doc_id
    read: dict[str, None] = {}
    passed: dict[str, None] = {}

    def adapt(row: Record) -> Iterator[Record]:
        doc_id, name = row.fields["doc_id"], str(row.get("filter"))
        question = digest(doc_id, row.get("arguments"))
        is_read = name == (given.filter or filters.setdefault(digest(question, row.get("resps")), name))
        (read if is_read else passed)[name] = None
        if is_read:
            # a row does not say of which task it is
            is_first = questions.setdefault(doc_id, question) == question
            yield from _adapt(row, doc_id if is_first else f"{doc_id}-{question.hex()}")

    yield from adapt_rows(rows, LM_EVAL.name, adapt)
    if passed and not read:
        raise UsageError(f"--format lm-eval:{given.filter}: no row has it{there_are(passed, str(given.filter))}")
    if passed and given.filter is None:
        given.note(f"read the filter {', '.join(read)}, not {', '.join(passed)}: --format lm-eval:NAME chooses")


def _adapt(record: Record, doc_id: int | str) -> Iterator[Record]:
    """Yield one record for each repeat of each request: ``resps`` is requests x repeats."""
    responses, requests = record.fields["resps"], _values(record.fields["arguments"])
    if not requests or [isinstance(item, list) and item != [] for item in responses] != [True] * len(requests):
        raise record.error(f"is no lm-eval row: it has not a list of resps for each of {len(requests)} arguments")
    said = list(_metrics(record.fields).values())
    is_verdict = len(said) == 1 and not isinstance(said[0], (list, dict))  # of all rows, as BLEU's are
    for number, (request, repeats) in enumerate(zip(requests, responses, strict=True)):
        match _values(request):
            case [str(prompt), dict(), *_]:
                asked = {"prompt": prompt}
            case [[turns], dict(), *_]:  # what was sent to a chat API: the turns as JSON
                asked = {"messages": json.loads(turns)}
            case _:
                raise record.error("holds log-likelihoods, no response: only generate_until tasks can be scored")
        identity = doc_id if len(requests) == 1 else f"{doc_id}-{number}"
        for sample, response in enumerate(repeats):
            one, is_only = record.copy(), len(requests) * len(repeats) == 1
            if not is_only:
                one.set("resps", [[response]])  # else every record would carry all the others' responses
            text = record.checked_text(f"resps[{number}][{sample}]", response)
            one = with_fields(one, id=identity, response=text, reference=as_text(record.get("target")), **asked)
            if is_only and is_verdict:
                add_label(one, said[0])
            yield with_tokur(one, sample=sample)


def _values(arguments: Any) -> Any:
    """Return arguments as the list that older versions wrote; newer ones name each, ``{"arg_0": …}``."""
    return list(arguments.values()) if isinstance(arguments, dict) else arguments


def _metrics(fields: Fields) -> dict[str, Any]:
    """Return what the harness's metrics say of a row's response, by name; older versions did not list them."""
    names = fields["metrics"] if isinstance(fields.get("metrics"), list) else []
    return {name: fields[name] for name in names if isinstance(name, str) and name in fields}


LM_EVAL = Format("lm-eval", has("doc_id", "doc", "arguments", "resps"), _read, _metrics)
