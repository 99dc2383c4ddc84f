"""``--tokens``, which several commands have: the parts of responses that have scores of their own."""

from __future__ import annotations

from typing import Any

from typer import Option


def tokens_option(panel: str | None = None) -> Any:
    """Return the option, to annotate a list of texts with; ``parse_parts`` reads them.

    Args:
        panel: of the help; None for the group's.
    """
    return Option(
        "--tokens",
        metavar="NAME=REGEX",
        help="Scores of only the tokens whose text holds a match, beside those of all: with 'digits=\\d', eu@digits is "
        "eu of the tokens with a digit. May be given several times.",
        rich_help_panel=panel,
    )
