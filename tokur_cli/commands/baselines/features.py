"""What scores are computed from beyond the draws: features of responses, and of sets of texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.engine.scoring.scorer import Quantities, TokenizedResponse
    from tokur_cli.engine.text.tokens import LocatedResponse

_FIRST_WINDOW, _LARGEST_WINDOW = 16, 256  # records: the first few, so that results come soon
_POSITIONS_A_RECORD = 256  # of a batch, all draws counted: a window fills it, and results come soon
_GENERATING_WINDOW = 32  # each with its attempts: enough to fill a batch, and results come soon

Features = dict[str, Any]  # features by their names in the catalogue


def are_of_sets(needs: Collection[str]) -> bool:
    """Return whether some of these features are of sets of texts."""
    return any(need.startswith("set_") for need in needs)


def over_samples(options: ScoringOptions) -> bool:
    """Return whether the responses of a question are compared with each other, so that they belong together."""
    return are_of_sets(options.needs) and options.baselines.over == "samples"


def window_sizes(options: ScoringOptions, batch_tokens: int) -> Iterator[int]:
    """Yield how many records are scored, and their features gathered, at once: 16, or more, then ever more."""
    generates = are_of_sets(options.needs) and options.baselines.over == "attempts"
    largest = _GENERATING_WINDOW if generates else min(batch_tokens // _POSITIONS_A_RECORD, _LARGEST_WINDOW)
    size = max(_FIRST_WINDOW, largest // 4)
    while True:
        yield size
        size = max(size, min(2 * size, largest))


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
    """K texts that answer one question: attempts to verify a response, or the samples of a question."""

    question: str  # what they answer, for a judge
    context: str  # what is put before each for a model that reads them alone; empty for attempts, which are sentences
    texts: Sequence[str]
    tokens: Sequence[TokenizedResponse]  # their ids, each after its prompt's
    # Log p of each text's tokens; None where no score needs them
    log_probabilities: Sequence[npt.NDArray[np.float32]] | None = None
