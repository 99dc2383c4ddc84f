"""``--scores help``: the catalogue as a table."""

from __future__ import annotations

import sys

from tokur_cli.scores.catalogue import CATALOGUE
from tokur_cli.views.tables import table_console

_LEGEND = (
    "default: computed unless --scores names others. --scores takes names, default and all, comma-separated.",
    "takes: beyond one forward pass over prompt and response. M: --draws. K: --attempts, texts that verify the",
    "response; with --over samples they are the samples of its question, and nothing is generated.",
    "Scores of one source share what they take; texts are generated once for all scores.",
)


def print_catalogue() -> None:
    """Print every score with its orientation, its cost, its source and its meaning on standard output."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for title in ("score", "better", "default", "takes", "source", "meaning"):
        table.add_column(title, no_wrap=title == "score")
    for score in CATALOGUE.values():
        better = "lower" if score.orientation == "uncertainty" else "higher"
        table.add_row(score.name, better, "yes" if score.default else "no", score.cost, score.source, score.meaning)
    with table_console(sys.stdout) as console:
        if not console.is_terminal:  # one line per score, for grep
            table.width = console.measure(table, options=console.options.update(width=10_000)).maximum
        console.print(table, crop=False)
    print("", *_LEGEND, sep="\n", flush=True)
