"""Whether a question is a multiple choice."""

from __future__ import annotations

from functools import lru_cache

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.extraction import reference_answer


@lru_cache(maxsize=1024)
def is_multiple_choice(reference: str | None) -> bool:
    """Whether a question wants a letter; only its reference can tell."""
    gold = reference_answer(reference)
    return gold is not None and canonical(gold).kind == "choice"
