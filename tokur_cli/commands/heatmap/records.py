"""What a heat map paints of a scored record, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tokur_cli.commands.shared.scored_tokens import ScoredTokens, scored_tokens, token_arrays
from tokur_cli.records.record import Record
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.scores.steps import aggregates
from tokur_cli.views.heatmap.response import Alternatives, HeatmapResponse, Step


def heatmap_response(
    record: Record,
    needed: Sequence[str],
    wanted: Sequence[str],
    *,
    correct: bool | None = None,
    answer: str | None = None,
    group: str | None = None,
) -> HeatmapResponse:
    """Return what is painted of a scored record: token quantities that it must have, and those wanted if it has them.

    ``group`` is the key of its question, None where none is asked for.
    """
    tokens = scored_tokens(record, (*needed, *wanted))
    for name in needed:
        if name not in tokens.values:
            arrays = token_arrays(record)
            lists = {one: arrays[one] for one in QUANTITIES if isinstance(arrays.get(one), list)}
            having = [one for one, values in lists.items() if any(value is not None for value in values)]
            there = f"; available: {', '.join(having)} (--score {having[0]})" if having else ""
            raise record.error(f'no "{name}" per token here{there or ": score the responses with it first"}')
    name = record.id or f"line {record.line}"
    question = record.turns[-1]["content"] if record.turns else None
    return HeatmapResponse(
        id=name,
        response=tokens.response,
        spans=tokens.spans,
        values=tokens.values,
        group=group or name,
        sample=record.sample if "sample" in record.tokur else None,
        question=question,
        scores={name: record.number(f'"tokur.scores.{name}"', value) for name, value in record.scores.items()},
        correct=correct,
        withheld=withheld if isinstance(withheld := record.tokur.get("withheld"), bool) else None,
        answer=answer,
        reference=record.reference,
        sums=_SumsByName(tokens.values),
        steps=_Steps(tokens),
        alternatives=_alternatives(record),
    )


def said_answer(record: Record) -> str | None:
    """Return the answer that an earlier command left in a record."""
    said = record.tokur.get("answer")
    return said if isinstance(said, str) else None


def scored_with(record: Record) -> str:
    """Return in words what a record's uncertainties come from: ``MODEL in float32, σ 0.1, rank 8, draws 2, seed 0``.

    What the record does not say is left out.
    """
    known = {name: value for name, value in record.computed("run").items() if value is not None}
    model = " in ".join(str(known[name]) for name in ("model", "dtype") if name in known)
    words = {"sigma": "σ {}", "rank": "rank {}", "draws": "draws {}", "sampling": "{}", "seed": "seed {}"}
    return ", ".join([model, *(text.format(known[name]) for name, text in words.items() if name in known)]).strip(", ")


class _Steps(Sequence[Step]):
    """A response's steps, found when they are asked for: of a long stream, few responses are shown."""

    def __init__(self, tokens: ScoredTokens) -> None:
        self._tokens = tokens

    @cached_property
    def _found(self) -> list[Step]:
        values = self._tokens.values
        return [Step(*span, within, _SumsByName(values, within)) for span, within in self._tokens.steps()]

    def __getitem__(self, index: Any) -> Any:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)


class _SumsByName(dict[str, Mapping[str, float]]):
    """What a heat map shows of some tokens, of all without a range: see ``views.heatmap.response.Sums``.

    They are added up when they are asked for: of a long stream, few responses are shown.
    """

    def __init__(self, values: Mapping[str, Sequence[float | None]], within: range | None = None) -> None:
        super().__init__()
        self._values, self._within = values, within

    def __missing__(self, name: str) -> Mapping[str, float]:
        values, within = self._values[name], self._within
        chosen = values if within is None else values[within.start : within.stop]
        self[name] = aggregates([math.nan if one is None else one for one in chosen], QUANTITIES[name].orientation)
        return self[name]


def _alternatives(record: Record) -> dict[int, Alternatives]:
    """Return what else might have been written at a record's tokens, by their indices; nothing where it has none."""
    kept = record.tokur.get("alternatives")
    if kept is None:
        return {}
    import msgspec

    try:
        found = msgspec.convert(kept["at"], tuple[Alternatives, ...])
    except (KeyError, TypeError, msgspec.ValidationError):
        raise record.error(
            '"tokur.alternatives" is not as --alternatives writes it: score it again with that'
        ) from None
    return {one.token: one for one in found}
