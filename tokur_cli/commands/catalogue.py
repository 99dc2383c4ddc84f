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
    rows = [("score", "better", "default", "takes", "source", "meaning")]
    for score in CATALOGUE.values():
        better = "lower" if score.orientation == "uncertainty" else "higher"
        rows.append(
            (score.name, better, "yes" if score.default else "no", str(score.cost), score.source, score.meaning)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print("", *_LEGEND, sep="\n")
