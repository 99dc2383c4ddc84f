"""tokur: where in this answer is the model unsure, and which of these answers should I trust?

A record (one JSON line) flows ``question → response → scored → selected``; every command reads records, adds to them
and writes them.

    app            the command line, ``Tokur`` for Python, a scorer for Inspect; each group of options is a dataclass
                   of ``commands/options``, whose annotated fields are the options
    commands       a folder or file per command; ``session``: a model and what is made of it, and the one run of records
                   through it (``run``: source → windows → ``process`` → target); ``workers`` share it
    records        JSON lines to records and back: streams, foreign formats, resuming; data sets and tables.
                   A new format: ``records/formats``
    engine         the only room that imports torch and transformers, and that knows no record
    scores         from a response's per-token numbers to scores. A new score: ``scores/catalogue``; a new number per
                   token: ``scores/quantities`` and ``engine/scoring/quantities``
    answers        answers extracted from responses, compared and graded; code run
    selection      the best of N by votes
    metrics        how well scores tell correct from incorrect. A new metric: ``metrics/catalogue``
    views          heat maps, tables and plots

Imports go one way: ``app → commands → {engine, scores, answers, selection, metrics, views} → records``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokur_cli.app.python import Tokur

__all__ = ["Tokur", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that importing the package costs nothing."""
    if name != "Tokur":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tokur_cli.app.python import Tokur

    return Tokur
