"""``--scores help``: the catalogue as a table."""

from __future__ import annotations

from tokur_cli.scores.catalogue import CATALOGUE

_LEGEND = (
    "default: computed unless --scores names others. --scores takes names, default and all, comma-separated.",
    "takes: beyond one forward pass over prompt and response. M: --draws. K: --attempts, texts that verify the",
    "response; with --over samples they are the samples of its question, and nothing is generated.",
    "Scores of one source share what they take; texts are generated once for all scores.",
)


def print_catalogue() -> None:
    """Print every score with its orientation, its cost, its source and its meaning on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for title in ("score", "better", "default", "takes", "source", "meaning"):
        table.add_column(title, no_wrap=title == "score")
    for score in CATALOGUE.values():
        better = "lower" if score.orientation == "uncertainty" else "higher"
        table.add_row(score.name, better, "yes" if score.default else "no", score.cost, score.source, score.meaning)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:  # one line per score, for grep
        table.width = console.measure(table, options=console.options.update(width=10_000)).maximum
    with console.capture() as printed:  # rich pads the last column, too
        console.print(table, crop=False)
    print(*(line.rstrip() for line in printed.get().splitlines()), "", *_LEGEND, sep="\n", flush=True)
