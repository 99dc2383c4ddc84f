"""What a heat map paints of a scored record, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokur_cli.commands.shared.scored_tokens import scored_tokens, token_arrays
from tokur_cli.records.record import Record
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.alternatives import Alternatives
from tokur_cli.views.heatmap.response import HeatmapResponse

_AGAIN = "score it again with --alternatives"


def heatmap_response(
    record: Record,
    needed: Sequence[str],
    wanted: Sequence[str],
    *,
    correct: bool | None = None,
    answer: str | None = None,
) -> HeatmapResponse:
    """Return what is painted of a scored record.

    Args:
        record: the record.
        needed: token quantities that it must have.
        wanted: token quantities that are taken too if it has them.
        correct: whether it is right; None where that is not said.
        answer: its answer; None where none is shown.
    """
    tokens = scored_tokens(record, (*needed, *wanted))
    for name in needed:
        if name not in tokens.values:
            others = ",".join(_with_values(token_arrays(record)))
            advice = f"give --score {others}, which there are" if others else "score the responses with it first"
            raise record.error(f'no token values named "{name}": {advice}')
    name = record.id or f"line {record.line}"
    question = record.turns[-1]["content"] if record.turns else None
    return HeatmapResponse(
        id=name,
        response=tokens.response,
        spans=tokens.spans,
        values=tokens.values,
        group=record.id or question or name,
        sample=record.sample if "sample" in record.tokur else None,
        question=question,
        scores={name: record.number(f'"tokur.scores.{name}"', value) for name, value in record.scores.items()},
        correct=correct,
        answer=answer,
        reference=record.reference,
        steps=tokens.steps,
        alternatives=scored_alternatives(record, len(tokens.spans)),
    )


def said_answer(record: Record) -> str | None:
    """Return the answer that an earlier command left in a record."""
    said = record.computed("answer")
    return said if isinstance(said, str) else None


def scored_with(record: Record) -> str:
    """Return in words what a record's uncertainties come from: ``MODEL in float32, σ 0.1, rank 8, draws 2, seed 0``.

    What the record does not say is left out.
    """
    known = {name: value for name, value in record.settings("run").items() if value is not None}
    model = " in ".join(str(known[name]) for name in ("model", "dtype") if name in known)
    words = {"sigma": "σ {}", "rank": "rank {}", "draws": "draws {}", "sampling": "{}", "seed": "seed {}"}
    return ", ".join([model, *(text.format(known[name]) for name, text in words.items() if name in known)]).strip(", ")


def _with_values(tokens: Mapping[str, Any]) -> list[str]:
    """Return the quantities of which at least one token has a value."""
    return [
        name
        for name in QUANTITIES
        if isinstance(values := tokens.get(name), list) and any(value is not None for value in values)
    ]


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
    return dict(
        _alternatives(record, f'"tokur.alternatives.at"[{place}]', one, count) for place, one in enumerate(listed)
    )


def _alternatives(record: Record, what: str, fields: Any, count: int) -> tuple[int, Alternatives]:
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
