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
        help="Scores of only the tokens whose text holds a match: eu@digits for 'digits=\\d'. They stand beside those "
        "of all tokens; an option that names scores must name them, too. May be given several times.",
        rich_help_panel=panel,
    )
