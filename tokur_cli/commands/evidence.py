"""What evidence is gathered about: scored responses, and sets of texts that are compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tokur_cli.engine.scoring import Quantities, TokenisedResponse
from tokur_cli.engine.tokens import LocatedResponse
from tokur_cli.records.record import Record

Found = dict[str, Any]
"""Evidence by its names in the catalogue."""


@dataclass(frozen=True)
class Response:
    """A response that the scoring is done with.

    Args:
        record: where it stands.
        located: its tokens.
        quantities: what the scoring found.
        evidence: what was gathered beyond them, added to as it is found.
    """

    record: Record
    located: LocatedResponse
    quantities: Quantities
    evidence: Found = field(default_factory=dict)


@dataclass(frozen=True)
class TextSet:
    """K texts that answer one question: attempts to verify a response, or the samples of a question.

    Args:
        question: what they answer, for a judge.
        context: what is put before each for a model that reads them alone; empty for attempts, which are sentences.
        texts: they.
        answers: what each comes down to: an answer, or a verdict; None for nothing.
        tokens: their ids, each after its prompt's.
        log_probabilities: log p of each text's tokens; None where no score needs them.
    """

    question: str
    context: str
    texts: Sequence[str]
    answers: Sequence[str | None]
    tokens: Sequence[TokenisedResponse]
    log_probabilities: Sequence[npt.NDArray[np.float32]] | None = None
