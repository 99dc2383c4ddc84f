"""tokur: where in this answer is the model unsure, and which of these answers should I trust?

A record (one JSON line) flows ``question → response → scored → selected``; every command reads records, adds to them
and writes them. ``tokur score FILE`` goes this way:

    app            the command line, ``Tokur`` for Python, a scorer for Inspect; each group of options is a dataclass
                   of ``commands/options``
    commands       a folder per command; ``session``: a model at work, and the jobs that it is given, whose records are
                   lines of files or dicts; ``score/pipeline`` takes windows of records through it, ``workers`` have
                   that done by several processes
    records        JSON lines to records and back: streams, foreign formats, resuming; data sets and tables
                   (``published``). A new format: ``records/formats``
    engine         the only room that imports torch and transformers, and that knows no record: ``loading`` a model,
                   ``posterior`` (its draws), ``uncertainty`` (draws together through the model, numbers per token),
                   ``generation`` (guided by uncertainty too), ``baselines``
    scores         from a response's per-token numbers to scores. A new score: ``scores/catalogue``; a new
                   number per token: ``engine/uncertainty/vocabulary`` and ``scores/quantities``
    answers        answers extracted from responses (``reading``: numbers, units and words in any language), compared
                   and graded; code run; a data set's own rule (``rules``);
                   how a record gets its answer and its label (``judging``), which ``commands/shared/labelled`` reads
    selection      the best of N by votes
    metrics        how well scores tell right from wrong. A new metric: ``metrics/catalogue``
    views          heat maps, tables and plots

One record's way through ``tokur score FILE``, by the files that it enters (a test counts them):

    in          records/streams, containers, scan, record, reader
    tokens      commands/score/windows, pipeline (a window of records); commands/shared/prompts;
                engine/text/chat, templates, tokens, panics
    batches     engine/scoring/scorer; engine/forward/prefix_tree; engine/halving
    passes      engine/uncertainty/perturbed; engine/body; engine/loading/reordered (the model's
                linear maps, on a CPU); engine/uncertainty/vocabulary, distributions
    scores      scores/catalogue
    out         records/record, encoding, writer; commands/shared/progress

A new command: its options in ``commands/options``, its work in ``commands``, its place in ``app``. Imports go one way:
``app → commands → {engine, scores, answers, selection, metrics, views} → records``.
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
