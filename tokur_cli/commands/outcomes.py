"""Steps over many items, some of which fail: an error takes its item's place and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tokur_cli.records.errors import RecordError, TokurError

A = TypeVar("A")
B = TypeVar("B")


def tried(function: Callable[[A], B], items: Sequence[A | TokurError], what: str = "") -> list[B | TokurError]:
    """Apply a function to each item that is no error.

    Args:
        function: may raise a TokurError, which takes the item's place.
        items: they.
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


def together(
    function: Callable[[list[A]], Sequence[B | TokurError]], items: Sequence[A | TokurError]
) -> list[B | TokurError]:
    """Apply a function to all items at once that are no errors.

    Args:
        function: from items to as many results.
        items: they.
    """
    results = iter(function([item for item in items if not isinstance(item, TokurError)]))
    return [item if isinstance(item, TokurError) else next(results) for item in items]
