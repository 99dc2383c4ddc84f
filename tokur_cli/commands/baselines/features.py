"""What scores are computed from beyond the draws: features of responses, and of sets of texts compared with each other.

Some of many items may fail on the way: an error takes its item's place and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.engine.scoring.scorer import Quantities, TokenizedResponse
    from tokur_cli.engine.text.tokens import LocatedResponse

A = TypeVar("A")
B = TypeVar("B")

_LARGEST_WINDOW = 256
_POSITIONS_A_RECORD = 256  # of a batch, all draws counted: a window fills it, and results come soon
_GENERATING_WINDOW = 32  # each with its attempts: enough to fill a batch, and results come soon

Features = dict[str, Any]
"""Features by their names in the catalogue."""


def are_of_sets(needs: Collection[str]) -> bool:
    """Return whether some of these features are of sets of texts."""
    return any(need.startswith("set_") for need in needs)


def over_samples(needs: Collection[str], options: BaselineOptions) -> bool:
    """Return whether the responses of a question are compared with each other, so that they belong together."""
    return are_of_sets(needs) and options.over == "samples"


def largest_window(needs: Collection[str], options: BaselineOptions, batch_tokens: int) -> int:
    """Return how many records are scored, and their features gathered, at once."""
    if are_of_sets(needs) and options.over == "attempts":
        return _GENERATING_WINDOW
    return min(batch_tokens // _POSITIONS_A_RECORD, _LARGEST_WINDOW)


@dataclass(frozen=True)
class ScoredResponse:
    """A response whose tokens have been scored, and their alternatives, where these were asked for."""

    record: Record
    located: LocatedResponse
    quantities: Quantities
    alternatives: Quantities = field(default_factory=dict)
    features: Features = field(default_factory=dict)


@dataclass(frozen=True)
class TextSet:
    """K texts that answer one question: attempts to verify a response, or the samples of a question.

    Args:
        question: what they answer, for a judge.
        context: what is put before each for a model that reads them alone; empty for attempts, which are sentences.
        texts: the texts.
        tokens: their ids, each after its prompt's.
        log_probabilities: log p of each text's tokens; None where no score needs them.
    """

    question: str
    context: str
    texts: Sequence[str]
    tokens: Sequence[TokenizedResponse]
    log_probabilities: Sequence[npt.NDArray[np.float32]] | None = None


def map_each(function: Callable[[A], B], items: Sequence[A | TokurError], what: str = "") -> list[B | TokurError]:
    """Apply a function to each item that is not an error.

    Args:
        function: may raise a TokurError, which takes the item's place.
        items: values, or the errors that stand in their place.
        what: what was tried, for errors that name no record.
    """
    results: list[B | TokurError] = []
    for item in items:
        try:
            results.append(item if isinstance(item, TokurError) else function(item))
        except RecordError as error:
            results.append(error)
        except TokurError as error:
            results.append(TokurError(f"{what}: {error}" if what else str(error)))
    return results


def gather_all(
    gatherers: Sequence[Callable[[list[A]], Sequence[Features | TokurError]]], items: Sequence[A | TokurError]
) -> list[Features | TokurError]:
    """Return what all gatherers find of each item, or why one of them finds nothing; the others then pass it over."""
    results: list[Features | TokurError] = [item if isinstance(item, TokurError) else {} for item in items]
    for gather in gatherers:
        good = [result if isinstance(result, TokurError) else item for item, result in zip(items, results, strict=True)]
        results = [
            found if isinstance(found, TokurError) or isinstance(result, TokurError) else {**result, **found}
            for result, found in zip(results, map_batch(gather, good), strict=True)
        ]
    return results


def map_batch(
    function: Callable[[list[A]], Sequence[B | TokurError]], items: Sequence[A | TokurError]
) -> list[B | TokurError]:
    """Apply a function to all items at once, leaving errors as they are."""
    results = iter(function([item for item in items if not isinstance(item, TokurError)]))
    return [item if isinstance(item, TokurError) else next(results) for item in items]
