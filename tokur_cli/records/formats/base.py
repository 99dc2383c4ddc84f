"""What the formats share: how one is declared, and how a row becomes records with references and models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from string import ascii_uppercase
from typing import Any

from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError
from tokur_cli.records.formats.logprobs import logged_tokens
from tokur_cli.records.mapping import find_value
from tokur_cli.records.prompt import other_fields, read_response, with_reasoning
from tokur_cli.records.record import SCHEMA, Record, as_text

Items = Iterator[Record | RecordError]  # records, and for each bad row an error in its place
Note = Callable[[str], None]  # takes what is to be said of a stream
Fields = Mapping[str, Any]

_SAMPLES = (  # the responses to one question
    *("samples", "responses", "outputs", "completions", "generations", "resps", "code", "sampled_responses"),
    "choices",  # of a chat service, not of a multiple choice
)
GOLD = (  # references, whatever stands beside them
    *("gold", "gold_answer", "gold_label", "ground_truth", "ground_truth_answer", "gt", "target"),
    *("expected", "expected_answer", "expected_output", "expectedOutput", "correct_answer", "reference_answer"),
)
MAYBE_GOLD = ("answer", "solution", "label", "references")  # beside a response, where there is none of these
_MODELS = ("model", "model_name", "model_id")
_MARKS = ("is_correct", "score", "scores", "quality", "acc")  # verdicts where they are true or false
_PARALLEL = (*_MARKS, "correct", "reward", "rewards", "logprobs", "pred", "preds", "finish_reason", "finish_reasons")
_COLUMN = re.compile(r"(response|sample|completion|output|generation)s?[ _.-]?([0-9]+)")
_ASKED = {"question", "messages", "prompt", "problem", "instruction", "conversations", "tokur"}  # one in any row
_ROWS = '"{0}" holds rows with questions of their own: jq -c ".{0}[]" writes each on a line of its own'
_VERDICT = re.compile(r"correct|incorrect|true|false|right|wrong|pass(?:ed)?|fail(?:ed)?|[01](?:\.0)?", re.IGNORECASE)


@dataclass(frozen=True)
class Given:
    """What is given beside a stream's rows to read them."""

    requests: Items | None = None  # of the file that holds the requests, in whatever format they are
    again: Items | None = None  # the rows once more; None where they can be read only once
    filter: str | None = None  # which of a response's rows is read, where each filter wrote one
    samples: str | None = None  # the path of the list of samples that --response-field names
    whole: bool = False  # whether a row of several samples is one record, its question
    before: int = 0  # how many bad rows came before the first good one
    note: Note = lambda _: None  # called with what is to be said of the stream


@dataclass(frozen=True)
class Format:
    """A way in which people have their rows: all that is particular to it, in one place.

    ``read`` turns the rows of one stream, errors among them, into records with tokur's fields. ``verdicts`` are what a
    row's own program says of right and wrong, by the path to each; None where judging it failed.
    """

    name: str
    recognises: Callable[[Fields], bool]
    read: Callable[[Items, Given], Items]
    verdicts: Callable[[Fields], dict[str, Any] | None] | None = None


def has(*names: str, but: Iterable[str] = ()) -> Callable[[Fields], bool]:
    """Return what recognises rows that have all of these fields, maybe within others, but none of some others."""
    return lambda fields: (
        all(name in fields or find_value(fields, name) is not None for name in names)
        and all(fields.get(name) is None for name in but)
    )


def adapt_rows(
    rows: Iterable[Record | RecordError], form: str, adapt: Callable[[Record], Iterable[Record | RecordError]]
) -> Items:
    """Yield what rows become; an error, and a row that tokur wrote, stays as it is.

    ``adapt`` takes a row for what it should be: where it lacks a field, or one is of another type, it is no such row.
    """
    for row in rows:
        if isinstance(row, RecordError) or isinstance(row.get("tokur"), dict):
            yield row
            continue
        try:
            yield from adapt(row)
        except RecordError as error:
            yield error
        except KeyError as error:
            yield row.error(f'is no {form} row: "{error.args[0]}" is missing')
        except (TypeError, ValueError, AttributeError, LookupError):
            yield row.error(f"is no {form} row: one of its fields is not what it must be")


def row_format(
    recognises: Callable[[Fields], bool], verdicts: Callable[[Fields], dict[str, Any] | None] | None = None
) -> Callable[[Callable[[Record], Record]], Format]:
    """Make a function of one row a format of its name: each row is a question with one response or a list of them."""

    def declare(adapt: Callable[[Record], Record]) -> Format:
        name = adapt.__name__.replace("_", "-")

        def read(rows: Items, given: Given) -> Items:
            return adapt_rows(rows, name, lambda row: map(adapt, [row] if given.whole else _split(row, given.samples)))

        return Format(name, recognises, read, verdicts)

    return declare


def with_tokur(record: Record, **values: Any) -> Record:
    """Return the same record, its ``tokur`` object holding these values; those that are None are left out."""
    record.set("tokur", {"schema": SCHEMA} | {name: value for name, value in values.items() if value is not None})
    return record


def add_label(record: Record, value: Any) -> None:
    """Label a record by what its own program says: right or wrong, or something in between; null where that failed."""
    record.set("correct" if value in (None, 0, 1) else "quality", bool(value) if value in (0, 1) else value)


def dicts(value: Any, form: str | None = None) -> list[dict[str, Any]]:
    """Return the objects in a list, of one ``type`` if one is given; none of what is no list."""
    objects = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return [item for item in objects if form in (None, item.get("type"))]


def digest(*values: Any) -> bytes:
    """Return what tells JSON values from others, in 8 bytes."""
    return blake2b(encode_value(values), digest_size=8).digest()


# --- samples ---


def _split(row: Record, named: str | None) -> Iterator[Record]:
    """Yield a row for each response to its question, numbered from 0; the row itself where it holds no list of them.

    Other lists of that length, of verdicts and such, go with each; ``named`` is the path of a list that the user names.
    """
    path, items = (named, find_value(row.fields, named, list) or []) if named else _samples(row)
    lists = {name: each for name, each in row.fields.items() if isinstance(each, list) and len(each) == len(items)}
    same = [name for name, each in lists.items() if name in _PARALLEL or all(isinstance(one, bool) for one in each)]
    rows = []
    for number, item in [(number, item) for number, item in enumerate(items) if item is not None]:
        parts = item if isinstance(item, dict) else {}
        own = {name: row.fields[name][number] for name in same} | ({path: [item]} if path in row.fields else {})
        own |= {name: parts[name] for name in (*_PARALLEL, "reasoning_content") if name in parts}
        said = _said(item)
        own["response"] = read_response(f"{path}[{number}]", item if said is None else said, row)
        if verdicts := [own[name] for name in _MARKS if isinstance(own.get(name), bool)]:
            own.setdefault("correct", verdicts[0])
        one = replace(row, fields=row.fields | own)
        reason = find_value(own, "finish_reason", str) or find_value(own, "finish_reasons", str)
        known = {"prompt_token_ids": row.get("prompt_token_ids"), **logged_tokens(own | parts)}
        rows.append(with_tokur(one, sample=number, finish_reason=reason, **known))
    for one in rows or [row]:
        said, thought = one.get("response"), find_value(one.fields, "reasoning_content", str) or ""
        if isinstance(said, str) and thought.strip() not in said and "think>" not in said:
            one.set("response", with_reasoning(thought, said))
        yield one


def _samples(row: Record) -> tuple[str, list[Any]]:
    """Return the name of the list of responses to a row's question, and them, None where one is missing.

    The name of columns such as ``response_0`` and ``response_1`` is empty. So are both where there are none.
    """
    fields = row.fields
    columns = [(match[1], int(match[2]), name) for name in fields if (match := _COLUMN.fullmatch(name))]
    of_one = [fields[name] for kind, _, name in sorted(columns) if kind == columns[0][0]]
    if len(of_one) > 1 and "response" not in fields:
        return "", [text if isinstance(text, str) else None for text in of_one]
    found = {} if isinstance(fields.get("response"), str) else response_lists(fields)
    for name, items in found.items():
        if len({str(item.get("question")) for item in dicts(items)}) > 1:
            raise row.error(_ROWS.format(name))
    if len(found) > 1:
        raise row.error(f"has several lists that may be its responses, {', '.join(found)}: --response-field names one")
    return next(iter(found.items()), ("", []))


def response_lists(fields: Fields) -> dict[str, list[Any]]:
    """Return the lists that may be the responses to a row's question, by name."""
    found: dict[str, list[Any]] = {}
    for name in _SAMPLES:
        listed = find_value(fields, name, list) or []
        items = [item for item in listed if item is not None]
        are_options = name == "choices" and not all(isinstance(item, dict) and "label" not in item for item in items)
        if items and not are_options and all(_said(item) is not None for item in items):
            found[name] = listed
    return found


def _said(item: Any) -> str | dict[str, Any] | None:
    """Return the text or the message in a response: a text, a list of one, or an object that has it; else None."""
    match item:
        case {"message": dict(message)} | ({"content": _} as message):
            return message
        case str(text) | [str(text)] | {"text": str(text)} | {"response": str(text)}:
            return text
    return None


# --- references and models ---


def complete(record: Record) -> Record:
    """Give a response its reference and its model where they stand under everyday names; return the record.

    A question without a response is given the reference that TriviaQA's rows have. What is no row but holds some is
    refused.
    """
    fields = record.fields
    is_answered = isinstance(fields.get("response"), str)
    held = (name for name, value in fields.items() if any(not _ASKED.isdisjoint(item) for item in dicts(value)))
    if not is_answered and _ASKED.isdisjoint(fields) and (name := next(held, None)):
        raise record.error(_ROWS.format(name) + other_fields("question", fields))
    of_question = ["answer"] if find_value(fields, "answer.aliases", list) is not None else []
    names = ([name for name in GOLD if name in fields] or MAYBE_GOLD) if is_answered else of_question
    found = filter(None, (_reference(name, _option(fields, name)) for name in names if name in fields))
    if fields.get("reference") is None and (reference := next(found, None)):
        record.set("reference", reference)
    model = next((fields[name] for name in _MODELS if isinstance(fields.get(name), str) and fields[name]), None)
    if is_answered and record.tokur.get("model") is None and model:
        record.set("tokur", {"schema": SCHEMA, **record.tokur, "model": model})
    return record


def _option(fields: Fields, name: str) -> Any:
    """Return a field's value; of a place among options, from 0, the text there, its letter and itself."""
    value, options = fields[name], find_value(fields, "choices", list) or find_value(fields, "options", list) or []
    is_place = name != "label" and type(value) is int and 0 <= value < min(len(options), len(ascii_uppercase))
    return [options[value], ascii_uppercase[value], value] if is_place and isinstance(options[value], str) else value


def _reference(name: str, value: Any) -> str | list[str] | None:
    """Return the reference in a field; None where it holds none."""
    if isinstance(value, dict):  # of TriviaQA
        names = [value.get("value"), *(find_value(value, "aliases", list) or [])]
        value = list(dict.fromkeys(item for item in names if isinstance(item, str) and item))
    if isinstance(value, list):
        texts = [text for item in value if isinstance(text := _reference(name, item), str)]
        found = texts[0] if len(texts) == 1 else texts or None
        return found if len(texts) == len(value) else None
    text = as_text(value)
    if not isinstance(text, str) or not text.strip():
        return None
    if "####" in text:  # of GSM8K
        return text.rpartition("####")[2].strip() or None
    is_verdict = name == "label" and (not isinstance(value, str) or _VERDICT.fullmatch(text.strip()))
    return None if is_verdict or (name == "solution" and text == value and "\\boxed" not in text) else text
