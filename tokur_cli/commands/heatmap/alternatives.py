"""The alternatives of a scored record's tokens, checked."""

from __future__ import annotations

from typing import Any

from tokur_cli.records.record import Record
from tokur_cli.views.heatmap.alternatives import Alternatives

_AGAIN = "score it again with --alternatives"


def scored_alternatives(record: Record, count: int) -> dict[int, Alternatives]:
    """Return what else might have been written at a record's tokens, by their indices; nothing where it has none.

    Args:
        record: the record.
        count: how many tokens its response has.

    Raises:
        RecordError: they are not as ``tokur score --alternatives`` writes them.
    """
    kept = record.computed("alternatives")
    if kept is None:
        return {}
    listed = kept.get("at") if isinstance(kept, dict) else None
    if not isinstance(listed, list):
        raise record.error(f'"tokur.alternatives" has no list "at": {_AGAIN}')
    return dict(_read(record, f'"tokur.alternatives.at"[{place}]', one, count) for place, one in enumerate(listed))


def _read(record: Record, what: str, fields: Any, count: int) -> tuple[int, Alternatives]:
    if not isinstance(fields, dict):
        raise record.error(f"{what} is not an object: {_AGAIN}")
    token, texts, draws = (fields.get(name, []) for name in ("token", "text", "draws"))
    if type(token) is not int or not 0 <= token < count:
        raise record.error(f'{what}: "token" is no place among the {count} tokens of the response')
    if not all(isinstance(list_, list) and all(isinstance(text, str) for text in list_) for list_ in (texts, draws)):
        raise record.error(f'{what}: "text" and "draws" are not lists of texts: {_AGAIN}')
    shares = {name: fields[name] for name in ("p", "p_mean") if name in fields}
    if "p" not in shares or not all(isinstance(one, list) and len(one) == len(texts) for one in shares.values()):
        raise record.error(f'{what}: "p" and "p_mean" are not lists with a number for each text: {_AGAIN}')
    numbers = {name: [_share(record, f'{what}: "{name}"', one) for one in values] for name, values in shares.items()}
    return token, Alternatives(texts, numbers["p"], numbers.get("p_mean"), draws)


def _share(record: Record, what: str, value: Any) -> float | None:
    number = record.number(what, value)
    if number is not None and not 0 <= number <= 1 + 1e-6:
        raise record.error(f"{what} holds {number:g}, which is no probability")
    return number
